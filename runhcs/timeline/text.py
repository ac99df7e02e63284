"""A timeline as text: a bar for each span, in the scale of its call."""

from __future__ import annotations

from datetime import UTC, datetime

from runhcs.console import printable
from runhcs.timeline.rows import Row, Section, Timeline

NAMES = 44
DURATIONS = 11
LEAST_BAR = 10


def render(shown: Timeline, width: int) -> list[str]:
    """Lines of at most `width` columns, if it is at least 70."""
    begun = datetime.fromtimestamp(shown.begin / 1e9, UTC)
    title = f"{shown.namespace}/{shown.id}"
    if shown.pod != shown.id:
        title += f" in pod {shown.pod}"
    lines = [printable(f"{title}, {shown.isolation or 'unknown'} isolation, since {begun:%Y-%m-%d %H:%M:%S} UTC")]
    for section in shown.sections:
        lines += ["", *_section(section, max(LEAST_BAR, width - NAMES - DURATIONS - 2))]
    return lines


def _section(section: Section, columns: int) -> list[str]:
    whole = section.whole
    head = f"+{section.offset:,.1f} ms  {whole.name}  {whole.milliseconds:.2f} ms"
    if section.events:
        head += f"  [{', '.join(section.events)}]"
    lines = [printable(head)]
    if whole.error:
        lines.append(printable(f"  failed: {whole.error}" + (f"; {whole.next_step}" if whole.next_step else "")))
    for row in section.inside:
        lines.append(_line(row, whole, columns))
    return lines


def _line(row: Row, whole: Row, columns: int) -> str:
    name = "  " * row.depth + row.name + (f" ({row.error})" if row.error else "")
    name = printable(name)
    if len(name) > NAMES:
        name = name[: NAMES - 1] + "…"
    length = max(1, whole.end - whole.begin)
    start = min(columns - 1, (row.begin - whole.begin) * columns // length)
    size = max(1, (row.end - row.begin) * columns // length)
    mark = "!" if row.error else "█" if row.kind != "phase" else "─"
    bar = " " * start + mark * min(size, columns - start)
    return f"{name:<{NAMES}} {row.milliseconds:>{DURATIONS - 3}.2f} ms {bar}".rstrip()
