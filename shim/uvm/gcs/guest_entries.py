"""What a guest may write to the host's log: entries at a limited rate, with fields whose names cannot be mistaken.

A guest is not trusted. The names of fields come from it, and the shim's log becomes containerd's: a name with a newline
would forge a line. And a guest must not fill the host's disk.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shim.logs import Log

# Entries per second on average, and at once.
RATE = 200.0
BURST = 1000.0
# The same in bytes: an entry may be long.
BYTE_RATE = 128.0 * 1024
BYTE_BURST = 1024.0 * 1024
MAX_FIELDS = 32
MAX_NAME = 64
# A read of this many bytes is a flood, even if nothing of it is logged. Reading pauses after it, and after each piece
# of a log that is above the rate, so that it needs at most a tenth of a processor.
FLOOD_BYTES = 4096
PAUSE_SECONDS = 0.01
LONGEST_PAUSE = 1.0

_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
# Fields with which the shim says what an entry is about.
_OURS = frozenset(("uvm-id", "tid", "eid"))


def safe_fields(entry: dict[str, object], without: Iterable[str] = (), prefix: str = "") -> dict[str, object]:
    """The fields of an entry but for `without`, at most MAX_FIELDS. Other characters in names become `_`."""
    fields: dict[str, object] = {}
    for name, value in entry.items():
        if name in without:
            continue
        if len(fields) == MAX_FIELDS:
            break
        shown = prefix + "".join(char if char in _IN_NAMES else "_" for char in name[:MAX_NAME])
        fields[f"guest.{shown}" if not shown or shown in _OURS else shown] = value
    return fields


def pause_after(begun: float) -> None:
    """Pause reading; `begun` is when the last piece was read, in monotonic seconds."""
    time.sleep(min(LONGEST_PAUSE, max(PAUSE_SECONDS, 9 * (time.monotonic() - begun))))


class RateLimit:
    """A token bucket for entries, and one for their bytes. What they do not let through is counted, and the count is
    logged. `clock` is for tests."""

    __slots__ = ("_bytes", "_clock", "_dropped", "_log", "_refilled", "_tokens")

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._tokens = BURST
        self._bytes = BYTE_BURST
        self._refilled = clock()
        self._dropped = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the last entry was dropped."""
        return self._dropped > 0

    def take(self, size: int) -> bool:
        """Whether one more entry of this many bytes may be logged now."""
        now = self._clock()
        elapsed, self._refilled = now - self._refilled, now
        self._tokens = min(BURST, self._tokens + elapsed * RATE)
        self._bytes = min(BYTE_BURST, self._bytes + elapsed * BYTE_RATE)
        if self._tokens < 1 or self._bytes < size:
            self._dropped += 1
            return False
        self._tokens -= 1
        self._bytes -= size
        self.report()
        return True

    def report(self) -> None:
        """Log how many entries were dropped since the last report, if any."""
        if self._dropped:
            self._log.warning("guest log entries dropped: too many per second", count=self._dropped)
            self._dropped = 0
