"""What goes into a job and comes out of it, on either system; `shim.platform.jobs` makes them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from shim.platform.exit_event import Exit

    Document = dict[str, Any]

    class Process(Protocol):
        """As a process of HCS: its streams belong to whoever takes them, and are None then."""

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
            """Whether files can be shown to the job's processes alone."""

        @property
        def memory_breached(self) -> bool:
            """Whether its memory limit has stopped a process from getting more."""

        @property
        def unenforced(self) -> Sequence[str]:
            """The names of limits that this machine takes but does not hold anybody to."""

        def bind(self, source: str, target: str, read_only: bool) -> None: ...
        def set_limits(self, limits: Limits) -> None: ...
        def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None: ...
        def log_on(self, identity: Identity) -> None:
            """Get the rights that its processes are to have."""

        def environment(self) -> dict[str, str]:
            """The variables that whoever it runs as begins with."""

        def spawn(self, launch: Launch) -> JobProcess: ...
        def statistics(self) -> Document: ...
        def process_list(self) -> list[Document]: ...
        def signal_all(self, event: str) -> int:
            """Send a console event to every process; how many there were."""

        def wait_empty(self, timeout: float) -> bool:
            """Until no process is left."""

        def terminate(self) -> None: ...
        def on_lost(self, callback: Callable[[], object]) -> None:
            """Call back if it ends by somebody else's hand."""

        def close(self) -> None: ...


# Console control events, by the names that HCS has for them.
EVENTS = {"CtrlC": 0, "CtrlBreak": 1, "CtrlClose": 2, "CtrlLogOff": 5, "CtrlShutdown": 6}

# Codes of Win32 that both sides use, in the words of `shim.hcs_bindings` an HRESULT's low half.
FILE_NOT_FOUND = 2
ACCESS_DENIED = 5
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
    """What did not work: a code of Win32, and a sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class Limits:
    """Bounds of a job; 0 is none. `rate` is in hundredths of a percent of the whole machine, `weight` 1 to 9."""

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


#: Kinds of identity: the shim's own, a service account, a member of a local group made for it, an account.
INHERIT, SERVICE, MEMBER, ACCOUNT = "inherit", "service", "member", "account"


class Identity:
    """Who a job's processes run as. For a MEMBER, `name` is the group's and `user` that of the user to be made."""

    __slots__ = ("domain", "kind", "name", "user")

    def __init__(self, kind: str, name: str = "", domain: str = "", user: str = "") -> None:
        self.kind = kind
        self.name = name
        self.domain = domain
        self.user = user

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and all(getattr(self, at) == getattr(other, at) for at in self.__slots__)

    def __repr__(self) -> str:
        return f"Identity({self.kind!r}, {self.name!r}, {self.domain!r}, {self.user!r})"


class Launch:
    """A process to be started. `application` is the program's file where it is known; else it is looked for."""

    __slots__ = (
        "application", "arguments", "command_line", "console", "directory", "environment", "size", "stderr", "stdin",
        "stdout",
    )  # fmt: skip

    def __init__(
        self,
        command_line: str,
        directory: str,
        environment: Mapping[str, str],
        *,
        arguments: Sequence[str] = (),
        application: str = "",
        stdin: bool = False,
        stdout: bool = False,
        stderr: bool = False,
        console: bool = False,
        size: tuple[int, int] = (25, 80),
    ) -> None:
        self.command_line = command_line
        #: Of a Linux process, in place of a command line.
        self.arguments = list(arguments)
        self.application = application
        self.directory = directory
        self.environment = dict(environment)
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.console = console
        #: Height and width of its console.
        self.size = size
