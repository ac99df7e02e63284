"""Text output of `runhcs`: tables, trees and progress.

On a terminal rich draws them. In pipes and files, and where rich is not installed (the zip for Windows nodes), the same
content is plain text: columns as wide as their cells, nothing truncated, no colours. rich is imported only for a
terminal, so that scripts do not pay for it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

# Colours of words that report an outcome or a state.
STYLES = {
    "ok": "green", "running": "green", "released": "green",
    "note": "cyan", "created": "cyan", "none": "dim", "paused": "yellow",
    "warn": "yellow", "found": "yellow", "no answer": "red",
    "fail": "bold red", "failed": "bold red", "dead": "bold red",
}  # fmt: skip


def has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None


def terminal(stream: Any = None) -> Console | None:
    """rich's console for this stream; None if the output is to be plain text."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("TERM") == "dumb" or not has_rich():
        return None
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=False)


def printable(text: str) -> str:
    """The text with every control character but newlines and tabs in visible form. Names, errors and stacks come from
    containers and guests: an escape sequence in them must not reach the terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def show(text: str, *, to_stderr: bool = False, flush: bool = False) -> None:
    """Print text that is not our own."""
    print(printable(text), file=sys.stderr if to_stderr else sys.stdout, flush=flush)


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    console = terminal()
    if console is None:
        print(plain_table(head, rows))
        return
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        drawn.add_column(name, overflow="fold")  # a long id is wrapped, never cut
    for row in rows:
        drawn.add_row(*(Text(printable(str(cell)), style=STYLES.get(str(cell), "")) for cell in row))
    console.print(drawn)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; the last column is not padded."""
    cells = [[printable(str(cell)) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def print_tree(title: str, value: Mapping[str, Any]) -> None:
    """A JSON object, one member on a line."""
    console = terminal()
    if console is None:
        print(plain_tree(value))
        return
    from rich.tree import Tree

    tree = Tree(title, guide_style="dim")
    _add_branches(tree, value)
    console.print(tree)


def _add_branches(tree: Tree, value: Any) -> None:
    from rich.text import Text

    def label(name: str, text: str = "") -> Text:
        return Text.assemble((name, "bold"), (text, STYLES.get(text.removeprefix(": "), "")), overflow="fold")

    items = value.items() if isinstance(value, Mapping) else ((f"[{at}]", one) for at, one in enumerate(value))
    for name, item in items:
        if isinstance(item, (Mapping, list)) and item:
            _add_branches(tree.add(label(printable(str(name)))), item)
        else:
            tree.add(label(printable(str(name)), f": {_scalar(item)}"))


def plain_tree(value: Any, indent: int = 0) -> str:
    """A JSON value as indented lines."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        lines = []
        for name, item in value.items():
            if isinstance(item, (Mapping, list)) and item:
                lines.append(f"{pad}{printable(str(name))}:\n{plain_tree(item, indent + 1)}")
            else:
                lines.append(f"{pad}{printable(str(name))}: {_scalar(item)}")
        return "\n".join(lines)
    if isinstance(value, list):
        return "\n".join(_list_item(item, indent) for item in value)
    return pad + _scalar(value)


def _list_item(item: Any, indent: int) -> str:
    text = plain_tree(item, indent + 1)
    return "  " * indent + "- " + text.lstrip() if text.strip() else "  " * indent + "-"


def _scalar(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else printable(str(value))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on stderr while a slow step runs; nothing if stderr is not a terminal."""
    console = terminal(sys.stderr)
    if console is None:
        yield
        return
    with console.status(text):
        yield


def age(seconds: float) -> str:
    """An age in its two largest units."""
    seconds = max(0.0, seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole}{unit}{rest // part}{smaller}"
    return f"{seconds:.0f}s"
