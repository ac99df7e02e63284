"""A live view of this node's shims: pods, containers and VMs with CPU and memory, calls in progress, the slowest HCS
operations, and recent errors with their next step.

  runhcs top                    until q; i, s and t show the selected pod or container in detail
  runhcs top | cat              without a terminal: once, as plain text
  runhcs top --count 3 --interval 5 > FILE

Calls in progress, slowest operations and errors need `runhcs agent`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable

from runhcs import agent_client, console, inspect, shims, stacks
from runhcs.reports import as_json
from runhcs.shims import QueryError
from runhcs.timeline import text as timeline_text
from runhcs.timeline.rows import timeline
from runhcs.top import view
from runhcs.top.sample import Row, Sample, take
from runhcs.top.terminal import DOWN, PAGE_DOWN, PAGE_UP, QUIT, UP, Terminal, is_interactive

LEAST_INTERVAL = 0.5
KEY_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)
    parser.add_argument("--interval", type=float, default=2.0, metavar="S", help="seconds between updates (default: 2)")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="plain text: print this many times")


def run(args: argparse.Namespace) -> int:
    args.interval = max(LEAST_INTERVAL, args.interval)
    if args.json or args.count or not is_interactive():
        return _print(args, max(1, args.count))
    try:
        with Terminal() as terminal:
            Live(args, terminal).run()
    except OSError as error:
        console.show(f"runhcs top: the terminal cannot be used: {error}; try `runhcs top | cat`", to_stderr=True)
        return 1
    return 0


def _print(args: argparse.Namespace, count: int) -> int:
    sample = take(args)
    for _ in range(count):
        # CPU is the difference of two samples.
        time.sleep(args.interval)
        sample = take(args, sample)
        print(as_json(sample) if args.json else "\n".join([*view.text(sample), ""]), flush=True)
    return 0


class Live:
    """The interactive view. A thread takes the samples, so that keys have an effect at once."""

    def __init__(self, args: argparse.Namespace, terminal: Terminal) -> None:
        self._args = args
        self._terminal = terminal
        self._sample: Sample | None = None
        self._selected = 0
        self._stop = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._sampling, daemon=True).start()
        try:
            while True:
                sample = self._sample
                self._selected = max(0, min(self._selected, len(sample.rows) - 1 if sample else 0))
                self._terminal.draw(view.screen(sample, self._selected, *self._terminal.size()))
                key = self._terminal.key(KEY_SECONDS)
                if key == QUIT:
                    return
                self._pressed(key, sample)
        finally:
            self._stop.set()

    def _sampling(self) -> None:
        while not self._stop.is_set():
            self._sample = take(self._args, self._sample)
            self._stop.wait(self._args.interval)

    def _pressed(self, key: str, sample: Sample | None) -> None:
        steps = {UP: -1, DOWN: 1, PAGE_UP: -10, PAGE_DOWN: 10}
        self._selected += steps.get(key, 0)
        pages: dict[str, Callable[[Row], list[str]]] = {"i": self._inspect, "s": self._stacks, "t": self._timeline}
        if key in pages and sample is not None and sample.rows:
            row = sample.rows[min(self._selected, len(sample.rows) - 1)]
            self._terminal.draw(view.pager(f"{row.namespace}/{row.id} …", [], 0, *self._terminal.size()))
            try:
                lines = pages[key](row)
            except (QueryError, agent_client.AgentError) as error:
                lines = [str(error)]
            self._page(f"{row.namespace}/{row.id}", [console.printable(line) for line in lines])

    def _page(self, title: str, lines: list[str]) -> None:
        top = 0
        while True:
            width, height = self._terminal.size()
            top = max(0, min(top, len(lines) - (height - 2)))
            self._terminal.draw(view.pager(title, lines, top, width, height))
            key = self._terminal.key(KEY_SECONDS)
            if key == QUIT:
                return
            top += {UP: -1, DOWN: 1, PAGE_UP: 2 - height, PAGE_DOWN: height - 2}.get(key, 0)

    def _shim(self, row: Row, properties: bool) -> shims.Shim:
        return shims.pick(shims.find(self._args, properties=properties), _container(row))

    def _inspect(self, row: Row) -> list[str]:
        found = inspect.describe(self._shim(row, True), shims.bundles(self._args))
        return console.plain_tree(json.loads(as_json(found))).splitlines()

    def _stacks(self, row: Row) -> list[str]:
        found = stacks.stacks_of(self._shim(row, False))
        parts = [found.problem or "", found.stacks, found.guest_stacks]
        return "\n\n".join(part for part in parts if part).splitlines()

    def _timeline(self, row: Row) -> list[str]:
        history = agent_client.query(self._args, "history", _container(row))
        return timeline_text.render(timeline(history), self._terminal.size()[0])


def _container(row: Row) -> str:
    """A VM has the name of its pod or container."""
    return row.id.removesuffix("@vm") if row.kind == "vm" else row.id
