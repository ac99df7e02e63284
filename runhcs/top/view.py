"""The lines of `runhcs top`: one function from a sample to text, for the screen and for pipes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from runhcs.console import plain_table, printable
from runhcs.top.sample import Row, Sample

HEAD = ("KIND", "NAMESPACE", "ID", "STATE", "ISOLATION", "CPU %", "MEMORY", "IN PROGRESS")
KEYS = "↑ ↓ select   i inspect   s stacks   t timeline   q quit"
#: How many lines of each list fit a small screen.
SLOWEST = 5
ERRORS = 4


def summary(sample: Sample) -> str:
    kinds = {kind: sum(row.kind == kind for row in sample.rows) for kind in ("pod", "container", "vm")}
    running = sum(row.kind != "vm" and row.state == "running" for row in sample.rows)
    return (
        f"{kinds['pod']} pods, {kinds['container']} containers ({running} tasks running), {kinds['vm']} VMs, "
        f"{len(sample.errors)} recent errors"
    )


def table(sample: Sample) -> list[str]:
    """The head, and a line for each row."""
    return plain_table(HEAD, [_cells(row) for row in sample.rows]).splitlines()


def details(sample: Sample, errors: int = ERRORS, slowest: int = SLOWEST) -> list[str]:
    if sample.agent_problem:
        return [f"No operations and errors: {printable(sample.agent_problem)}"]
    lines = ["Slowest HCS operations and guest messages of the last 5 minutes"]
    lines += [f"  {one['seconds'] * 1e3:9.1f} ms  {printable(one['name'])}  {printable(one['task'])}"
              for one in sample.slowest[:slowest]] or ["  none"]  # fmt: skip
    lines += ["Recent errors"]
    lines += [line for one in sample.errors[:errors] for line in _error(one)] or ["  none"]
    return lines


def text(sample: Sample) -> list[str]:
    """All of it, for a pipe or a file."""
    return [summary(sample), "", *table(sample), "", *details(sample, len(sample.errors), len(sample.slowest))]


def _cells(row: Row) -> tuple[str, ...]:
    name = row.id if row.kind != "vm" else f"  {row.id}"
    cpu = "-" if row.cpu_percent is None else f"{row.cpu_percent:.1f}"
    memory = "-" if row.memory is None else _size(row.memory)
    return (row.kind, row.namespace, name, row.state, row.isolation or "-", cpu, memory, row.note or "-")


def _size(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _error(one: dict[str, Any]) -> list[str]:
    moment = datetime.fromtimestamp(one["time"] / 1e9, UTC)
    code = f" ({one['code']})" if one["code"] else ""
    lines = [printable(f"  {moment:%H:%M:%S} {one['task'] or '-'}: {one['call']}: {one['error']}{code}")]
    if one["next_step"]:
        lines.append(printable(f"           {one['next_step']}"))
    return lines


def screen(sample: Sample | None, selected: int, width: int, height: int) -> list[str]:
    """Exactly `height` lines of at most `width` columns; the selected row is in reverse video."""
    if sample is None:
        return _fit(["querying shims …"], width, height)
    below = details(sample)
    rows = table(sample)
    room = max(3, height - len(below) - 5)
    first = max(0, min(selected - room // 2, len(rows) - 1 - room))
    shown = []
    for at, line in enumerate(rows[1:]):
        if first <= at < first + room:
            cut = line[:width].ljust(width) if at == selected else line[:width]
            shown.append(f"\x1b[7m{cut}\x1b[0m" if at == selected else cut)
    lines = [summary(sample)[:width], "", rows[0][:width], *shown, "", *(line[:width] for line in below)]
    return [*_fit(lines, 0, height - 1), KEYS[:width]]


def _fit(lines: list[str], width: int, height: int) -> list[str]:
    cut = [line[:width] for line in lines] if width else lines
    return (cut + [""] * height)[:height]


def pager(title: str, lines: list[str], top: int, width: int, height: int) -> list[str]:
    shown = [title[:width], *(line[:width] for line in lines[top : top + height - 2])]
    return [*_fit(shown, 0, height - 1), "↑ ↓ PgUp PgDn scroll   q back"[:width]]
