"""A process of a compute system, as HCS shows it: a pid, streams, a status, and one exit event per handle."""

from __future__ import annotations

import asyncio
import fcntl
import os
from typing import TYPE_CHECKING, Any

from hcs_emulator.service import events
from hcs_emulator.service.errors import (
    ERROR_INVALID_PARAMETER,
    HCS_E_PROCESS_ALREADY_STOPPED,
    HcsError,
)
from hcs_emulator.service.handles import Handle

if TYPE_CHECKING:
    from hcs_emulator.service.compute_system.system import ComputeSystem
    from hcs_emulator.service.silo.namespaces import SiloProcess

Streams = tuple[int | None, int | None, int | None]


class Process:
    """A started process. It leaves its system's list when it exits, and stays valid while handles are open on it."""

    def __init__(self, system: ComputeSystem, inner: SiloProcess) -> None:
        self.system = system
        self.pid = inner.pid
        self.exit_code: int | None = None
        self.done = asyncio.Event()
        self._inner = inner
        self._stdin_closed = False
        self._handles: dict[int, Handle] = {}
        inner.exited.add_done_callback(self._exited)

    # handles

    def add_handle(self, handle: Handle) -> None:
        self._handles[handle.number] = handle

    def handle_closed(self, handle: Handle) -> None:
        self._handles.pop(handle.number, None)
        # The streams are open as long as a handle is. A console stays open: closing it would end the process.
        if not self._handles and not self._inner.console:
            self._inner.close()
        self._release()

    def listen(self, handle: Handle) -> None:
        """Send events to this handle from now on; an earlier exit is sent at once."""
        handle.listening = True
        if self.exit_code is not None:
            self.system.events.send((handle,), events.PROCESS_EXITED, self.status())

    # calls

    def status(self) -> dict[str, Any]:
        if self.exit_code is None:
            return {"ProcessId": self.pid, "Exited": False, "LastWaitResult": 0}
        return {"ProcessId": self.pid, "Exited": True, "ExitCode": self.exit_code, "LastWaitResult": 0}

    def streams(self) -> Streams:
        """Duplicates of the requested pipes; the receiver owns them."""
        if self.exit_code is not None and self._inner.stdout is None and self._inner.stderr is None:
            raise self._already_exited()
        outputs = (None if end is None else os.dup(end) for end in (self._inner.stdout, self._inner.stderr))
        return (self._client_stdin(), *outputs)  # type: ignore[return-value]

    def _client_stdin(self) -> int | None:
        """An open file of its own, with a lock, which the kernel releases when the client has closed it everywhere."""
        stdin = self._inner.stdin
        if stdin is None or self._inner.console:
            return None if stdin is None else os.dup(stdin)
        client = os.open(f"/proc/self/fd/{stdin}", os.O_WRONLY | os.O_CLOEXEC)
        fcntl.flock(client, fcntl.LOCK_SH)
        return client

    def _is_stdin_open(self) -> bool:
        """Whether the service and a client have it open. A console's stays open: it is that of its output too."""
        stdin = self._inner.stdin
        if self._inner.console or stdin is None:
            return not self._stdin_closed
        try:
            fcntl.flock(stdin, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(stdin, fcntl.LOCK_UN)
        return False

    def require_running(self) -> None:
        if self.exit_code is not None:
            raise self._already_exited()

    def terminate(self) -> None:
        self.require_running()
        if not self._inner.kill():
            raise self._already_exited()

    def signal(self, name: str) -> None:
        self.require_running()
        if not self._inner.signal(name):
            raise self._already_exited()

    def resize(self, height: int, width: int) -> None:
        self.require_running()
        try:
            self._inner.resize(height, width)
        except ValueError as error:
            raise HcsError(ERROR_INVALID_PARAMETER, f"[Modify process] {error}") from None

    def close_streams(self, which: str) -> None:
        """Close the service's end of a stream. When the client closes its own end too, the process reads the end of its
        input. A stream that the client, or an earlier call, has closed already is refused.
        """
        self.require_running()
        if which in ("StdIn", "All"):
            if not self._is_stdin_open():
                raise HcsError(
                    HCS_E_PROCESS_ALREADY_STOPPED, f"stdin of process {self.pid} of {self.system.id} is closed",
                    data=str(self.pid),
                )  # fmt: skip
            self._inner.close_stdin()
            self._stdin_closed = True

    async def wait(self, timeout: float | None) -> bool:
        """True when the process has exited within the timeout."""
        try:
            await asyncio.wait_for(self.done.wait(), timeout)
        except TimeoutError:
            return False
        return True

    # exit

    def _exited(self, future: asyncio.Future[int]) -> None:
        self.exit_code = (
            0xFFFFFFFF if future.cancelled() or future.exception() is not None else future.result() & 0xFFFFFFFF
        )
        self.system.processes.pop(self.pid, None)
        self.system.process_exited()
        self.system.events.send(self._handles.values(), events.PROCESS_EXITED, self.status())
        self.done.set()
        self._release()

    def _release(self) -> None:
        if self.exit_code is not None and not self._handles:
            self._inner.close()

    def _already_exited(self) -> HcsError:
        return HcsError(
            HCS_E_PROCESS_ALREADY_STOPPED, f"process {self.pid} of {self.system.id} has exited", data=str(self.pid)
        )
