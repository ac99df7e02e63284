"""Named pipes of the host that a VM can open, counted, so that containers can have them in common."""

from __future__ import annotations

from threading import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PATH = "VirtualMachine/Devices/MappedPipes/"


class Pipes:
    """`modify` changes the VM."""

    def __init__(self, modify: Callable[[dict[str, Any]], None]) -> None:
        self._modify = modify
        self._lock = Lock()
        self._users: dict[str, int] = {}

    def add(self, path: str) -> None:
        with self._lock:
            if path not in self._users:
                self._modify({"ResourcePath": PATH + path, "RequestType": "Add"})
            self._users[path] = self._users.get(path, 0) + 1

    def remove(self, path: str) -> None:
        with self._lock:
            self._users[path] -= 1
            if not self._users[path]:
                del self._users[path]
                self._modify({"ResourcePath": PATH + path, "RequestType": "Remove"})
