"""Text output with and without a terminal, and JSON in and out."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from runhcs import console, extras
from runhcs.reports import ReportError, as_json, read_shim_report

LONG_ID = "0123456789abcdef" * 4
REPORT: dict[str, Any] = {
    "version": "9", "pid": 5, "namespace": "k8s.io", "id": "pod", "is_sandbox": True, "bundle": "/b", "new": {"x": 1},
    "tasks": [{"id": "pod", "state": "running", "deleted": False, "execs": [{"id": "e", "state": "created"}]}],
    "making": ["c2"], "vm": {"id": "pod@vm", "is_gone": False},
}  # fmt: skip


ESCAPES = "a\x1b]0;title\x07b\x1b[2Jc\rd\x9be\u202ef"


def test_control_characters_are_shown_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(f"{ESCAPES}\n\tend")
    console.show(ESCAPES, to_stderr=True)
    console.print_table(("ID",), [(ESCAPES,)])
    console.print_tree("title", {ESCAPES: {"name": ESCAPES, "list": [ESCAPES]}})
    out, err = capsys.readouterr()
    assert all(char.isprintable() or char in "\n\t" for char in out + err)
    assert out.startswith("a\\x1b]0;title\\x07b") and "\n\tend\n" in out


def test_control_characters_do_not_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    console.print_table(("ID",), [(ESCAPES,)])
    console.print_tree("title", {ESCAPES: {"name": ESCAPES}})
    assert "\x1b]0" not in screen.getvalue() and "\x1b[2J" not in screen.getvalue() and "\x9b" not in screen.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """Without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?]*\w", "", self.getvalue())


def test_table_in_a_pipe_is_plain_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("ID", "STATE"), [(LONG_ID * 3, "running"), ("b", "-")])
    head, first, second = capsys.readouterr().out.splitlines()
    assert first == f"{LONG_ID * 3}  running" and head.split() == ["ID", "STATE"]
    assert second.index("-") == head.index("STATE")


def test_table_on_a_narrow_terminal_wraps_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    console.print_table(("ID", "STATE"), [(LONG_ID, "running")])
    lines = terminal.text.splitlines()
    assert all(len(line) <= 40 for line in lines) and "\x1b[32m" in terminal.getvalue()
    assert "".join(line.replace("running", "").strip() for line in lines[1:]) == LONG_ID


def test_tree_in_a_pipe_and_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"id": "c1", "tasks": [{"id": "c1", "deleted": False}], "vm": None}
    console.print_tree("c1", value)
    assert capsys.readouterr().out == "id: c1\ntasks:\n  - id: c1\n    deleted: no\nvm: -\n"
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    console.print_tree("c1", value)
    assert "└── deleted: no" in terminal.text


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(console, "has_rich", lambda: False)
    console.print_table(("ID",), [("a",)])
    with console.progress("working"):
        pass
    assert terminal.getvalue() == "ID\na\n"


def test_pipes_do_not_import_rich() -> None:
    code = "import sys; from runhcs import console; console.print_table(('A',), [('b',)]); print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "A\nb\nFalse\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m"), (90061, "1d1h"), (86399, "23h59m")]
)
def test_age_has_two_units(seconds: float, text: str) -> None:
    assert console.age(seconds) == text


def test_report_of_a_newer_shim_keeps_unknown_members() -> None:
    report = read_shim_report(json.dumps(REPORT))
    assert (report.pid, report.id, report.is_sandbox, report.creating) == (5, "pod", True, ["c2"])
    assert report.tasks[0].execs[0].state == "created" and report.vm is not None and report.vm.id == "pod@vm"
    assert report.raw == REPORT


@pytest.mark.parametrize(
    "change",
    [{"pid": "5"}, {"pid": -1}, {"pid": True}, {"id": 7}, {"tasks": [{"state": "x"}]}, {"tasks": 3}, {"vm": []}],
)
def test_report_with_a_wrong_type_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ReportError):
        read_shim_report(json.dumps({**REPORT, **change}))


MEMBERS = st.sampled_from(["pid", "id", "tasks", "vm", "execs", "making", "bundle"])
SCALARS = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(MEMBERS, inner)))
def test_any_json_is_read_or_rejected(value: Any) -> None:
    try:
        read_shim_report(json.dumps(value))
    except ReportError:
        pass


def test_as_json_keeps_the_order_of_fields() -> None:
    @frozen
    class Row:
        name: str
        value: int | None

    assert as_json([Row("a", None)]) == '[\n  {\n    "name": "a",\n    "value": null\n  }\n]'


def test_missing_extra_names_the_pip_command() -> None:
    text = extras.missing_extra(ModuleNotFoundError(name="rich.table"), "runhcs")
    assert text == "the Python package 'rich' is not installed: pip install 'containerd-shim-runhcs[runhcs]'"
    assert extras.missing_extra(ModuleNotFoundError(name="shim.nowhere"), "runhcs") is None


def test_missing_extra_is_one_line_of_the_command() -> None:
    code = (
        "import sys; sys.modules['attrs'] = None; sys.modules['attr'] = None\n"
        "from runhcs.__main__ import main; sys.exit(main(['ps']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == (
        "runhcs: the Python package 'attrs' is not installed: pip install 'containerd-shim-runhcs[runhcs]'\n"
    )
