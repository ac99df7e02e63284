"""Watches the files of all loaded modules for changes.

A standby must never run code that differs from what is installed. Checking some hundred files before every command
would take longer than the command, so inotify reports changes, and a check of a few files covers what inotify cannot
see: a whole directory that was moved away, a Python that was upgraded.
"""

from __future__ import annotations

import posix
import select
import sys

from shim.platform._libc_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# inotify(7): modify, close after writing, moved from, moved to, create, delete, delete self, move self.
_EVENTS = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_ONLYDIR = 0x01000000
_NONBLOCK_CLOEXEC = posix.O_NONBLOCK | posix.O_CLOEXEC


class SourceWatch:
    __slots__ = ("_few", "_files", "_poll", "descriptor")

    def __init__(self, package: str, *others: str) -> None:
        """Watch the modules that are loaded now, and other files. Those of `package` may be edited; the rest belongs to
        the system and is replaced with the interpreter."""
        loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        paths = sorted({path for path in loaded if path} | set(others) | {sys.executable})
        self._files = [(path, _stamp(path)) for path in paths]
        inside = sys.modules[package].__file__ or ""
        root = inside.rpartition("/")[0]
        few = {*others, sys.executable, inside, *(path for path in paths if path.endswith(".so") and "site-" in path)}
        self._few = [(path, stamp) for path, stamp in self._files if path in few]
        directories = {path.rpartition("/")[0] for path in paths if path.startswith(f"{root}/")}
        self.descriptor = _watch(sorted(directories))
        self._poll = select.poll()
        if self.descriptor >= 0:
            self._poll.register(self.descriptor, select.POLLIN)

    def newest(self) -> int:
        """The newest modification time, in nanoseconds."""
        return max((stamp[0] for _, stamp in self._files if stamp is not None), default=0)

    def unchanged(self) -> bool:
        """The fast check, for every command."""
        if self.descriptor < 0:
            return self.all_unchanged()
        return not self._poll.poll(0) and all(_stamp(path) == stamp for path, stamp in self._few)

    def close(self) -> None:
        if self.descriptor >= 0:
            posix.close(self.descriptor)

    def all_unchanged(self) -> bool:
        """The full check, for idle time."""
        return all(_stamp(path) == stamp for path, stamp in self._files)


def _watch(directories: list[str]) -> int:
    """An inotify descriptor, readable after a change in the directories; -1 if inotify is not available."""
    libc: Any = ffi.dlopen(None)
    descriptor = int(libc.inotify_init1(_NONBLOCK_CLOEXEC))
    if descriptor < 0:
        return -1
    for directory in directories:
        if libc.inotify_add_watch(descriptor, directory.encode("utf-8", "surrogateescape"), _EVENTS | _ONLYDIR) < 0:
            posix.close(descriptor)
            return -1
    return descriptor


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = posix.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
