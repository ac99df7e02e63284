"""Print the names of all modules that our programs can import: `python.exe closure.py LIBRARY ROOT EXCLUDED MODULE …`.

LIBRARY is a list of directories with the standard library and other packages, separated by semicolons, ROOT the
directory of our packages, EXCLUDED a list of modules, separated by commas, that are not followed. Every import is
followed from the MODULEs on (`package.*` is all of a package), also those in functions and behind conditions. Modules
that are imported by name, as codecs are, are added by the caller.
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
    library, root, excluded, *roots = sys.argv[1:]
    excludes = excluded.split(",")
    finder = modulefinder.ModuleFinder([root, *library.split(os.pathsep)], excludes=excludes)
    for name in roots:
        for module in modules_of(root, name[:-2]) if name.endswith(".*") else [name]:
            if not any(f"{module}.".startswith(f"{other}.") for other in excludes):
                finder.import_hook(module)
    for name, module in sorted(finder.modules.items()):
        if module.__file__:
            print(name)


if __name__ == "__main__":
    main()
