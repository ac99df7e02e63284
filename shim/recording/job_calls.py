"""The calls of `shim.platform.jobs`: host process containers use no HCS, but jobs, users and mounts of the host.

While a recording runs, it replaces the functions of that module. Jobs, and processes in them, are numbered in the order
of their creation.
"""

from __future__ import annotations

from time import perf_counter_ns

from shim.platform import jobs
from shim.platform.job_types import Identity, JobError, Launch, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.platform.exit_event import Exit

    Entry = dict[str, Any]

CREATE, SPAWN, SET_LIMITS, ENVIRONMENT = "create", "spawn", "set_limits", "environment"
#: Functions of the module with an effect, or with an answer that depends on the host.
FUNCTIONS = (
    "is_local_group", "remove_user", "remove_container_user", "mount_volume", "unmount_volume", "link_below",
    "make_directory_below", "make_directory",
)  # fmt: skip
METHODS = (
    "bind", SET_LIMITS, "set_affinity", "log_on", ENVIRONMENT, "statistics", "process_list", "signal_all", "wait_empty",
    "terminate", "close",
)  # fmt: skip
PROCESS_METHODS = ("signal", "terminate", "modify", "close")
# The program's file is a part of the command line.
_LEFT_OUT = ("application",)

_originals: dict[str, Callable[..., Any]] = {}


def install(recorder_of_thread: Callable[[], JobRecorder | None]) -> None:
    """Replace the functions, once."""
    for name in () if _originals else (CREATE, *FUNCTIONS):
        _originals[name] = getattr(jobs, name)
        setattr(jobs, name, _recorded(name, _originals[name], recorder_of_thread))


def uninstall() -> None:
    while _originals:
        name, original = _originals.popitem()
        setattr(jobs, name, original)


def _recorded(
    name: str, original: Callable[..., Any], recorder_of_thread: Callable[[], JobRecorder | None]
) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        recorder = recorder_of_thread()
        if recorder is None:
            return original(*arguments)
        return recorder.create(original, arguments) if name == CREATE else recorder.call(name, original, arguments)

    return call


class JobRecorder:
    """`add` gets each entry."""

    def __init__(self, add: Callable[[Entry], object]) -> None:
        self._add = add
        self._numbers = 0

    def add_event(self, **fields: Any) -> None:
        self._add({"kind": "job event", "time": perf_counter_ns(), **fields})

    def create(self, original: Callable[..., Any], arguments: tuple[Any, ...]) -> RecordedJob:
        self._numbers += 1
        number = self._numbers
        job = self.call(CREATE, original, arguments[:1], number, given=arguments, result=lambda made: made.can_bind)
        return RecordedJob(self, number, job)

    def call(
        self,
        name: str,
        original: Callable[..., Any],
        arguments: tuple[Any, ...],
        job: int = 0,
        process: int = 0,
        *,
        given: tuple[Any, ...] | None = None,
        result: Callable[[Any], Any] | None = None,
    ) -> Any:
        """`given` is what the function gets, if that is more than what is recorded; `result` what is recorded of its
        result."""
        entry: Entry = {
            "kind": "job", "function": name, "job": job, "process": process, "arguments": plain(list(arguments)),
            "begin": perf_counter_ns(),
        }  # fmt: skip
        try:
            answer = original(*(arguments if given is None else given))
            entry["result"] = plain(answer if result is None else result(answer))
            return answer
        except JobError as error:
            entry["error"] = [error.code, error.message]
            raise
        except OSError as error:
            entry["os_error"] = [type(error).__name__, error.errno, error.strerror]
            raise
        finally:
            entry["end"] = perf_counter_ns()
            self._add(entry)

    def next_process(self) -> int:
        self._numbers += 1
        return self._numbers


class RecordedJob:
    """A job whose calls are recorded; its attributes are the job's own."""

    def __init__(self, recorder: JobRecorder, number: int, job: Any) -> None:
        self._recorder = recorder
        self._number = number
        self._job = job

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._job, name)
        if name not in METHODS:
            return found
        result = {
            SET_LIMITS: lambda answer: {"unenforced": list(self._job.unenforced)},
            ENVIRONMENT: lambda answer: {"environment": answer},
        }.get(name)
        return lambda *arguments: self._recorder.call(name, found, arguments, self._number, result=result)

    def spawn(self, launch: Launch) -> RecordedProcess:
        recorder, number = self._recorder, self._recorder.next_process()
        process = recorder.call(
            SPAWN, self._job.spawn, (launch,), self._number, number, result=lambda made: {"pid": made.pid}
        )

        def exited(exit: Exit) -> None:
            breached = bool(self._job.memory_breached)
            recorder.add_event(event="exit", job=self._number, process=number, code=exit.code, memory_breached=breached)

        process.on_exit(exited)  # the first callback: what follows the exit comes later
        return RecordedProcess(recorder, self._number, number, process)

    def on_lost(self, callback: Callable[[], object]) -> None:
        def lost() -> None:
            self._recorder.add_event(event="lost", job=self._number, process=0)
            callback()

        self._job.on_lost(lost)


class RecordedProcess:
    __slots__ = ("_job", "_number", "_process", "_recorder")

    def __init__(self, recorder: JobRecorder, job: int, number: int, process: Any) -> None:
        for name, value in (("_recorder", recorder), ("_job", job), ("_number", number), ("_process", process)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._process, name)
        if name not in PROCESS_METHODS:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            return self._recorder.call(name, lambda *given: found(*given, **named), arguments, self._job, self._number)

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        """A caller that takes over a stream sets it to None."""
        setattr(self._process, name, value)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, (Limits, Identity, Launch)):
        return {name: plain(getattr(value, name)) for name in value.__slots__ if name not in _LEFT_OUT}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(type(value).__name__)
