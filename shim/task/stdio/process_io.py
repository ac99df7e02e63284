"""The stdio streams between containerd's client and one process.

    open_stdio()       in Create or Exec: open every endpoint that the client named, or none
    requested_pipes()  which pipes HCS must create; a stream without a path gets no pipe
    attach()           when the process runs: take over its handles and start to relay
    close_stdin()      CloseIO: deliver what the client has sent so far, then close the process's stdin
    drain()            after the exit: wait for the rest of the output, with a bound
    close()            close everything; may be called at any time and more than once

A client that leaves before the exit stops nothing: its FIFO fills up, the process blocks, and the next client that
opens the FIFO gets all of it. A retry timeout (option IoRetryTimeoutInSec) bounds that: an output that took nothing for
so long is abandoned, and later output of the process is discarded.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from shim.platform import stdio_endpoints as platform
from shim.task.errors import failed_precondition, unknown
from shim.task.one_shot import OneShotEvent
from shim.task.stdio import log_uri
from shim.task.stdio.drain import IDLE_TIMEOUT, MAX_DRAIN, ClientFifo, Drain
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.platform.stdio_endpoints import Logger, Pump
    from shim.task.interfaces import HcsProcess

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
    stdin_outlives_client: bool = False,
) -> Stdio:
    """Open every endpoint that is named, or raise a status and leave nothing open. A logger gets the container's id,
    for an exec too (`exec_id`, "" for the init). stdin ends when its client
    closes it; with `stdin_outlives_client` by CloseIO only, on Linux."""
    opened = Stdio(stdin, stdout, stderr, terminal, retry_seconds, log, stdin_outlives_client)
    try:
        opened.open(id, namespace)
    except BaseException:
        opened.close()
        raise
    return opened


class Stdio:
    __slots__ = (
        "_closed", "_fifos", "_input", "_lock", "_log", "_logger", "_on_stdin_end", "_open_outputs", "_opened_at",
        "_outputs", "_outputs_closed", "_retry", "_stdin_close_requested", "_stdin_outlives_client", "_stdin_pump",
        "stderr", "stdin", "stdout", "terminal",
    )  # fmt: skip

    def __init__(
        self,
        stdin: str,
        stdout: str,
        stderr: str,
        terminal: bool,
        retry: float,
        log: Log | None,
        stdin_outlives_client: bool,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.terminal = terminal
        self._retry = retry
        self._log = log
        self._stdin_outlives_client = stdin_outlives_client
        self._lock = allocate_lock()
        self._closed = False
        self._logger: Logger | None = None
        # The client's endpoints, until the pumps take them over.
        self._input: int | None = None
        self._outputs: list[int | Pump | None] = [None, None]
        self._opened_at = monotonic()
        self._fifos: list[ClientFifo] = []
        self._stdin_pump: Pump | None = None
        self._stdin_close_requested = False
        self._on_stdin_end: Callable[[], None] | None = None
        self._open_outputs = 0
        self._outputs_closed = OneShotEvent()

    def open(self, container_id: str, namespace: str) -> None:
        stdout = log_uri.parse("stdout", self.stdout) if self.stdout else None
        # A terminal has one output; a client that names the same log twice means that one.
        stderr = log_uri.parse("stderr", self.stderr) if self.stderr and not self.terminal else None
        if stdout is not None and stdout.is_logger:
            if self.stderr not in ("", self.stdout):
                raise unknown(f"stderr {self.stderr!r} must be empty or the same as the logger of stdout")
            self._start_logger(stdout, container_id, namespace)
        else:
            if stderr is not None and stderr.is_logger:
                raise unknown(f"stderr {self.stderr!r} is a logger: name the same one for stdout")
            for at, (name, target) in enumerate((("stdout", stdout), ("stderr", stderr))):
                if target is not None:
                    self._outputs[at] = _open(name, target)
        if self.stdin:
            target = log_uri.parse("stdin", self.stdin)
            if target.scheme not in ("", log_uri.SCHEMES[0]):
                raise unknown(f"stdin {self.stdin!r} must be {log_uri.PIPE}, not {target.scheme}://")
            self._input = _open("stdin", target, outlives_client=self._stdin_outlives_client)

    def _start_logger(self, target: log_uri.Target, container_id: str, namespace: str) -> None:
        if self.stdin:
            raise unknown(f"stdin {self.stdin!r} cannot be used together with the logger {self.stdout!r}")
        arguments = [word for pair in target.query for word in pair]
        environment = {"CONTAINER_ID": container_id, "CONTAINER_NAMESPACE": namespace}
        try:
            self._logger = platform.start_logger(target.path, arguments, environment, target.scheme == "binary-v2")
        except OSError as error:
            raise unknown(f"failed to start binary logger: {self.stdout!r} cannot be started: {error}") from error
        self._outputs = [self._logger.stdout, self._logger.stderr]

    def requested_pipes(self) -> dict[str, bool]:
        """Which of `stdin`, `stdout` and `stderr` HCS must create pipes for."""
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
        """`on_stdin_end` is called in its own thread when the client's input has ended."""
        if stdin is not None and stdin == stdout:
            stdin = platform.duplicate(stdin)  # a terminal has one handle; each direction closes its own
        with self._lock:
            if self._closed:
                for handle in (stdin, stdout, stderr):
                    if handle is not None:
                        platform.close(handle)
                raise failed_precondition("the streams of this process have been closed already")
            self._on_stdin_end = on_stdin_end
            pumps: list[Pump] = []
            for at, handle in enumerate((stdout, stderr)):
                client = self._outputs[at]
                if handle is not None and isinstance(client, int):
                    pump = self._pump_output(handle, client)
                    self._outputs[at] = pump
                    pumps.append(pump)
                    self._open_outputs += 1
                elif handle is not None:
                    platform.close(handle)
                elif isinstance(client, int):
                    platform.close(client)  # there will be no output: the client sees EOF
                    self._outputs[at] = None
            if not pumps:
                self._outputs_closed.set()
            if stdin is not None and self._input is not None:
                self._stdin_pump = platform.Pump(
                    self._input, stdin, self._on_stdin_pump_closed, survives_sink_failure=False, keeps_sink_open=True
                )
                self._input = None
                pumps.append(self._stdin_pump)
            elif stdin is not None:
                platform.close(stdin)
            finish = self._stdin_close_requested
        for pump in pumps:
            relay.add(pump)
        if finish and self._stdin_pump is not None:
            relay.finish(self._stdin_pump)

    def _pump_output(self, handle: int, client: int) -> Pump:
        held = platform.hold_writer(client)
        pump = platform.Pump(
            handle, client, self._on_output_closed, survives_sink_failure=True, stall_timeout=self._retry
        )
        if held is not None:
            self._fifos.append(ClientFifo(pump, *held))
        return pump

    def close_stdin(self) -> None:
        with self._lock:
            if self._stdin_close_requested or self._closed:
                return
            self._stdin_close_requested = True
            pump = self._stdin_pump
        if pump is not None:
            relay.finish(pump)

    def _on_stdin_pump_closed(self) -> None:
        """In the relay's thread, which must not wait for HCS."""
        pump, on_end = self._stdin_pump, self._on_stdin_end
        sink = None if pump is None else pump.take_sink()
        if on_end is not None and not self._closed:
            run_soon(self._close_process_stdin, on_end, sink)
        elif sink is not None:
            platform.close(sink)

    def _close_process_stdin(self, on_end: Callable[[], None], sink: int | None) -> None:
        """HCS first, then our end of the pipe: HCS refuses to close a pipe that is closed
        (https://github.com/microsoft/hcsshim/blob/main/internal/hcs/process.go, CloseStdin)."""
        try:
            on_end()
        except Exception as error:
            # The exit closes stdin as well: only a process that still runs is affected.
            if self._log is not None and not self._closed:
                self._log.warning("failed to close stdin of the process", error=error, stdin=self.stdin)
        finally:
            if sink is not None:
                platform.close(sink)

    def _on_output_closed(self) -> None:
        """In the relay's thread."""
        self._open_outputs -= 1
        if self._open_outputs == 0:
            self._outputs_closed.set()

    # -- after its exit

    def drain(
        self,
        idle_timeout: float = IDLE_TIMEOUT,
        max_seconds: float = MAX_DRAIN,
        waits_for_late_client: Callable[[], bool] = lambda: True,
        waits_for_reader: Callable[[], bool] = lambda: True,
        on_held_open: Callable[[], None] | None = None,
    ) -> bool:
        """Wait for the rest of the output; see `Drain`. False if output is lost."""
        return Drain(
            relay,
            [pump for pump in self._outputs if isinstance(pump, platform.Pump)],
            self._fifos,
            self._outputs_closed,
            self._opened_at,
            idle_timeout=idle_timeout,
            max_seconds=max_seconds,
            waits_for_late_client=waits_for_late_client,
            waits_for_reader=waits_for_reader,
            on_held_open=on_held_open,
        ).run()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            descriptors = [end for end in (self._input, *self._outputs) if isinstance(end, int)]
            pumps = [end for end in (self._stdin_pump, *self._outputs) if isinstance(end, platform.Pump)]
        relay.stop([pump for pump in pumps if not pump.closed])  # usually none: the relay's thread has ended
        for descriptor in [*descriptors, *(fifo.writer for fifo in self._fifos)]:
            platform.close(descriptor)
        if self._logger is not None:
            self._logger.stop()


def _open(name: str, target: log_uri.Target, *, outlives_client: bool = False) -> int:
    try:
        if target.scheme == "file":
            return platform.open_file(target.path)
        if name == "stdin":
            return platform.open_input(target.path, outlives_client=outlives_client)
        return platform.open_output(target.path)
    except OSError as error:
        hint = "the client must create it before the process"
        raise unknown(f"{name} {target.path!r} cannot be opened ({error.strerror}): {hint}") from error
