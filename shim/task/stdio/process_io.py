"""The streams between containerd's client and one process.

    open_stdio()   in Create or Exec: every end the client named is opened, or none
    wanted         which pipes HCS is to make; a stream without a path gets none, not an empty one
    attach()       when the process runs: its handles are taken over and the bytes begin to move
    close_stdin()  CloseIO: what has been sent so far still arrives, then the process's stdin is closed
    drained()      after the exit: wait for the rest of the output, but not for ever
    close()        everything is closed; may be called at any time, also repeatedly

How long `drained` waits: until both outputs have ended and the client has taken everything (Go's clients forget a FIFO
if they hear of the exit before their own open of it has returned). If something else still holds them open (a child
left behind), only what was in the pipes when the process exited is owed to the client, and `quiet` seconds are given
for more; a caller who can end whoever holds them is told, and does. A client that takes nothing for `quiet` seconds is
not waited for any longer; one that reads slowly is, for as long as it goes on, but no longer than MAX_DRAIN: with the
pipe's size of 1 MiB that is any reader above 35 KiB/s.

A client that has not opened its end by then is late or will never come. It is taken for late while the streams
themselves are young, LATE seconds from open_stdio() on, unless it was seen at the start, and so has left since, or the
process was made to end: whoever did that is not waiting for the output of a short command.

A client that goes away before the exit stops nothing: its FIFO fills up, the process waits, and the next client that
opens the FIFO gets all of it. A retry timeout above zero bounds that: an output that took nothing for so long is
given up, and what the process writes from then on is dropped.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from shim.platform import stdio_endpoints as platform
from shim.task.errors import failed_precondition, wrong
from shim.task.one_shot import Waiters
from shim.task.stdio import log_uri

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.platform.stdio_endpoints import Logger, Pump
    from shim.task.interfaces import HcsProcess

QUIET = 1.0
MAX_DRAIN = 30.0
LATE = 10.0
_LOOK = 0.05  # how often progress is looked at while draining
_FIRST_LOOK = 0.001
_CLOSE_STDIN = {"Operation": "CloseHandle", "CloseHandle": {"Handle": "StdIn"}}
_CALL_TIMEOUT = 30.0

relay = platform.Relay()


def open_stdio(
    stdin: str,
    stdout: str,
    stderr: str,
    terminal: bool,
    *,
    namespace: str,
    id: str,
    exec_id: str,
    retry_seconds: float = 0.0,
    log: Log | None = None,
) -> Stdio:
    """Open every end that is named, or fail with a status and leave nothing open. A logger is told the container's id,
    also by an exec (`exec_id`, "" for the init), which a system that has to name a logger's pipes adds to the name."""
    opened = Stdio(stdin, stdout, stderr, terminal, retry_seconds, log)
    try:
        opened.open(id, namespace)
    except BaseException:
        opened.close()
        raise
    return opened


