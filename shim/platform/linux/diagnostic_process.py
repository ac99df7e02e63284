"""A process on the host, for diagnostics, with the shim's privileges: a client that may call the shim has them anyway.

It has the interface of an HCS process: stdio handles that the caller takes over, and one exit callback. It runs in a
session of its own and, if requested, on a terminal of its own.
"""

from __future__ import annotations

import fcntl
import os
import signal
import termios

from shim.platform.exit_event import ExitEvent
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Document = dict[str, Any]
    Action = tuple[int, ...] | tuple[int, int, str, int, int]

_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
# posix_spawn cannot change the directory.
_IN_DIRECTORY = ("/bin/sh", "-c", 'cd -- "$0" && exec "$@"')


class DiagnosticProcess(ExitEvent):
    def __init__(
        self, args: Sequence[str], directory: str, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool
    ) -> None:
        """Start it. Raises OSError, and then leaves nothing behind."""
        if directory and not os.path.isdir(directory):
            raise NotADirectoryError(20, "no such directory to work in", directory)
        super().__init__()
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self._terminal: int | None = None
        self._is_reaped = False
        command = [*_IN_DIRECTORY, directory, *args] if directory else list(args)
        theirs: list[int] = []
        try:
            actions = self._open_terminal(theirs) if terminal else self._open_pipes(theirs, (stdin, stdout, stderr))
            self.pid = os.posix_spawnp(
                command[0], command, os.environ, file_actions=actions, setsid=True, setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )  # fmt: skip
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        run_soon(self._watch)

    def _open_pipes(self, theirs: list[int], requested: tuple[bool, bool, bool]) -> list[Action]:
        actions: list[Action] = []
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if not requested[number]:
                actions.append((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0))
                continue
            reading, writing = os.pipe2(os.O_CLOEXEC)
            ours, its = (writing, reading) if number == 0 else (reading, writing)
            theirs.append(its)
            setattr(self, name, ours)
            actions.append((os.POSIX_SPAWN_DUP2, its, number))
        return actions

    def _open_terminal(self, theirs: list[int]) -> list[Action]:
        """The first terminal that a session leader opens becomes its controlling terminal."""
        ours, its = os.openpty()
        theirs.append(its)
        self.stdin = self.stdout = ours
        # A duplicate to resize it with: the pump closes the other when it is done.
        self._terminal = os.dup(ours)
        opened: Action = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(its), os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def _watch(self) -> None:
        code = -1
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # WNOWAIT: the pid is not reused yet
        except ChildProcessError:
            pass
        with self._lock:
            self._is_reaped = True
            try:
                code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                pass
            if self._terminal is not None:
                os.close(self._terminal)
                self._terminal = None
        self.finish(code if code >= 0 else 128 - code)  # 128 + signal number, as a shell reports it

    def signal(self, options: Document) -> bool:
        return self._send(signal.SIGTERM)

    def terminate(self, timeout: float | None = None) -> bool:
        """Kill its process group: the process and the children that stayed in the group."""
        return self._send(signal.SIGKILL)

    def _send(self, number: int) -> bool:
        with self._lock:
            if self._is_reaped:
                return False
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return False
            return True

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        size = settings.get("ConsoleSize")
        with self._lock:
            if size and self._terminal is not None:
                packed = b"".join(n.to_bytes(2, "little") for n in (size["Height"], size["Width"], 0, 0))
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)

    def close(self) -> None:
        handles = {self.stdin, self.stdout, self.stderr}
        self.stdin = self.stdout = self.stderr = None
        for handle in handles:
            if handle is not None:
                os.close(handle)
