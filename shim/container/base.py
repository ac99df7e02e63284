"""The base class of all kinds of containers: stop once, tear down once, release what the ledger lists.

A kind of container provides the steps. `_stop` stops everything that runs in the container; `_teardown` releases what
it holds. Each runs once, one at a time; a concurrent caller waits until the first is done, at most WAIT_SECONDS.

What only some kinds can do (`admit`, `set_affinity`, `memory_breached`) has a default here, so that callers need not
know the kind. `shim.task.interfaces.Container` is what tasks see of it.
"""

from __future__ import annotations

from _thread import allocate_lock

from shim.oci.errors import UNIMPLEMENTED, InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any

    from shim.container.ledger import Entry, Ledger
    from shim.oci.spec import Spec

    Warn = Callable[[str], object]
    Document = dict[str, Any]

# How long the release of everything that a ledger lists may take.
RELEASE_SECONDS = 20.0
# How long a caller of `stop` or `teardown` waits for another. Longer than all timeouts of one teardown together.
WAIT_SECONDS = 600.0


class BaseContainer:
    """A container that has been created and not yet torn down. `warn` logs a sentence."""

    #: Whether it runs in a utility VM.
    in_vm = False
    #: As operators call it: process, hypervisor or hostprocess.
    isolation = "process"
    #: Whether its processes are those of a Linux guest.
    is_linux = False
    if TYPE_CHECKING:
        system: Any

    def __init__(self, id: str, warn: Warn) -> None:
        self.id = id
        self._warn = warn
        self._ending = allocate_lock()
        self._stopped: bool | None = None  # None: no caller has tried yet
        self._torn_down = False

    # Optional capabilities.

    @property
    def memory_breached(self) -> bool:
        """Whether its memory limit has kept one of its processes from getting memory. HCS does not report it."""
        return False

    def statistics(self, timeout: float) -> Document | None:
        """Its `Statistics`, in the form of HCS."""
        found: Document | None = self.system.properties("Statistics", timeout=timeout).get("Statistics")
        return found

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        """Restrict it to these processors, as (mask, group)."""
        raise InvalidSpec("cpu affinity update for hypervisor-isolated containers is not supported", UNIMPLEMENTED)

    def admit(self, id: str, spec: Spec) -> None:
        """Of a sandbox: check the spec of a container that joins the pod, and add what it inherits from the pod."""

    # Stop and teardown.

    def stop(self) -> None:
        """Stop all that runs in it, once. What it holds stays, and so does output that has not been read."""
        if self._begin("stop"):
            try:
                self._stop_once()
            finally:
                self._ending.release()

    def teardown(self) -> None:
        """Stop the container and release what it holds, once."""
        if self._begin("teardown"):
            try:
                if not self._torn_down:
                    self._torn_down = True
                    self._teardown(self._stop_or_warn())
            finally:
                self._ending.release()

    def _stop_or_warn(self) -> bool:
        """What it holds is released whatever the stop raises."""
        try:
            return self._stop_once()
        except Exception as error:
            self._warn(f"failed to stop container {self.id}: {type(error).__name__}: {error}")
            return False

    def _begin(self, what: str) -> bool:
        if self._ending.acquire(timeout=WAIT_SECONDS):
            return True
        self._warn(f"{what} of container {self.id}: another stop or teardown still runs after {WAIT_SECONDS:.0f} s")
        return False

    def _stop_once(self) -> bool:
        if self._stopped is None:
            self._stopped = self._stop()
        return self._stopped

    def _stop(self) -> bool:
        """Whether it is known that nothing runs in it any more."""
        raise NotImplementedError

    def _teardown(self, stopped: bool) -> None:
        """Release what it holds. `stopped` is the result of `_stop`."""
        raise NotImplementedError


class ExitCallbacks:
    """Callbacks for one exit: each is called once, in order of registration, or at once if the exit has been."""

    __slots__ = ("_callbacks", "_lock", "fired")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._callbacks: list[Callable[[], object]] = []
        self.fired = False

    def add(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self.fired:
                self._callbacks.append(callback)
                return
        callback()

    def fire(self) -> None:
        with self._lock:
            self.fired = True
            callbacks, self._callbacks = self._callbacks, []
        run_all(callbacks)


def run_all(steps: Iterable[Callable[[], object]]) -> None:
    """Run every step, whatever another raises; then raise the first error."""
    failure: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


def release_ledger(ledger: Ledger, warn: Warn, keep: Iterable[Entry] = ()) -> list[str]:
    """Release what the ledger lists, but for `keep`. Failures are logged and returned; their entries stay listed."""
    failures = [str(failure) for failure in ledger.release_all(RELEASE_SECONDS, keep)]
    for failure in failures:
        warn(failure)
    return failures


class ReleaseOnError:
    """A block that acquires: if it fails, what the ledger lists is released before the error is raised, and what could
    not be released is logged and added to the error as notes."""

    __slots__ = ("_ledger", "_warn")

    def __init__(self, ledger: Ledger, warn: Warn) -> None:
        self._ledger = ledger
        self._warn = warn

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for failure in release_ledger(self._ledger, self._warn):
                error.add_note(failure)
