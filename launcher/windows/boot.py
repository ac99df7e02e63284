"""The first Python code of our Windows programs: it imports modules from one file instead of searching directories.

An import by path makes dozens of system calls per module (directory listings, several names, their times), for a
hundred modules. Here all modules are in lib/modules.bin: a u32 length, the marshalled index {name: (offset, length,
is_package, SHA-256)}, then the marshalled code of each module. The file stays open, so reading a module is one call.

The launcher contains this text, with the SHA-256 of the index, and runs it. The index is verified when a program starts
and each module when it is loaded: what runs is what the build has put into the signed launcher, and the hash costs time
only for modules that are used.
"""

import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _thread import allocate_lock
from marshal import loads
from nt import O_BINARY, O_NOINHERIT, O_RDONLY, _exit, lseek, read
from nt import open as open_file

from _sha2 import sha256

INDEX_DIGEST = "@INDEX_DIGEST@"  # in the launcher, build.py has put the digest here


class Bundle:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = open_file(folder + "\\modules.bin", O_RDONLY | O_BINARY | O_NOINHERIT)
        length = int.from_bytes(read(self._file, 4), "little")
        index = read(self._file, length)
        if sha256(index).hexdigest() != INDEX_DIGEST:
            self._refuse("its index")
        self._index = loads(index)
        self._begin = 4 + length
        self._lock = allocate_lock()

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        entry = self._index.get(name)
        if entry is None:
            return None
        if isinstance(entry, str):  # an extension module
            origin = f"{self._folder}\\{entry}"
            return ModuleSpec(name, ExtensionFileLoader(name, origin), origin=origin)
        return ModuleSpec(name, self, origin=name, is_package=entry[2])

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        name = module.__spec__.name
        offset, length, is_package, digest = self._index[name]
        # Some modules look for files beside their own.
        module.__file__ = "\\".join([self._folder, *name.split("."), *["__init__"] * is_package]) + ".pyc"
        with self._lock:
            lseek(self._file, self._begin + offset, 0)
            code = read(self._file, length)
        if sha256(code).digest() != digest:
            self._refuse(name)
        exec(loads(code), module.__dict__)

    def _refuse(self, what: str) -> None:
        text = f"{self._folder}\\modules.bin is not the file of this version: {what} was changed or is damaged"
        sys.stderr.write(f"cannot run: {text}; unpack the whole distribution again\n")
        sys.stderr.flush()
        _exit(1)

    def names(self) -> list[str]:
        return list(self._index)


# After the importers of built-in and frozen modules.
sys.meta_path.insert(2, Bundle(sys.path[0]))
