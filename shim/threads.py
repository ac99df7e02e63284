"""Threads for work that must not be lost, however many threads and however much memory there are.

The system refuses a new thread when a limit on processes (a pids cgroup, RLIMIT_NPROC) or the memory is exhausted.
What follows an exit, a lost VM or a due deadline must happen nevertheless: nobody would try again. `run_soon` therefore
never fails in a daemon. A function for which there is no thread now is kept, and the daemon's main thread, which exists
from the start and otherwise only waits for the shutdown, starts it as soon as the system allows.

If the system allows none for GIVE_UP_SECONDS, the daemon logs that and exits: containerd notices, and its `delete`
cleans up. The Go runtime exits at once in this situation.

A call that a client is waiting for needs none of this: it fails, and the client gets the error.

In a daemon that serves several pods a thread has the name of its pod, and passes it on to the threads that it starts.
So stacks and errors can be told apart (`shim.commands.shared`).
"""

from __future__ import annotations

import _thread
from _thread import allocate_lock, get_ident, start_new_thread
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

RETRY_SECONDS = 0.1
GIVE_UP_SECONDS = 30.0
# Without a daemon's main thread (in a command or a tool) the caller itself tries again, for this long.
CALLER_SECONDS = 1.0
# How many threads `run_parallel` uses.
PARALLEL = 64

_lock = allocate_lock()
_waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
_wake: Callable[[], object] | None = None
# The pod of each thread that has one; empty in a daemon of one pod.
_pods: dict[int, str] = {}


def run_soon(function: Callable[..., object], *arguments: Any) -> None:
    """Run the function in a new thread, as soon as there can be one."""
    if _pods and (pod := _pods.get(get_ident())):
        function, arguments = run_for_pod, (pod, function, *arguments)
    try:
        start_new_thread(function, arguments)
    except (RuntimeError, MemoryError):
        _run_later(function, arguments)


def start_thread(function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    """Run the function in a new thread. RuntimeError or MemoryError if there can be none."""
    if _pods and (pod := _pods.get(get_ident())):
        function, arguments = run_for_pod, (pod, function, *arguments)
    _thread.start_new_thread(function, arguments)


def run_for_pod(pod: str, function: Callable[..., object], *arguments: Any) -> None:
    """Run the function with this thread named after the pod."""
    ident = get_ident()
    before = _pods.get(ident)
    _pods[ident] = pod
    try:
        function(*arguments)
    finally:
        if before is None:
            del _pods[ident]
        else:
            _pods[ident] = before


def for_own_pod(function: Callable[..., object]) -> Callable[..., object]:
    """A callback that another thread will run: with the name of the pod of the current one."""
    if not _pods or not (pod := _pods.get(get_ident())):
        return function
    return lambda *arguments: run_for_pod(pod, function, *arguments)


def pods() -> dict[int, str]:
    """The pod of each thread that has one."""
    return dict(_pods)


def current_pod() -> str:
    return _pods.get(get_ident(), "")


def set_keeper(wake: Callable[[], object] | None) -> None:
    """`wake` wakes the thread that calls `start_waiting`. None: there is no such thread any more."""
    global _wake
    with _lock:
        _wake = wake


def is_waiting() -> bool:
    """Whether there is work without a thread."""
    return bool(_waiting)


def start_waiting(is_stopping: Callable[[], bool]) -> list[str]:
    """Start what waits for a thread, and try until all is started or `is_stopping`. Returns the names of functions that
    have waited for GIVE_UP_SECONDS, after which the process cannot do its work."""
    deadline = monotonic() + GIVE_UP_SECONDS
    while not is_stopping():
        with _lock:
            if not _waiting:
                return []
            function, arguments = _waiting[0]
            try:
                start_new_thread(function, arguments)
            except (RuntimeError, MemoryError):
                if monotonic() >= deadline:
                    return [getattr(waiting, "__qualname__", "?") for waiting, _ in _waiting]
            else:
                del _waiting[0]
                deadline = monotonic() + GIVE_UP_SECONDS
                continue
        sleep(RETRY_SECONDS)
    return []


def _run_later(function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    with _lock:
        wake = _wake
        if wake is not None:
            _waiting.append((function, arguments))
    if wake is not None:
        wake()
        return
    deadline = monotonic() + CALLER_SECONDS
    while True:
        sleep(RETRY_SECONDS)
        try:
            start_new_thread(function, arguments)
            return
        except (RuntimeError, MemoryError):
            if monotonic() >= deadline:
                raise


def run_parallel(calls: Sequence[Callable[[], object]], timeout: float) -> bool:
    """Run the calls, which must not raise, in threads. False: not all of them have returned within the timeout. Calls
    that have not begun by then are left out."""
    deadline = monotonic() + timeout
    left = list(reversed(calls))
    running = min(len(left), PARALLEL)
    lock, done = allocate_lock(), allocate_lock()
    done.acquire()

    def work() -> None:
        nonlocal running
        try:
            while monotonic() < deadline:
                with lock:
                    if not left:
                        return
                    call = left.pop()
                call()
        finally:
            with lock:
                running -= 1
                is_last = not running
            if is_last:
                done.release()

    for _ in range(running):
        run_soon(work)
    return not calls or (done.acquire(timeout=max(0.0, deadline - monotonic())) and not left)
