"""Terminal output: rich on a terminal, plain text otherwise."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.report import tables, terminal
from tests.unit.bench.test_results import full_run

WRITTEN = [Path("out/results.json"), Path("out/report.html")]


def console(*, is_terminal: bool) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=is_terminal, width=160, color_system=None), stream


@pytest.mark.parametrize("is_terminal", [False, True])
def test_tables_have_every_cell(is_terminal: bool) -> None:
    target, stream = console(is_terminal=is_terminal)
    found = tables.all_tables(full_run())
    terminal.print_tables(found, target)
    for table in found:
        assert table.title in stream.getvalue()
        for row in table.rows:
            assert all(cell in stream.getvalue() for cell in row)


def test_tables_without_terminal_are_plain_text() -> None:
    target, stream = console(is_terminal=False)
    found = tables.overview(full_run())
    terminal.print_tables(found, target)
    assert stream.getvalue() == tables.text(found) + "\n"


def test_few_samples_are_explained() -> None:
    run = full_run()
    run.measures[0].samples["runhcs cold"] = [1.0, 2.0]
    for is_terminal in (False, True):
        target, stream = console(is_terminal=is_terminal)
        terminal.print_tables(tables.overview(run), target)
        assert tables.FEW_SAMPLES in stream.getvalue()


def test_run_tree_has_candidates_results_and_files() -> None:
    run = full_run()
    run.violation("runhcs cold", "leak", "leaked [mount]")
    run.skip("state_calls", "needs [Go]")
    run.failures = ["leak"]
    target, stream = console(is_terminal=True)
    terminal.print_run(run, WRITTEN, target)
    for words in (
        "failed", "runc 2 2.0 baseline", "runhcs cold  subject", "process: 2 measures", "1 violations",
        "skipped state_calls: needs [Go]", "files in out", "report.html",
    ):  # fmt: skip
        assert words in stream.getvalue()


def test_run_without_terminal_prints_files() -> None:
    target, stream = console(is_terminal=False)
    terminal.print_run(full_run(), WRITTEN, target)
    assert stream.getvalue() == "results.json, report.html in out\n"
