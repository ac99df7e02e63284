"""Delayed calls. One thread while calls are waiting, none otherwise."""

from __future__ import annotations

from _heapq import heappop, heappush
from _thread import allocate_lock
from time import monotonic

from shim.threads import for_own_pod, run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_lock = allocate_lock()
_waiting: list[tuple[float, int, Callable[[], object]]] = []
_count = 0
_running = False
# Held; released to wake the thread early.
_wake = allocate_lock()
_wake.acquire()


def after(seconds: float, function: Callable[[], object]) -> None:
    """Call `function` in the timer's thread after `seconds`. If it blocks, later calls are delayed."""
    global _count, _running
    with _lock:
        _count += 1
        heappush(_waiting, (monotonic() + seconds, _count, for_own_pod(function)))
        if not _running:
            run_soon(_loop)
            _running = True
        elif _waiting[0][1] == _count and _wake.locked():
            _wake.release()


def _loop() -> None:
    global _running
    while True:
        with _lock:
            if not _waiting:
                _running = False
                return
            delay = _waiting[0][0] - monotonic()
            function = heappop(_waiting)[2] if delay <= 0 else None
        if function is None:
            _wake.acquire(timeout=delay)
            continue
        try:
            function()
        except Exception:
            import sys

            sys.excepthook(*sys.exc_info())
        del function
