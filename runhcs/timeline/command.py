"""Show the lifecycle of a container as a timeline: its calls, their phases, HCS calls and guest messages.

  runhcs trace ID                   in the terminal
  runhcs trace ID --html FILE       as a page for a browser, in one file
  runhcs trace ID --json            for programs

`runhcs agent` has to run since the container was created; it remembers containers that have exited, too.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from runhcs import agent_client, console, shims
from runhcs.reports import as_json
from runhcs.timeline import page, text
from runhcs.timeline.rows import timeline
from shim.version import VERSION


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a container or pod, or a prefix of one")
    shims.configure(parser)
    parser.add_argument("--html", metavar="FILE", default="", help="write a page")
    parser.add_argument(
        "--min-ms", type=float, default=0.0, metavar="MS", help="leave out what took less time and did not fail"
    )


def run(args: argparse.Namespace) -> int:
    try:
        history = agent_client.query(args, "history", args.id)
    except agent_client.AgentError as error:
        console.show(f"runhcs trace: {error}", to_stderr=True)
        return 1
    shown = timeline(history, args.min_ms)
    if args.json:
        print(as_json(shown))
        return 0
    if args.html:
        try:
            Path(args.html).write_text(page.render(shown, VERSION), encoding="utf-8")
        except OSError as error:
            console.show(f"runhcs trace: the page cannot be written: {error}", to_stderr=True)
            return 1
        print(args.html)
        return 0
    for line in text.render(shown, shutil.get_terminal_size((120, 24)).columns):
        print(line)
    return 0
