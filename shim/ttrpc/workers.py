"""A pool of threads for handlers that may block: as many as needed, and idle ones end soon.

There is no upper bound on purpose: with one, hanging calls could block Kill. Only the idle time of a thread is bounded.
The thread that became idle last is used first, so surplus threads time out.

Where several pods share a process, each has a bounded pool of its own (`BoundedWorkers`), so that hanging calls of one
pod cannot use up the threads of all; Kill and Delete have another one. Calls beyond the bound wait for their turn. They
are refused only if no call of the pool ends for a while.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from shim.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from typing import Any

    from shim.ttrpc.deadlines import Deadlines

    Task = tuple[Callable[..., None], tuple[Any, ...]]

IDLE_SECONDS = 10.0
#: If no function of a full pool ends for this long, those that wait are refused.
WAIT_SECONDS = 5.0
MAX_WAITING = 1024


class _Worker:
    __slots__ = ("task", "wake")

    def __init__(self, task: Task) -> None:
        self.task: Task | None = task
        self.wake = allocate_lock()
        self.wake.acquire()


class Workers:
    __slots__ = ("_closed", "_idle", "_idle_seconds", "_lock")

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._lock: LockType = allocate_lock()
        self._idle: list[_Worker] = []
        self._idle_seconds = idle_seconds
        self._closed = False

    def submit(self, function: Callable[..., None], late: Callable[..., None], *arguments: Any) -> None:
        """Run the function, which must not raise, in a thread. Raises RuntimeError if no thread can be started.

        If it has to wait for its turn, `late` is called instead, with None before the arguments when the turn has come,
        or with the reason why it does not come."""
        del late
        self._start((function, arguments))

    def _start(self, task: Task) -> None:
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


class _Waiting:
    """A function that waits for its turn."""

    __slots__ = ("_pool", "arguments", "deadline", "done", "late", "since")

    def __init__(self, pool: BoundedWorkers, late: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._pool = pool
        self.late = late
        self.arguments = arguments
        #: From `since` to the deadline a function of the pool must end, or it hangs.
        self.since = 0.0
        self.deadline: float | None = None
        #: It waits no more.
        self.done = False

    def expire(self) -> None:
        self._pool.expire(self)


class BoundedWorkers(Workers):
    """At most `limit` functions at a time. Others wait, in order, while functions end."""

    __slots__ = ("_busy", "_deadlines", "_ended_at", "_hangs", "_limit", "_wait_seconds", "_waiting")

    def __init__(
        self,
        limit: int,
        deadlines: Deadlines,
        idle_seconds: float = IDLE_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        super().__init__(idle_seconds)
        self._limit = limit
        self._deadlines = deadlines
        self._wait_seconds = wait_seconds
        self._busy = 0
        self._waiting: list[_Waiting] = []
        self._ended_at = 0.0
        #: None has ended for so long that others were refused. Until one ends, all others are refused at once.
        self._hangs = False

    @property
    def _reason(self) -> str:
        return f"{self._limit} calls of this pod are running, the limit: see runhcs stacks"

    def submit(self, function: Callable[..., None], late: Callable[..., None], *arguments: Any) -> None:
        """Raises RuntimeError if the functions of this pool hang, too."""
        with self._lock:
            if self._busy >= self._limit:
                if self._hangs or self._closed or len(self._waiting) >= MAX_WAITING:
                    raise RuntimeError(self._reason)
                waiting = _Waiting(self, late, arguments)
                self._set_deadline(waiting, monotonic())
                self._waiting.append(waiting)
            else:
                waiting = None
                self._busy += 1
        if waiting is not None:
            self._deadlines.watch(waiting)
            return
        try:
            self._start((self._run_in_turn, (function, arguments)))
        except BaseException:
            with self._lock:
                self._busy -= 1
            raise

    def _set_deadline(self, waiting: _Waiting, since: float) -> None:
        waiting.since, waiting.deadline = since, since + self._wait_seconds

    def expire(self, waiting: _Waiting) -> None:
        """Refuse it, unless a function has ended since it was last considered."""
        with self._lock:
            if waiting.done:
                return
            is_moving = self._ended_at > waiting.since
            if is_moving:
                self._set_deadline(waiting, self._ended_at)
            else:
                self._hangs = waiting.done = True
                self._waiting.remove(waiting)
        if is_moving:
            self._deadlines.watch(waiting)
        else:
            waiting.late(self._reason, *waiting.arguments)

    def close(self) -> None:
        super().close()
        with self._lock:
            refused, self._waiting = self._waiting, []
            for waiting in refused:
                waiting.done = True
        for waiting in refused:
            waiting.late("the server is shutting down", *waiting.arguments)

    def _run_in_turn(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Run a function, and then those that wait."""
        task: Task | None = (function, arguments)
        del function, arguments
        while task is not None:
            try:
                task[0](*task[1])
            except BaseException:
                self._hand_on()  # this thread ends
                raise
            task = self._next()

    def _hand_on(self) -> None:
        """Let another thread run what waits."""
        if (following := self._next()) is None:
            return
        try:
            self._start((self._run_in_turn, following))
        except (RuntimeError, MemoryError) as error:
            with self._lock:
                self._busy -= 1
            following[0](error, *following[1][1:])

    def _next(self) -> Task | None:
        """A function has ended: the one whose turn it is; None if none waits."""
        with self._lock:
            self._ended_at = monotonic()
            self._hangs = False
            if not self._waiting:
                self._busy -= 1
                return None
            waiting = self._waiting.pop(0)
            waiting.done = True
        self._deadlines.call_ended()
        return waiting.late, (None, *waiting.arguments)
