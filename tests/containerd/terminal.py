"""An interactive user: runs a command on a pseudo terminal, types input, and reads what it shows."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Mapping
from types import TracebackType

TIMEOUT = 60.0


class Terminal:
    """`with Terminal(command, env) as terminal: terminal.expect("$"); terminal.type("exit\\n")`."""

    def __init__(self, command: list[str], env: Mapping[str, str], rows: int = 24, columns: int = 80) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(env), start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, columns))
        self._process.send_signal(28)  # SIGWINCH, which only the terminal's own session would get

    def expect(self, text: str) -> None:
        """Read until this text is shown. `shown` holds all output so far."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.shown:
            remaining = deadline - time.monotonic()
            assert remaining > 0 and self._read(remaining), f"{text!r} is not shown; it shows {self.shown!r}"

    def wait(self) -> int:
        """Read all output and return the exit code."""
        deadline = time.monotonic() + TIMEOUT
        while self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self._process.wait(TIMEOUT)

    def _read(self, timeout: float) -> bool:
        if not select.select([self._ours], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # EIO: no process has the other end open
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
