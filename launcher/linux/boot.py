"""The first Python code of a shim: it imports the shim's modules from one file instead of searching directories.

An import by path lists directories, tries names and compares times: five to ten system calls and a hundred steps of
importlib for each module. `runhcs install` compiles the shim's modules once, into one file, the bundle. It begins with
the modules that the commands and a daemon's first answer need. They are read at once; that memory is released when any
other module is imported. The index and the code of the other modules follow.

A module is used only if the size and time of its source are those at installation, which takes one `stat`. A changed
or removed source is imported by path, so a checkout can be edited, and a package upgraded, under an installed launcher.

The paths of extension modules of the standard library are recorded, too; one that has moved is searched for.

`bundle.py` compiles this file with a last line that calls `run`.
"""

import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from marshal import loads
from posix import O_CLOEXEC, O_RDONLY, close, pread, stat
from posix import open as open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Of a module: path, time and size of the source; offset and length of the code in the bundle.
    Entry = tuple[str, int, int, int, int]


class Bundle:
    """Finder and loader of the modules that were compiled at installation."""

    def __init__(
        self, root: str, modules: "dict[str, Entry]", extensions: "dict[str, str]", file: str, first: int, index: int
    ) -> None:
        self._root = root
        self._extensions = extensions
        self._modules = modules
        self._file = file
        self._first: memoryview | None = memoryview(self._read(0, first))
        self._index_offset = first
        self._index_length = index  # 0 when it has been read

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        entry = self._modules.get(name)
        if entry is None:
            if name in self._extensions:
                return self._find_extension(name)
            if not self._index_length or not name.startswith("shim."):
                return None
            entry = self._read_index().get(name)
            if entry is None:
                return None
        source, time, size, offset, length = entry
        origin = f"{self._root}/{source}"
        try:
            status = stat(origin)
            if status.st_mtime_ns != time or status.st_size != size:
                return None
            first = self._first
            code = self._read(offset, length) if first is None else first[offset : offset + length]
        except OSError:
            return None
        spec = ModuleSpec(name, self, origin=origin, loader_state=code)  # type: ignore[arg-type]
        if source.endswith("/__init__.py"):
            spec.submodule_search_locations = [origin[: -len("/__init__.py")]]
        return spec

    def _find_extension(self, name: str) -> object:
        path = self._extensions[name]
        try:
            stat(path)
        except OSError:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
        spec.has_location = True
        return spec

    def _read_index(self) -> "dict[str, Entry]":
        """The index of all modules. Threads that import at the same moment may read it twice; none may take it for read
        before it is."""
        length = self._index_length
        if length:
            try:
                self._modules = loads(self._read(self._index_offset, length)) | self._modules
            except OSError:
                pass
            self._index_length, self._first = 0, None
        return self._modules

    def _read(self, offset: int, length: int) -> bytes:
        descriptor = open_file(self._file, O_RDONLY | O_CLOEXEC)
        try:
            data = pread(descriptor, length, offset)
        finally:
            close(descriptor)
        if len(data) != length:
            raise OSError("the bundle is truncated")
        return data

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        spec = module.__spec__  # type: ignore[attr-defined]
        code, spec.loader_state = spec.loader_state, None
        module.__file__ = spec.origin  # type: ignore[attr-defined]
        exec(loads(code), module.__dict__)


def run(
    root: str, packages: str, modules: "dict[str, Entry]", extensions: "dict[str, str]", file: str, *lengths: int
) -> None:
    # A directory before the standard library would be searched for each of its modules: ours come last.
    sys.path += [root, packages]
    try:
        bundle = Bundle(root, modules, extensions, file, *lengths)
    except OSError:
        pass  # an installation has just replaced the file: import everything by path
    else:
        sys.meta_path.insert(0, bundle)  # type: ignore[arg-type]
    from shim.__main__ import command

    command()
