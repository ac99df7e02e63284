"""A pool of threads for handlers that may block: as many as needed, and idle ones end soon.

There is no upper bound on purpose: with one, hanging calls could block Kill. Only the idle time of a thread is bounded.
The thread that became idle last is used first, so surplus threads time out.

Where several pods share a process, each has a bounded pool of its own (`BoundedWorkers`), so that hanging calls of one
pod cannot use up the threads of all; Kill and Delete have another one.
"""

from __future__ import annotations

from _thread import allocate_lock

from shim.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from typing import Any

IDLE_SECONDS = 10.0


class _Worker:
    __slots__ = ("task", "wake")

    def __init__(self, task: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
        self.task: tuple[Callable[..., None], tuple[Any, ...]] | None = task
        self.wake = allocate_lock()
        self.wake.acquire()


class Workers:
    __slots__ = ("_closed", "_idle", "_idle_seconds", "_lock")

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._lock: LockType = allocate_lock()
        self._idle: list[_Worker] = []
        self._idle_seconds = idle_seconds
        self._closed = False

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run the function, which must not raise, in a thread. Raises RuntimeError if no thread can be started."""
        task = (function, arguments)
        with self._lock:
            if self._idle:
                worker = self._idle.pop()
                worker.task = task
                worker.wake.release()
                return
        start_thread(self._run, (_Worker(task),))

    def close(self) -> None:
        """End idle threads now and busy ones when they are done."""
        with self._lock:
            self._closed = True
            for worker in self._idle:
                worker.wake.release()
            self._idle.clear()

    def _run(self, worker: _Worker) -> None:
        while worker.task is not None:
            function, arguments = worker.task
            worker.task = None
            function(*arguments)
            del function, arguments  # an idle thread must not reference a call
            with self._lock:
                if self._closed:
                    return
                self._idle.append(worker)
            if not worker.wake.acquire(True, self._idle_seconds):
                with self._lock:
                    if worker in self._idle:
                        self._idle.remove(worker)
                        return
                worker.wake.acquire()  # it was given a task at the last moment


class BoundedWorkers(Workers):
    """At most `limit` functions at a time; another one is refused at once."""

    __slots__ = ("_busy", "_limit")

    def __init__(self, limit: int, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__(idle_seconds)
        self._limit = limit
        self._busy = 0

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Raises RuntimeError if `limit` functions are running, too."""
        with self._lock:
            if self._busy >= self._limit:
                raise RuntimeError(f"{self._limit} calls of this pod are running, the limit: see runhcs stacks")
            self._busy += 1
        try:
            super().submit(self._run_one, function, arguments)
        except BaseException:
            self._end_one()
            raise

    def _run_one(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            function(*arguments)
        finally:
            self._end_one()

    def _end_one(self) -> None:
        with self._lock:
            self._busy -= 1
