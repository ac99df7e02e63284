"""The types of jobs on either system; `shim.platform.jobs` creates jobs."""

from __future__ import annotations

from shim.platform import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from shim.platform.exit_event import Exit

    Document = dict[str, Any]

    class Process(Protocol):
        """The interface of an HCS process. A caller that takes over a stdio handle sets the attribute to None."""

        stdin: int | None
        stdout: int | None
        stderr: int | None

        @property
        def pid(self) -> int: ...
        def on_exit(self, callback: Callable[[Exit], object]) -> None: ...
        def signal(self, options: Document) -> bool: ...
        def terminate(self, timeout: float | None = None) -> bool: ...
        def modify(self, settings: Document, timeout: float | None = None) -> None: ...
        def close(self) -> None: ...

    class JobProcess(Process, Protocol):
        #: Whether `terminate` was called.
        killed: bool

    class Job(Protocol):
        """A job. Every method but `close` may raise JobError."""

        @property
        def can_bind(self) -> bool:
            """Whether files can be bound for the job's processes only."""

        @property
        def memory_breached(self) -> bool:
            """Whether a process has hit the job's memory limit."""

        @property
        def unenforced(self) -> Sequence[str]:
            """The names of limits that this machine accepts but does not enforce."""

        def bind(self, source: str, target: str, read_only: bool) -> None: ...
        def set_limits(self, limits: Limits) -> None: ...
        def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None: ...
        def log_on(self, identity: Identity) -> None:
            """Log on the user of its processes."""

        def environment(self) -> dict[str, str]:
            """The initial environment of its user."""

        def spawn(self, launch: Launch) -> JobProcess: ...
        def statistics(self) -> Document: ...
        def process_list(self) -> list[Document]: ...
        def signal_all(self, event: str) -> int:
            """Send a console event to every process; returns their number."""

        def wait_empty(self, timeout: float) -> bool:
            """Wait until no process is left. False after the timeout."""

        def terminate(self) -> None: ...
        def on_lost(self, callback: Callable[[], object]) -> None:
            """Call back if it ends without `terminate` or `close`."""

        def close(self) -> None: ...


# Console control events, by their HCS names.
EVENTS = {"CtrlC": 0, "CtrlBreak": 1, "CtrlClose": 2, "CtrlLogOff": 5, "CtrlShutdown": 6}

# Win32 error codes that both systems use (the low half of an HRESULT).
FILE_NOT_FOUND = 2
ACCESS_DENIED = 5
INVALID_HANDLE = 6
NOT_ENOUGH_MEMORY = 8
BAD_FORMAT = 193
DIRECTORY = 267
INVALID_PARAMETER = 87
NOT_SUPPORTED = 50
ALREADY_EXISTS = 183
BROKEN_PIPE = 109
LOGON_FAILURE = 1326
TOO_LONG = 206
GENERAL_FAILURE = 31


class JobError(Exception):
    """A Win32 error code, and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class Limits:
    """Limits of a job; 0 is none. `rate` is in hundredths of a percent of the whole machine, `weight` 1 to 9."""

    __slots__ = ("bandwidth", "iops", "memory", "rate", "weight")

    def __init__(
        self,
        *,
        rate: int = 0,
        weight: int = 0,
        memory: int = 0,
        iops: int = 0,
        bandwidth: int = 0,
    ) -> None:
        self.rate = rate
        self.weight = weight
        self.memory = memory
        self.iops = iops
        self.bandwidth = bandwidth

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__ if getattr(self, name))})"


#: Kinds of identity: the shim's own, a service account, a new member of a local group, an account.
INHERIT, SERVICE, MEMBER, ACCOUNT = "inherit", "service", "member", "account"


# The longest name of a local user on Windows.
_MAX_USER_NAME = 20


class Identity:
    """The user of a job's processes. For a MEMBER, `name` is the group; `user` is created for the container `id`."""

    __slots__ = ("domain", "id", "kind", "name")

    def __init__(self, kind: str, name: str = "", domain: str = "", id: str = "") -> None:
        self.kind = kind
        self.name = name
        self.domain = domain
        self.id = id

    @property
    def user(self) -> str:
        return user_name(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and all(getattr(self, at) == getattr(other, at) for at in self.__slots__)

    def __repr__(self) -> str:
        return f"Identity({self.kind!r}, {self.name!r}, {self.domain!r}, {self.id!r})"


def user_name(id: str) -> str:
    """The name of the user that is created for a container."""
    return id[:_MAX_USER_NAME]


class Launch:
    """A process to start. `application` is the program's file if it is known; otherwise it is searched for."""

    __slots__ = (
        "application", "command_line", "console", "directory", "environment", "size", "stderr", "stdin", "stdout",
    )  # fmt: skip

    def __init__(
        self,
        command_line: str,
        directory: str,
        environment: Mapping[str, str],
        *,
        application: str = "",
        stdin: bool = False,
        stdout: bool = False,
        stderr: bool = False,
        console: bool = False,
        size: tuple[int, int] = (25, 80),
    ) -> None:
        self.command_line = command_line
        self.application = application
        self.directory = directory
        self.environment = dict(environment)
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.console = console
        #: Height and width of its console.
        self.size = size

    @property
    def program(self) -> str:
        """What errors name: the rest of the command line may hold secrets."""
        return self.application or next(iter(command_line.programs(self.command_line)), "")
