"""The first Python code of our Windows programs: it imports modules from one file instead of searching directories.

An import by path makes dozens of system calls per module (directory listings, several names, their times), for a
hundred modules. Here all modules are in lib/modules.bin: a u32 length, the marshalled index {name: (offset, length,
is_package)}, then the marshalled code of each module. The file stays open, so reading a module is one call.

The launcher contains this text and runs it.
"""

import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _thread import allocate_lock
from marshal import loads
from nt import O_BINARY, O_NOINHERIT, O_RDONLY, lseek, read
from nt import open as open_file


class Bundle:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = open_file(folder + "\\modules.bin", O_RDONLY | O_BINARY | O_NOINHERIT)
        length = int.from_bytes(read(self._file, 4), "little")
        self._index = loads(read(self._file, length))
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
        offset, length, is_package = self._index[name]
        # Some modules look for files beside their own.
        module.__file__ = "\\".join([self._folder, *name.split("."), *["__init__"] * is_package]) + ".pyc"
        with self._lock:
            lseek(self._file, self._begin + offset, 0)
            code = read(self._file, length)
        exec(loads(code), module.__dict__)

    def names(self) -> list[str]:
        return list(self._index)


# After the importers of built-in and frozen modules.
sys.meta_path.insert(2, Bundle(sys.path[0]))
