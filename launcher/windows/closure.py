"""Which modules our programs can ever load: `python.exe closure.py LIBRARY ROOT NEVER MODULE …` prints their names.

LIBRARY is the standard library, unpacked, ROOT where our packages are. Every import is followed from the MODULEs on
(`package.*` is all of a package), also those in functions and behind conditions; NEVER is a list of modules, divided
by commas, that are not looked at. What is loaded by name alone, as codecs are, is for the caller to add.
"""

import modulefinder
import os
import sys


def modules_of(root: str, package: str) -> list[str]:
    found = []
    for directory, folders, names in os.walk(os.path.join(root, package)):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.relpath(os.path.join(directory, name), root)
                found.append(path[: -len(".py")].replace(os.sep, ".").removesuffix(".__init__"))
    return found


def main() -> None:
    library, root, excluded, *wanted = sys.argv[1:]
    never = excluded.split(",")
    finder = modulefinder.ModuleFinder([root, library], excludes=never)
    for name in wanted:
        for one in modules_of(root, name[:-2]) if name.endswith(".*") else [name]:
            if not any(f"{one}.".startswith(f"{other}.") for other in never):
                finder.import_hook(one)
    for name, module in sorted(finder.modules.items()):
        if module.__file__:
            print(name)


if __name__ == "__main__":
    main()