class Stdio:
    __slots__ = (
        "_closed", "_drained", "_input", "_kept", "_lock", "_log", "_logger", "_open_outputs", "_opened", "_outputs",
        "_retry", "_stdin_finished", "_stdin_over", "_stdin_pump", "stderr", "stdin", "stdout", "terminal",
    )  # fmt: skip

    def __init__(self, stdin: str, stdout: str, stderr: str, terminal: bool, retry: float, log: Log | None) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self._retry = retry
        self._log = log
        self._lock = allocate_lock()
        self._closed = False
        self._logger: Logger | None = None
        # The client's ends, until the pumps take them over.
        self._input: int | None = None
        self._outputs: list[int | Pump | None] = [None, None]
        self._opened = monotonic()
        self._kept: list[_Kept] = []
        self._stdin_pump: Pump | None = None
        self._stdin_finished = False  # CloseIO has been asked for
        self._stdin_over: Callable[[], None] | None = None
        self._open_outputs = 0
        self._drained = Waiters()

    def open(self, container_id: str, namespace: str) -> None:
        stdout = log_uri.parse("stdout", self.stdout) if self.stdout else None
        # A terminal has one output; a client that names the same log twice means that one.
        stderr = log_uri.parse("stderr", self.stderr) if self.stderr and not self.terminal else None
        if stdout is not None and stdout.is_logger:
            if self.stderr not in ("", self.stdout):
                raise wrong(f"stderr {self.stderr!r} must be empty or the same as the logger of stdout")
            self._start_logger(stdout, container_id, namespace)
        else:
            if stderr is not None and stderr.is_logger:
                raise wrong(f"stderr {self.stderr!r} is a logger: name the same one for stdout")
            for at, (name, target) in enumerate((("stdout", stdout), ("stderr", stderr))):
                if target is not None:
                    self._outputs[at] = _open(name, target)
        if self.stdin:
            target = log_uri.parse("stdin", self.stdin)
            if target.scheme not in ("", log_uri.SCHEMES[0]):
                raise wrong(f"stdin {self.stdin!r} must be {log_uri.PIPE}, not {target.scheme}://")
            self._input = _open("stdin", target)

    def _start_logger(self, target: log_uri.Target, container_id: str, namespace: str) -> None:
        if self.stdin:
            raise wrong(f"stdin {self.stdin!r} cannot be used together with the logger {self.stdout!r}")
        arguments = [word for pair in target.query for word in pair]
        environment = {"CONTAINER_ID": container_id, "CONTAINER_NAMESPACE": namespace}
        try:
            self._logger = platform.start_logger(target.path, arguments, environment, target.scheme == "binary-v2")
        except OSError as error:
            raise wrong(f"failed to start binary logger: {self.stdout!r} cannot be started: {error}") from error
        self._outputs = [self._logger.stdout, self._logger.stderr]

    def wanted(self) -> dict[str, bool]:
        """Which of `stdin`, `stdout` and `stderr` HCS is to make pipes for."""
        stderr = not self.terminal and (self._logger is not None or bool(self.stderr))
        return {"stdin": bool(self.stdin), "stdout": bool(self.stdout), "stderr": stderr}

    # -- while the process runs

    def attach(self, process: HcsProcess) -> None:
        """Take over the handles of a process that has just been started."""
        handles, (process.stdin, process.stdout, process.stderr) = (
            (process.stdin, process.stdout, process.stderr),
            (None, None, None),
        )
        self.attach_handles(*handles, lambda: process.modify(_CLOSE_STDIN, timeout=_CALL_TIMEOUT))

    def attach_handles(
        self, stdin: int | None, stdout: int | None, stderr: int | None, on_stdin_end: Callable[[], None]
    ) -> None:
        """`on_stdin_end` is called in a thread of its own when the client's input is over."""
        if stdin is not None and stdin == stdout:
            stdin = platform.duplicate(stdin)  # a terminal's one handle; each direction closes its own
        with self._lock:
            if self._closed:
                for handle in (stdin, stdout, stderr):
                    if handle is not None:
                        platform.close(handle)
                raise failed_precondition("the streams of this process have been closed already")
            self._stdin_over = on_stdin_end
            pumps: list[Pump] = []
            for at, handle in enumerate((stdout, stderr)):
                client = self._outputs[at]
                if handle is not None and isinstance(client, int):
                    kept = platform.keep(client)
                    pump = platform.Pump(handle, client, self._output_ended, keeps_reading=True, patience=self._retry)
                    self._outputs[at] = pump
                    pumps.append(pump)
                    if kept is not None:
                        self._kept.append(_Kept(pump, *kept))
                    self._open_outputs += 1
                elif handle is not None:
                    platform.close(handle)
                elif isinstance(client, int):
                    platform.close(client)  # nothing will ever come: the client sees the end
                    self._outputs[at] = None
            if not pumps:
                self._drained.release()
            if stdin is not None and self._input is not None:
                self._stdin_pump = platform.Pump(self._input, stdin, self._stdin_ended, keeps_reading=False)
                self._input = None
                pumps.append(self._stdin_pump)
            elif stdin is not None:
                platform.close(stdin)
            finish = self._stdin_finished
        for pump in pumps:
            relay.add(pump)
        if finish and self._stdin_pump is not None:
            relay.finish(self._stdin_pump)

    def close_stdin(self) -> None:
        with self._lock:
            if self._stdin_finished or self._closed:
                return
            self._stdin_finished = True
            pump = self._stdin_pump
        if pump is not None:
            relay.finish(pump)

    def _stdin_ended(self) -> None:
        """In the relay's thread, which must not wait for HCS."""
        over = self._stdin_over
        if over is not None and not self._closed:
            start_new_thread(self._close_process_stdin, (over,))

    def _close_process_stdin(self, over: Callable[[], None]) -> None:
        try:
            over()
        except Exception as error:
            # An exit in between ends stdin as well; only a process that lives on is missing something.
            if self._log is not None and not self._closed:
                self._log.warning("the process's stdin could not be closed", error=error, stdin=self.stdin)

    def _output_ended(self) -> None:
        """In the relay's thread."""
        self._open_outputs -= 1
        if self._open_outputs == 0:
            self._drained.release()

    # -- after its exit

    def drained(
        self,
        timeout: float = QUIET,
        longest: float = MAX_DRAIN,
        patient: Callable[[], bool] = lambda: True,
        held_open: Callable[[], None] | None = None,
    ) -> bool:
        """Wait as the page's head says, `timeout` being the seconds without progress. False if output was given up. A
        client is taken for late only as long as the caller is `patient`, which may change at any time. `held_open` is
        called, once, when all that is owed has been moved and the outputs have not ended for a moment."""
        if not self._moved(timeout, longest, patient, held_open):
            return False
        # What a child left behind keeps open is over, too. Without our own end can be seen who else has the FIFO open.
        relay.stop([kept.pump for kept in self._kept if not kept.pump.over])
        return self._taken(timeout, longest, patient)

    def _taken(self, timeout: float, longest: float, patient: Callable[[], bool]) -> bool:
        """Wait until the client has read what is in the FIFOs."""
        begin = progress = monotonic()
        before = 0
        pause = _FIRST_LOOK
        while unread := [(kept, count) for kept in self._kept if (count := kept.unread())]:
            now, sum_ = monotonic(), sum(count for _, count in unread)
            if sum_ != before:
                before, progress = sum_, now
            if now < self._opened + LATE and any(kept.may_be_late() for kept, _ in unread) and patient():
                progress = now
            elif now > min(progress + timeout, begin + longest):
                return False
            sleep(pause)
            pause = min(2 * pause, _LOOK)
        return True

    def _moved(
        self, timeout: float, longest: float, patient: Callable[[], bool], held_open: Callable[[], None] | None
    ) -> bool:
        pumps = [pump for pump in self._outputs if isinstance(pump, platform.Pump)]
        begin = progress = monotonic()
        if not pumps or self._drained.wait(0):
            return True
        owed = relay.call(lambda: [pump.moved + pump.unread() for pump in pumps]) or [0] * len(pumps)
        seen = [pump.moved for pump in pumps]
        while True:
            paid = all(pump.over or pump.moved >= sum_ for pump, sum_ in zip(pumps, owed, strict=True))
            if paid:
                end = begin + timeout
            else:
                end = min(progress + timeout, begin + longest)
                if any(not kept.seen and not kept.pump.over for kept in self._kept) and patient():
                    end = max(end, self._opened + LATE)
            left = end - monotonic()
            if self._drained.wait(max(min(left, _LOOK), 0)):
                return True
            if paid and held_open is not None:
                held_open()
                held_open = None
                begin = monotonic()
                continue
            if left <= 0:
                return paid
            now = [pump.moved for pump in pumps]
            if now != seen:
                seen = now
                progress = monotonic()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            descriptors = [end for end in (self._input, *self._outputs) if isinstance(end, int)]
            pumps = [end for end in (self._stdin_pump, *self._outputs) if isinstance(end, platform.Pump)]
        relay.stop([pump for pump in pumps if not pump.over])  # as a rule there is none left, and no thread to ask
        for descriptor in [*descriptors, *(kept.end for kept in self._kept)]:
            platform.close(descriptor)
        if self._logger is not None:
            self._logger.end()


class _Kept:
    """What holds an output's bytes until somebody can read them, and whether its client was there at the start."""

    __slots__ = ("end", "pump", "seen")

    def __init__(self, pump: Pump, end: int, seen: bool) -> None:
        self.pump = pump
        self.end = end
        self.seen = seen

    def unread(self) -> int:
        return platform.unread(self.end) if self.pump.sink >= 0 else 0

    def may_be_late(self) -> bool:
        """Whether a client has still to come, once the pump is over."""
        return not self.seen and not platform.has_reader(self.end)


def _open(name: str, target: log_uri.Target) -> int:
    opener = platform.open_input if name == "stdin" else platform.open_output
    if target.scheme == "file":
        opener = platform.open_file
    try:
        return opener(target.path)
    except OSError as error:
        hint = "the client makes it before it creates the process"
        raise wrong(f"{name} {target.path!r} cannot be opened ({error.strerror}): {hint}") from error
