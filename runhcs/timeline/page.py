"""A timeline as one HTML page without external files and without scripts, light or dark as the browser prefers."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from runhcs.console import printable
from runhcs.timeline.rows import Row, Section, Timeline

LIGHT_PAPER = "#ffffff"
DARK_PAPER = "#16181d"

STYLE = f"""
:root {{ color-scheme: light dark; --paper: {LIGHT_PAPER}; --ink: #1d2129; --soft: #626a78; --line: #dfe3ea;
  --phase: #a9b4c6; --call: #2f6fd0; --operation: #7a4fc4; --guest: #1e8a6a; --bad: #c22f2f; }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: {DARK_PAPER}; --ink: #e6e9ef; --soft: #9aa3b2;
  --line: #2e333d; --phase: #55607a; --call: #6ea3f2; --operation: #b394ee; --guest: #57c6a3; --bad: #f07b7b; }} }}
body {{ margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }}
h1 {{ font-size: 1.3rem; overflow-wrap: anywhere; }}
p {{ color: var(--soft); }}
summary {{ cursor: pointer; padding: .35rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }}
summary b {{ margin-right: .6rem; }}
.soft {{ color: var(--soft); }} .bad {{ color: var(--bad); }}
.row {{ display: grid; grid-template-columns: minmax(0, 22rem) 6rem minmax(0, 1fr); align-items: center;
  gap: .6rem; font-size: 13px; }}
.row span {{ overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }}
.row .time {{ text-align: right; font-variant-numeric: tabular-nums; }}
.track {{ position: relative; height: .8rem; }}
.track i {{ position: absolute; top: 0; bottom: 0; min-width: 2px; border-radius: 2px; background: var(--phase); }}
.call {{ background: var(--call) !important; }} .operation {{ background: var(--operation) !important; }}
.guest {{ background: var(--guest) !important; }} .failed {{ background: var(--bad) !important; }}
.legend i {{ display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; border-radius: 2px;
  vertical-align: -1px; background: var(--phase); }}
@media (max-width: 45rem) {{ .row {{ grid-template-columns: minmax(0, 1fr) 5rem; }} .track {{ grid-column: 1 / 3; }} }}
"""
LEGEND = (("phase", "phase"), ("operation", "HCS operation"), ("call", "HCS function"), ("guest", "guest message"),
          ("failed", "failed"))  # fmt: skip


def render(shown: Timeline, version: str) -> str:
    title = _text(f"{shown.namespace}/{shown.id}")
    begun = datetime.fromtimestamp(shown.begin / 1e9, UTC)
    about = f"{shown.isolation or 'unknown'} isolation, pod {shown.pod}, since {begun:%Y-%m-%d %H:%M:%S} UTC"
    legend = "".join(f'<i class="{name}"></i>{text}' for name, text in LEGEND)
    sections = "\n".join(_section(section) for section in shown.sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n<p>{_text(about)}</p>\n"
        f'<p class="legend">{legend}</p>\n{sections}\n<p>runhcs trace {_text(version)}</p></body></html>\n'
    )


def _section(section: Section) -> str:
    whole = section.whole
    events = f' <span class="soft">[{_text(", ".join(section.events))}]</span>' if section.events else ""
    failed = ""
    if whole.error:
        failed = (
            f'<p class="bad">failed: {_text(whole.error)}{_text("; " + whole.next_step if whole.next_step else "")}</p>'
        )
    rows = "\n".join(_row(row, whole) for row in section.inside)
    opened = " open" if section.inside and whole.milliseconds >= 1 else ""
    return (
        f'<details{opened}><summary><b class="{"bad" if whole.error else ""}">{_text(whole.name)}</b>'
        f'{whole.milliseconds:.2f} ms <span class="soft">at +{section.offset:,.1f} ms</span>{events}</summary>'
        f"{failed}{rows}</details>"
    )


def _row(row: Row, whole: Row) -> str:
    length = max(1, whole.end - whole.begin)
    left = min(99.5, 100 * (row.begin - whole.begin) / length)
    width = min(100 - left, 100 * (row.end - row.begin) / length)
    name = _text(row.name + (f" ({row.error})" if row.error else ""))
    kind = "failed" if row.error else row.kind
    return (
        f'<div class="row"><span title="{name}" style="padding-left:{row.depth}rem">{name}</span>'
        f'<span class="time">{row.milliseconds:.2f} ms</span><span class="track">'
        f'<i class="{kind}" style="left:{left:.2f}%;width:{width:.2f}%"></i></span></div>'
    )


def _text(text: str) -> str:
    return escape(printable(text))
