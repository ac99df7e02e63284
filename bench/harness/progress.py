"""What is being done, while it is done: one line that is rewritten on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from typing import TextIO

# A log of CI is not a terminal, yet somebody waits in front of it.
LOG_INTERVAL = 10.0


class Progress:
    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._last = -LOG_INTERVAL
        self._stage = ""

    def step(self, stage: str, number: int, total: int, detail: str = "") -> None:
        """The number-th of total steps of a stage begins; numbers below one are of the warm-up."""
        place = "warm-up" if number < 1 else f"{number} of {total}"
        self.say(stage, f"{place}{f', {detail}' if detail else ''}")

    def say(self, stage: str, text: str = "") -> None:
        if self._quiet:
            return
        now = time.monotonic()
        line = f"[{now - self._began:6.1f} s] {stage}{f': {text}' if text else ''}"
        if self._terminal:
            self._stream.write(f"\r\033[K{line[:118]}")
        elif stage != self._stage or now - self._last >= LOG_INTERVAL:
            self._stream.write(f"{line}\n")
            self._last = now
        self._stage = stage
        self._stream.flush()

    def end(self) -> None:
        """Leaves an empty line on a terminal, for whatever is printed next."""
        if self._terminal and not self._quiet:
            self._stream.write("\r\033[K")
            self._stream.flush()
