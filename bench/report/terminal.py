"""Terminal output: tables and the tree of a run by rich. Without a terminal, plain text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree

from bench.report import tables
from bench.report.results import Run
from bench.report.tables import Table

# Style of a cell that has exactly this text or begins with it.
CELL_STYLES = {"WORSE": "bold red", "better": "green", "too few samples": "dim", "error": "red", "leak": "red"}


def print_tables(found: Iterable[Table], console: Console | None = None) -> None:
    console = console or Console()
    found = list(found)
    if not console.is_terminal:
        print(tables.text(found), file=console.file)
        return
    for table in found:
        console.print(Text(table.title, style="bold"), soft_wrap=True)
        console.print(_rendered(table))
    if any(table.has_few_samples for table in found):
        console.print(tables.FEW_SAMPLES, style="dim", highlight=False)


def _rendered(table: Table) -> RichTable:
    rendered = RichTable(header_style="dim", box=box.SIMPLE_HEAD)
    last = len(table.columns) - 1
    for place, name in enumerate(table.columns):
        rendered.add_column(escape(name), justify="left" if place in (0, last) else "right", overflow="fold")
    for row in table.rows:
        rendered.add_row(*(Text(cell, style=CELL_STYLES.get(cell, "")) for cell in row))
    return rendered


def print_run(run: Run, written: Sequence[Path], console: Console | None = None) -> None:
    """The candidates, the content and the files of a run; without a terminal only the files."""
    console = console or Console()
    directory = written[0].parent
    if not console.is_terminal:
        print(f"{', '.join(path.name for path in written)} in {directory}", file=console.file, flush=True)
        return
    console.print(run_tree(run, written), highlight=False)


def run_tree(run: Run, written: Sequence[Path]) -> Tree:
    result = "[bold red]failed[/]" if run.failures else "[bold green]passed[/]"
    tree = Tree(f"run {escape(run.began)}, {run.seconds:.0f} s: {result}")
    branch = tree.add("candidates")
    for one in run.candidates:
        role = "baseline" if one.name == run.baseline else "subject" if one.subject else "reference"
        branch.add(f"{escape(one.name)} {escape(one.version)} [dim]{role}[/]")
    branch = tree.add("results")
    profiles: dict[str, int] = {}
    for measure in run.measures:
        if measure.samples:
            profiles[measure.profile or "process"] = profiles.get(measure.profile or "process", 0) + 1
    for profile, count in profiles.items():
        branch.add(f"{escape(profile)}: {count} measures")
    counts = {"series": len(run.all_series), "timelines": len(run.timelines), "trends": len(run.trends)}
    for name, count in counts.items():
        if count:
            branch.add(f"{count} {name}")
    if run.violations:
        branch.add(f"[red]{len(run.violations)} violations[/]")
    for skipped in run.skipped:
        branch.add(f"[yellow]skipped {escape(skipped.measure)}[/]: {escape(skipped.reason)}")
    branch = tree.add(f"files in {escape(os.fspath(written[0].parent))}")
    for path in written:
        branch.add(escape(path.name))
    return tree
