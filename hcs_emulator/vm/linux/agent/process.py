"""Processes of containers and of the VM: their exit, and who has waited for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from hcs_emulator.vm.linux.agent import background, log
from hcs_emulator.vm.linux.agent.errors import NOT_FOUND, TIMEOUT, GuestError, reason, with_code
from hcs_emulator.vm.linux.agent.relay import PipeRelay, TtyRelay

INFINITE = 0xFFFFFFFF


class Process:
    """`on_exit` is called when the process has exited, before its streams are drained; `on_waited` after the first
    answered wait. `forget` is called before that answer: gcs does not know the process any more when the host has it.
    """

    def __init__(self, pid: int, relay: PipeRelay | TtyRelay | None) -> None:
        self.pid = pid
        self.relay = relay
        self.exit_code = -1
        self.started = False  # by a request of the host
        self.waits = 0
        self.waited = threading.Event()
        self.gone = threading.Event()  # reaped
        self.exited = threading.Event()  # and its streams have ended
        self.on_exit: Callable[[], None] = lambda: None
        self.on_waited: Callable[[], None] = lambda: None
        self.forget: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def watch(self) -> None:
        background.start(self._watch)

    def _watch(self) -> None:
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:  # the pid is free for others after this
                self.gone.set()
                _, status = os.waitpid(self.pid, 0)
            self.exit_code = self._code(status)
        except ChildProcessError:
            log.error("failed to wait for runc process", pid=self.pid)
            self.gone.set()
        self.on_exit()
        if self.relay is not None:
            self.relay.wait()
        self.exited.set()
        log.debug("process exited", pid=self.pid, exitCode=self.exit_code)

    def _code(self, status: int) -> int:
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def wait(self, milliseconds: int) -> int:
        """The exit code; `answered` must follow when the host has it."""
        if not self.exited.wait(None if milliseconds == INFINITE else milliseconds / 1000):
            raise with_code(TIMEOUT)
        return self.exit_code

    def answered(self) -> None:
        with self._lock:
            first = not self.waited.is_set()
            self.waited.set()
        if first:
            self.on_waited()

    def kill(self, number: int) -> None:
        """The lock keeps the pid from being reaped, and used again, meanwhile."""
        with self._lock:
            if self.gone.is_set():
                raise with_code(NOT_FOUND)
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                raise with_code(NOT_FOUND) from None
            except OSError as error:
                raise GuestError(reason(error)) from error

    def resize(self, height: int, width: int) -> None:
        if not isinstance(self.relay, TtyRelay):
            raise GuestError(f"pid: {self.pid}, is not a tty and cannot be resized")
        try:
            self.relay.resize(height, width)
        except OSError as error:
            raise GuestError(reason(error)) from error


class VmProcess(Process):
    """A process of the VM itself. Its code is -1 after a signal, as Go reports it."""

    def _code(self, status: int) -> int:
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else -1


def exit_type(number: int) -> str | None:
    """What a signal to init makes of the container's exit."""
    return {int(signal.SIGTERM): "GracefulExit", int(signal.SIGKILL): "ForcedExit"}.get(number)
