"""A terminal in raw mode, on Linux and in a Windows console: keys with a timeout, and whole screens.

Only escape sequences that every terminal of the last decades has, so that it works over SSH, in a Windows console and
without a terminal database.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any

from runhcs.shims import WINDOWS

UP, DOWN, PAGE_UP, PAGE_DOWN, QUIT = "up", "down", "page up", "page down", "q"
_SEQUENCES = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"\x1b[5~": PAGE_UP, b"\x1b[6~": PAGE_DOWN,
    b"k": UP, b"j": DOWN, b"\x03": QUIT, b"\x1b": QUIT,
}  # fmt: skip
_WINDOWS_KEYS = {"H": UP, "P": DOWN, "I": PAGE_UP, "Q": PAGE_DOWN}
# Bytes of one key arrive together; over a slow line a little later.
_REST_SECONDS = 0.05


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


class Terminal:
    """`with Terminal() as terminal:`; leaves the terminal as it was."""

    def __init__(self) -> None:
        self._saved: Any = None

    def __enter__(self) -> Terminal:
        if WINDOWS:
            os.system("")  # turns escape sequences of this console on
        else:
            import termios
            import tty

            self._saved = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)
        self._write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\x1b[?25h\x1b[?1049l")
        if self._saved is not None:
            import termios

            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)

    def size(self) -> tuple[int, int]:
        size = shutil.get_terminal_size((80, 24))
        return size.columns, size.lines

    def draw(self, lines: list[str]) -> None:
        self._write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def key(self, timeout: float) -> str:
        """A key, or "" after the timeout."""
        return _windows_key(timeout) if WINDOWS else _linux_key(timeout)


def _linux_key(timeout: float) -> str:
    import select

    if not select.select([0], [], [], timeout)[0]:
        return ""
    data = os.read(0, 1)
    if not data:
        return QUIT  # the terminal is gone
    if data == b"\x1b":
        while len(data) < 6 and select.select([0], [], [], _REST_SECONDS)[0]:
            data += os.read(0, 1)
            if (data[-1:].isalpha() and data != b"\x1bO") or data[-1:] == b"~":
                break
    return _SEQUENCES.get(data) or data.decode("utf-8", "replace").lower()


def _windows_key(timeout: float) -> str:
    import importlib

    console: Any = importlib.import_module("msvcrt")
    deadline = time.monotonic() + timeout
    while not console.kbhit():
        if time.monotonic() >= deadline:
            return ""
        time.sleep(0.02)
    char = str(console.getwch())
    if char in ("\x00", "\xe0"):
        return _WINDOWS_KEYS.get(str(console.getwch()), "")
    return _SEQUENCES.get(char.encode()) or char.lower()
