"""A logging program, containerd's `binary://` scheme
(https://github.com/containerd/containerd/blob/main/core/runtime/v2/README.md#logging).

The shim listens on three pipes, whose names the program finds in its environment (CONTAINER_STDOUT, CONTAINER_STDERR,
CONTAINER_WAIT), and the program connects. On the third it reports that it is ready: it writes one byte or closes it.
When the shim has closed the streams, the program has time to write what it has; then it is terminated. That happens in
a thread, since the exit of a container must not wait for its logger. The names have a random part, because each
process of a container has a logger of its own.
"""

from __future__ import annotations

import _winapi
import nt
from time import monotonic

from shim.platform.windows import files
from shim.platform.windows.daemon import Startup, quote
from shim.platform.windows.endpoint import PIPES, create
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _winapi import Overlapped

READY_TIMEOUT = 10.0
STOP_TIMEOUT = 10.0

_DETACHED_PROCESS = 0x8
_WAIT_TIMEOUT = 258
_NAMES = ("stdout", "stderr", "wait")


class Logger:
    """A running program; the caller owns `stdout` and `stderr`, the writing ends of its streams."""

    __slots__ = ("_process", "stderr", "stdout")

    def __init__(self, process: int, stdout: int, stderr: int) -> None:
        self._process = process
        self.stdout = stdout
        self.stderr = stderr

    def stop(self) -> None:
        """Stop it, once the streams have been closed. Returns at once."""
        run_soon(stop_process, self._process, STOP_TIMEOUT)


def start(program: str, arguments: list[str], environment: dict[str, str], requires_ready: bool) -> Logger:
    """Raises OSError (or TimeoutError) with a message, and then leaves nothing behind."""
    unique = nt.urandom(8).hex()
    names = {name: f"{PIPES}binary-{environment.get('CONTAINER_ID', '')}-{unique}-{name}" for name in _NAMES}
    variables = environment | {f"CONTAINER_{name.upper()}": path for name, path in names.items()}
    # Without it Windows programs do not find the system's DLLs.
    for needed in ("SYSTEMROOT", "WINEPREFIX"):
        if value := files.environment(needed):
            variables.setdefault(needed, value)
    pipes: list[int] = []
    process = 0
    try:
        for path in names.values():
            pipes.append(create(path, first=True))
        # Before the program starts, so that one which connects, writes and closes at once is not missed.
        waiting = [_winapi.ConnectNamedPipe(pipe, overlapped=True) for pipe in pipes]
        command = quote([program, *(word for word in arguments if word)])
        process, thread, _, _ = _winapi.CreateProcess(
            program, command, None, None, False, _DETACHED_PROCESS, variables, None, Startup()
        )
        _winapi.CloseHandle(thread)
        deadline = monotonic() + READY_TIMEOUT
        for one in waiting:
            _accept(one, process, program, deadline)
        _wait_ready(pipes[2], program, deadline, requires_ready)
    except BaseException:
        for pipe in pipes:
            _winapi.CloseHandle(pipe)
        if process:
            run_soon(stop_process, process, 0.0)
        raise
    _winapi.CloseHandle(pipes[2])
    return Logger(process, pipes[0], pipes[1])


def _left(deadline: float) -> int:
    return max(int((deadline - monotonic()) * 1000), 0)


def _accept(waiting: Overlapped, process: int, program: str, deadline: float) -> None:
    # The pipe's event is first in the list, so it wins if the program has connected and exited since.
    woken = _winapi.WaitForMultipleObjects([waiting.event, process], False, _left(deadline))
    if woken == 0:
        return
    waiting.cancel()
    if woken == _WAIT_TIMEOUT:
        raise TimeoutError(f"logger {program} did not open its pipes within {READY_TIMEOUT:.0f} s")
    raise OSError(f"logger {program} ended before it had opened its pipes")


def _wait_ready(pipe: int, program: str, deadline: float, requires_ready: bool) -> None:
    is_ready = False
    try:
        reading, _ = _winapi.ReadFile(pipe, 1, overlapped=True)
        if _winapi.WaitForSingleObject(reading.event, _left(deadline)):
            reading.cancel()
            raise TimeoutError(
                f"logger {program} did not say within {READY_TIMEOUT:.0f} s that it is ready: it must write to the "
                "pipe CONTAINER_WAIT or close it"
            )
        reading.GetOverlappedResult(True)
        is_ready = bool(reading.getbuffer())
    except TimeoutError:
        raise
    except OSError:
        pass  # closed
    if requires_ready and not is_ready:
        raise OSError(f"logger {program} ended or closed CONTAINER_WAIT without saying that it is ready")


def stop_process(process: int, timeout: float) -> None:
    """Wait for it to exit, then terminate it."""
    try:
        if _winapi.WaitForSingleObject(process, int(timeout * 1000)) == _WAIT_TIMEOUT:
            _winapi.TerminateProcess(process, 1)
    except OSError:
        pass  # it has just exited
    finally:
        _winapi.CloseHandle(process)
