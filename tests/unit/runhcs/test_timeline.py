"""Timelines: rows by nesting, lines of text, and the page, in a browser with both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runhcs.timeline import page, text
from runhcs.timeline.rows import Timeline, timeline
from tests.support.browser import layout, rgb

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"
SCRIPT = """
for (const details of document.querySelectorAll('details')) details.open = true;
const page = document.documentElement, bars = [...document.querySelectorAll('.track i')];
const found = {overflow: page.scrollWidth - page.clientWidth, images: document.images.length,
  ground: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
  outside: bars.filter(bar => { const box = bar.getBoundingClientRect(), frame = bar.parentNode.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 3; }).length,
  widths: bars.map(bar => bar.getBoundingClientRect().width), colours: new Set(bars.map(
    bar => getComputedStyle(bar).backgroundColor)).size};
page.dataset.found = JSON.stringify(found);
"""


def span(name: str, kind: str, begin: int, end: int, error: str | None = None) -> dict[str, Any]:
    step = "retry" if error else None
    return {"name": name, "kind": kind, "begin": begin, "end": end, "error": error, "next_step": step}


def example() -> dict[str, Any]:
    children = [
        span("HcsStartComputeSystem", "call", 3_000_000, 4_000_000, "HCS_E_X"),
        span("hcs::System::Start", "operation", 2_000_000, 6_000_000, "HCS_E_X"),
        span("launch", "phase", 1_000_000, 7_000_000),
        span("guest Create", "guest", 8_000_000, 8_500_000),
        span("short", "phase", 9_000_000, 9_000_001),
    ]
    start = span("Start", "rpc", 0, 10_000_000, "HCS_E_X")
    exited = span("exit", "phase", 20_000_000, 21_000_000) | {"attributes": {"exit_status": 3}}
    roots = [start | {"exec": HOSTILE, "attributes": {}, "children": children}, exited | {"exec": "", "children": []}]
    events = [{"topic": "/tasks/start", "time": 5_000_000}]
    return {
        "namespace": "k8s.io", "id": "c1", "pod": "pod", "isolation": "process", "roots": roots, "events": events,
    }  # fmt: skip


def shown(shortest: float = 0.0) -> Timeline:
    return timeline(example(), shortest)


def test_rows_are_nested_by_time() -> None:
    first, second = shown().sections
    assert [(row.depth, row.name) for row in first.inside] == [
        (1, "launch"), (2, "hcs::System::Start"), (3, "HcsStartComputeSystem"), (1, "guest Create"), (1, "short"),
    ]  # fmt: skip
    assert first.events == ["start"] and second.whole.name == "exit (status 3)" and second.offset == 20.0
    assert "short" not in [row.name for row in shown(0.1).sections[0].inside]
    assert "HcsStartComputeSystem" in [row.name for row in shown(5).sections[0].inside]  # it failed


@pytest.mark.parametrize("width", [70, 120, 300])
def test_lines_fit_and_have_no_control_characters(width: int) -> None:
    lines = text.render(shown(), width)
    inside = [line for line in lines if line.startswith("  ") and "failed" not in line]
    assert inside and all(len(line) <= width for line in inside)
    assert "\x1b" not in "".join(lines) and "retry" in "".join(lines)
    bars = {line.split()[0]: line for line in inside}
    assert bars["launch"].count("─") > bars["guest"].count("█") >= 1


def test_empty_history_is_rendered() -> None:
    empty = timeline(example() | {"roots": []})
    assert text.render(empty, 100) and "c1" in page.render(empty, "1")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_page_in_browser(width: int, dark: bool, tmp_path: Path) -> None:
    content = page.render(shown(), "1")
    assert "http" not in content and "<script" not in content
    found = layout(content, SCRIPT, tmp_path, width, dark)
    paper = page.DARK_PAPER if dark else page.LIGHT_PAPER
    assert found["ground"] == rgb(paper)
    assert found["ink"] != found["ground"] and found["overflow"] <= 0 and found["images"] == 0
    assert found["outside"] == 0 and len(found["widths"]) == 5 and min(found["widths"]) >= 2 and found["colours"] == 3
