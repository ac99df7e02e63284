"""Tables and outlines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be, the last one as long as it is."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def outline(value: Any, indent: int = 0) -> str:
    """A JSON value as indented lines."""
    pad = "  " * indent
    if isinstance(value, dict):
        lines = []
        for name, item in value.items():
            if isinstance(item, (dict, list)) and item:
                lines.append(f"{pad}{name}:\n{outline(item, indent + 1)}")
            else:
                lines.append(f"{pad}{name}: {_plain(item)}")
        return "\n".join(lines)
    if isinstance(value, list):
        return "\n".join(_item(item, indent) for item in value)
    return pad + _plain(value)


def _item(item: Any, indent: int) -> str:
    text = outline(item, indent + 1)
    return "  " * indent + "- " + text.lstrip() if text.strip() else "  " * indent + "-"


def _plain(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def age(seconds: float) -> str:
    """Two figures are enough."""
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            smaller = {"d": ("h", 3600), "h": ("m", 60), "m": ("s", 1)}[unit]
            return f"{whole}{unit}{rest // smaller[1]}{smaller[0]}"
    return f"{seconds:.0f}s"
