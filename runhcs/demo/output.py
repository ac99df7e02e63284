"""The output of the demo: lines on the terminal, by rich, and the same steps as data for --json.

Events and output of containers arrive in threads of their own, so every line is written whole, under a lock. Lines have
at most 100 columns; without a terminal there are no colours.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from attrs import field, frozen
from attrs.validators import ge
from rich.console import Console
from rich.text import Text

MAX_WIDTH = 100
MIN_WIDTH = 60
CALL, EVENT, OUTPUT = "call", "event", "output"
_MARKS = {CALL: ("▸", "blue"), EVENT: ("✦", "yellow"), OUTPUT: ("│", "green")}
_EIGHTHS = " ▏▎▍▌▋▊▉"

Part = str | tuple[str, str] | Text


@frozen
class Phase:
    """A named interval, in milliseconds."""

    name: str
    begin: float = field(validator=ge(0.0))
    end: float

    @property
    def length(self) -> float:
        return self.end - self.begin


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Screen:
    def __init__(self, stream: TextIO, *, silent: bool = False, colour: bool | None = None) -> None:
        self._stream = stream
        self._silent = silent
        self._lock = threading.Lock()
        columns = shutil.get_terminal_size((MAX_WIDTH, 24)).columns if stream.isatty() else MAX_WIDTH
        self.width = max(min(columns, MAX_WIDTH), MIN_WIDTH)
        colour = wants_colour(stream) if colour is None else colour
        self._console = Console(
            file=stream, width=self.width, highlight=False, force_terminal=colour,
            color_system="standard" if colour else None,
        )  # fmt: skip

    def line(self, *parts: Part) -> None:
        """Write parts, each text or (text, style), as one line; a line that is too long ends in an ellipsis."""
        if self._silent:
            return
        text = Text.assemble(*parts)
        text.rstrip()
        text.truncate(self.width, overflow="ellipsis")
        with self._lock:
            # Captured, because rich exits the process on a closed pipe, before the cleanup.
            with self._console.capture() as capture:
                self._console.print(text, soft_wrap=True)
            try:
                self._stream.write(capture.get())
                self._stream.flush()
            except OSError:
                self._silent = True

    # Kinds of lines.

    def title(self, text: str, note: str = "") -> None:
        self.line()
        self.line(" ", (text, "bold"), " " * max(self.width - len(text) - len(note) - 1, 2), (note, "dim"))

    def part(self, number: int, text: str) -> None:
        head = f" {number}  {text} "
        self.line()
        self.line((head, "bold cyan"), ("─" * max(self.width - len(head), 0), "dim"))

    def paragraph(self, text: str) -> None:
        for line in textwrap.wrap(text, self.width - 4):
            self.line(f"    {line}")

    def head(self, text: str, note: str = "") -> None:
        """The name of what follows."""
        self.line()
        self.line("    ", (text, "bold"), "  ", (note, "dim"))

    def step(self, milliseconds: float, mark: str, style: str, name: str, text: str) -> None:
        self.line((f"{milliseconds:8.1f}", "dim"), "  ", (f"{mark} {name:<12}", style), " ", text)

    def command(self, text: str, comment: str = "") -> None:
        self.line("    ", ("$", "dim"), " ", (text, "bold"), (comment, "dim"))

    def suggestion(self, command: str, comment: str = "") -> None:
        """A command to copy; the comment may be copied with it."""
        self.line("    ", (command, "bold"), (f"  # {comment}" if comment else "", "dim"))

    def output(self, text: str, style: str = "") -> None:
        for line in text.splitlines():
            self.line("      ", (line, style))

    def check(self, good: bool, name: str, text: str) -> None:
        mark = ("✓", "bold green") if good else ("✗", "bold red")
        self.line("    ", mark, f" {name:<16} ", (text, "" if good else "red"))

    def columns(self, cells: Sequence[str], count: int = 2) -> None:
        """Cells side by side, read downwards."""
        rows = -(-len(cells) // count)
        wide = (self.width - 4) // count
        for row in range(rows):
            self.line("    " + "".join(cells[index].ljust(wide) for index in range(row, len(cells), rows)))

    def timeline(self, phases: Iterable[Phase]) -> None:
        """A bar for each phase, all on one scale."""
        phases = list(phases)
        total = max((phase.end for phase in phases), default=0.0) or 1.0
        scale = self.width - 28
        for phase in phases:
            first, last = phase.begin / total * scale, phase.end / total * scale
            blank = min(int(first), scale - 1)
            whole, part = divmod(round((last - blank) * 8), 8)
            bar = ("█" * whole + _EIGHTHS[part].strip())[: scale - blank] or "▏"
            self.line(f"    {phase.name:<11} ", (f"{phase.length:8.1f} ms", "bold"), f" {' ' * blank}", (bar, "cyan"))


class Record:
    """The steps of one part of the demo: each is shown when it happens, and kept for --json."""

    def __init__(self, screen: Screen, *, of_several: bool = False) -> None:
        """With `of_several` containers, each line names its container."""
        self.screen = screen
        self._of_several = of_several
        self.steps: list[dict[str, Any]] = []
        self.phases: list[Phase] = []
        self._zero = time.monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Milliseconds since the beginning of this record."""
        return (time.monotonic() - self._zero) * 1000

    def add(self, kind: str, name: str, text: str, *, about: str = "", **data: Any) -> None:
        mark, style = _MARKS[kind]
        if self._of_several:
            data["about"] = about
        with self._lock:
            moment = self.now()
            self.steps.append({"ms": round(moment, 1), "kind": kind, "name": name, "text": text} | data)
            self.screen.step(moment, mark, style, name, f"{about:<6} {text}" if self._of_several else text)

    def add_phase(self, name: str, begin: float, end: float | None = None) -> None:
        self.phases.append(Phase(name, begin, self.now() if end is None else end))

    def names(self, kind: str, about: str = "") -> list[str]:
        with self._lock:
            entries = [entry for entry in self.steps if entry["kind"] == kind]
            return [entry["name"] for entry in entries if not about or entry.get("about") == about]

    def as_data(self) -> dict[str, Any]:
        return {
            "happened": self.steps,
            "phases": [
                {"name": phase.name, "begin_ms": round(phase.begin, 1), "ms": round(phase.length, 1)}
                for phase in self.phases
            ],
        }
