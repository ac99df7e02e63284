"""What the demo looks like: a few kinds of lines, aligned, in colour where somebody can see it, at most 100 columns.

Events and output arrive in threads of their own while the main thread speaks, so every line is written whole, under a
lock.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
import threading
from collections.abc import Iterable, Sequence
from typing import TextIO

WIDEST = 100
NARROWEST = 60

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_ESCAPES = re.compile("\x1b\\[[0-9;]*m")
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Phase:
    """A stretch of time with a name, in milliseconds."""

    def __init__(self, name: str, begin: float, end: float, note: str = "") -> None:
        self.name = name
        self.begin = begin
        self.end = end
        self.note = note

    @property
    def length(self) -> float:
        return self.end - self.begin


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Screen:
    def __init__(self, stream: TextIO, *, silent: bool = False, colour: bool | None = None) -> None:
        self._stream = stream
        self._silent = silent
        self._colour = wants_colour(stream) if colour is None else colour
        self._lock = threading.Lock()
        columns = shutil.get_terminal_size((WIDEST, 24)).columns if stream.isatty() else WIDEST
        self.width = max(min(columns, WIDEST), NARROWEST)

    def paint(self, text: str, *styles: str) -> str:
        if not self._colour or not styles or not text:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def line(self, text: str = "") -> None:
        if self._silent:
            return
        with self._lock:
            try:
                self._stream.write(self._cut(text).rstrip() + "\n")
                self._stream.flush()
            except OSError:  # the reader or the terminal has gone: nobody looks, but there is still to clean up
                self._silent = True

    def _cut(self, text: str) -> str:
        """As much as fits; where text is cut, it says so."""
        if visible(text) <= self.width:
            return text
        kept, room = [], self.width - 1
        for part in re.split(f"({_ESCAPES.pattern})", text):
            if _ESCAPES.fullmatch(part):
                kept.append(part)
            else:
                kept.append(part[:room])
                room -= len(part[:room])
        return "".join(kept) + "…"

    # Kinds of lines.

    def title(self, text: str, note: str = "") -> None:
        gap = max(self.width - visible(text) - visible(note) - 1, 2)
        self.line()
        self.line(f" {self.paint(text, 'bold')}{' ' * gap}{self.paint(note, 'dim')}")

    def part(self, number: int, text: str) -> None:
        self.line()
        head = f" {number}  {text} "
        self.line(self.paint(head, "bold", "cyan") + self.paint("─" * max(self.width - len(head), 0), "dim"))

    def paragraph(self, text: str) -> None:
        for line in textwrap.wrap(text, self.width - 4):
            self.line(f"    {line}")

    def head(self, text: str, note: str = "") -> None:
        """The name of what follows."""
        self.line()
        self.line(f"    {self.paint(text, 'bold')}  {self.paint(note, 'dim')}")

    def happened(self, milliseconds: float, mark: str, style: str, name: str, text: str) -> None:
        """One thing that happened, with its time."""
        moment = self.paint(f"{milliseconds:8.1f}", "dim")
        self.line(f"{moment}  {self.paint(f'{mark} {name:<12}', style)} {text}")

    def command(self, text: str) -> None:
        self.line(f"    {self.paint('$', 'dim')} {self.paint(text, 'bold')}")

    def suggestion(self, command: str, comment: str = "") -> None:
        """A command to copy; the comment may be copied with it."""
        self.line(f"    {self.paint(command, 'bold')}" + (self.paint(f"  # {comment}", "dim") if comment else ""))

    def output(self, text: str) -> None:
        for line in text.splitlines():
            self.line(f"      {line}")

    def tick(self, good: bool, name: str, text: str) -> None:
        mark = self.paint("✓", "green", "bold") if good else self.paint("✗", "red", "bold")
        self.line(f"    {mark} {name:<16} {text if good else self.paint(text, 'red')}")

    def failure(self, text: str) -> None:
        for line in text.splitlines() or [""]:
            for piece in textwrap.wrap(line, self.width - 6, subsequent_indent="  ") or [""]:
                self.line(f"    {self.paint(piece, 'red')}")

    def columns(self, cells: Sequence[str], count: int = 2) -> None:
        """Cells side by side, read downwards."""
        rows = -(-len(cells) // count)
        wide = (self.width - 4) // count
        for row in range(rows):
            shown = [cells[index] for index in range(row, len(cells), rows)]
            self.line("    " + "".join(cell + " " * (wide - visible(cell)) for cell in shown))

    def timeline(self, phases: Iterable[Phase]) -> None:
        """A bar for each phase, all on one scale."""
        phases = list(phases)
        total = max((phase.end for phase in phases), default=0.0) or 1.0
        room = self.width - 28
        for phase in phases:
            first, last = phase.begin / total * room, phase.end / total * room
            blank = min(int(first), room - 1)
            whole, part = divmod(round((last - blank) * 8), 8)
            bar = ("█" * whole + _EIGHTHS[part].strip())[: room - blank] or "▏"
            amount = self.paint(f"{phase.length:8.1f} ms", "bold")
            self.line(f"    {phase.name:<11} {amount} {' ' * blank}{self.paint(bar, 'cyan')}")


def visible(text: str) -> int:
    """How many columns the text takes."""
    return len(_ESCAPES.sub("", text))
