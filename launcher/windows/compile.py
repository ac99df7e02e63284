"""Compile Python sources with the interpreter that will run the bytecode:
`python.exe -X no_debug_ranges compile.py ROOT TARGET LIST`.

LIST is a file with a line for each module: `KIND path/of/module.py`. KIND is `stripped` (launcher/common/bytecode.py)
or `whole`.

The output is `name.pyc` in place of `name.py`, so an import does not check the time of a source. File names in
tracebacks are relative, so that the bytes do not depend on where the build ran.
"""

import importlib
import importlib.util
import marshal
import os
import sys

HASH_BASED_UNCHECKED = (1).to_bytes(4, "little")


def compile_file(root: str, target: str, name: str, kind: str) -> None:
    with open(os.path.join(root, name), "rb") as file:
        text = file.read()
    if kind == "stripped":
        code = bytecode.compile_stripped(text, name)
    else:
        code = compile(text, name, "exec", dont_inherit=True)
    output = os.path.join(target, name + "c")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    with open(output, "wb") as file:
        file.write(importlib.util.MAGIC_NUMBER + HASH_BASED_UNCHECKED)
        file.write(importlib.util.source_hash(text) + marshal.dumps(code))


if __name__ == "__main__":
    sources, destination, listing = sys.argv[1:]
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
    bytecode = importlib.import_module("bytecode")
    with open(listing, encoding="utf-8") as lines:
        for line in lines:
            kind, path = line.split()
            compile_file(sources, destination, path, kind)
