"""One use of a thing of the VM that is counted: a share, a disk."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Lease:
    """`guest_path` is where the guest sees it."""

    __slots__ = ("_free", "guest_path")

    def __init__(self, guest_path: str, free: Callable[[], None]) -> None:
        self.guest_path = guest_path
        self._free = free

    def release(self) -> None:
        self._free()
