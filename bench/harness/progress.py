"""Progress of a run: a rich progress bar on a terminal; in a log, a line per stage and every ten seconds."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

# A CI log is not a terminal, but someone may be reading it.
LOG_INTERVAL = 10.0


class Progress:
    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._began = time.monotonic()
        self._last_line = -LOG_INTERVAL
        self._stage = ""
        self._task: TaskID | None = None
        self._bars: Bars | None = None
        if self._stream.isatty() and not quiet:
            self._bars = Bars(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[detail]}"), console=Console(file=self._stream),
            )  # fmt: skip
            self._bars.start()

    def step(self, stage: str, number: int, total: int, detail: str = "") -> None:
        """Step `number` of `total` of a stage begins; numbers below one are warm-up."""
        position = "warm-up" if number < 1 else f"{number} of {total}"
        if self._bars is not None:
            self._show(stage, max(number - 1, 0), total, detail if number > 0 else f"warm-up, {detail}".rstrip(", "))
        else:
            self._log(stage, f"{position}{f', {detail}' if detail else ''}")

    def stage(self, name: str) -> None:
        """A stage without steps begins."""
        if self._bars is not None:
            self._show(name, 0, 1, "")
        else:
            self._log(name)

    def end(self) -> None:
        """Before anything else is printed to the terminal."""
        if self._bars is not None:
            self._complete()
            self._bars.stop()

    def _show(self, stage: str, completed: int, total: int, detail: str) -> None:
        """One bar per stage; the bar of the stage before is complete."""
        assert self._bars is not None
        if self._task is None or stage != self._stage:
            self._complete()
            self._task = self._bars.add_task(stage, total=total, detail=detail)
        self._bars.update(self._task, completed=completed, total=total, detail=detail)
        self._stage = stage

    def _complete(self) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=self._bars.tasks[self._task].total, detail="")

    def _log(self, stage: str, text: str = "") -> None:
        now = time.monotonic()
        if not self._quiet and (stage != self._stage or now - self._last_line >= LOG_INTERVAL):
            self._stream.write(f"[{now - self._began:6.1f} s] {stage}{f': {text}' if text else ''}\n")
            self._stream.flush()
            self._last_line = now
        self._stage = stage
