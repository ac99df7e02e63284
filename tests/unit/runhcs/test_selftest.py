"""The runner of `runhcs selftest`, its tables, the comparison of shims, and the scheduled task of --as-system."""

from __future__ import annotations

import argparse
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runhcs.selftest import against, as_system, runner
from runhcs.selftest.node import Node
from runhcs.selftest.runner import Context, Step, StepFailed, StepSkipped, run_step
from runhcs.selftest.steps import STEPS
from runhcs.selftest.steps.libraries import EXPORTS, NEWER, SIZES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "shim", {}, ["layer"])


class TestRunStep:
    def test_finding_of_a_successful_step(self, node: Node) -> None:
        result = run_step(Step("s", "it works", lambda context: "found"), node)
        assert (result.outcome, result.finding, result.next_step) == ("ok", "found", "")
        assert (result.name, result.verifies) == ("s", "it works")

    def test_failure_has_reason_and_next_step(self, node: Node) -> None:
        def run(context: Context) -> str:
            context.details["code"] = 5
            raise StepFailed("broken", "repair it")

        result = run_step(Step("s", "it works", run), node)
        assert (result.outcome, result.finding, result.next_step) == ("fail", "broken", "repair it")
        assert result.details == {"code": 5}

    def test_skip_has_a_reason(self, node: Node) -> None:
        def run(context: Context) -> str:
            raise StepSkipped("not here", "install it")

        result = run_step(Step("s", "it works", run), node)
        assert (result.outcome, result.finding, result.next_step) == ("skip", "not here", "install it")

    def test_unexpected_error_fails_with_a_traceback(self, node: Node) -> None:
        def run(context: Context) -> str:
            raise KeyError("member")

        result = run_step(Step("s", "it works", run), node)
        assert result.outcome == "fail" and result.finding == "KeyError: 'member'"
        assert "KeyError: 'member'" in result.details["traceback"][-1]

    def test_cleanup_runs_in_reverse_order_after_a_failure(self, node: Node) -> None:
        order: list[int] = []

        def run(context: Context) -> str:
            context.on_cleanup(lambda: order.append(1))
            context.on_cleanup(lambda: order.append(2))
            raise StepFailed("broken")

        assert run_step(Step("s", "it works", run), node).finding == "broken"
        assert order == [2, 1]

    def test_timeout_runs_the_cleanup_which_ends_the_step(self, node: Node) -> None:
        stop = threading.Event()

        def run(context: Context) -> str:
            context.on_cleanup(stop.set)
            assert stop.wait(60)
            return "too late"

        result = run_step(Step("s", "it works", run, 0.05), node)
        assert result.outcome == "fail" and "did not finish within" in result.finding
        assert "still blocked" not in result.finding

    def test_step_that_stays_blocked_is_reported(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "UNWIND_TIMEOUT", 0.05)
        stop = threading.Event()
        result = run_step(Step("s", "it works", lambda context: str(stop.wait(60)), 0.05), node)
        stop.set()
        assert "its thread is still blocked" in result.finding

    def test_failed_cleanup_fails_the_step(self, node: Node) -> None:
        def broken() -> None:
            raise OSError("cannot be removed")

        def run(context: Context) -> str:
            context.on_cleanup(broken)
            return "fine"

        result = run_step(Step("s", "it works", run), node)
        assert result.outcome == "fail" and result.finding == "fine; cleanup failed: cannot be removed"
        assert "runhcs gc" in result.next_step

    def test_cleanup_has_a_timeout(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "CLEANUP_TIMEOUT", 0.05)
        stop = threading.Event()

        def run(context: Context) -> str:
            context.on_cleanup(lambda: str(stop.wait(60)) and None)
            return "fine"

        result = run_step(Step("s", "it works", run), node)
        stop.set()
        assert result.outcome == "fail" and "did not finish" in result.finding

    def test_interrupt_runs_the_cleanup(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        registered, stop = threading.Event(), threading.Event()

        def run(context: Context) -> str:
            context.on_cleanup(stop.set)
            registered.set()
            return str(stop.wait(60))

        def interrupt(thread: threading.Thread, timeout: float | None = None) -> None:
            assert registered.wait(60)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(threading.Thread, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_step(Step("s", "it works", run), node)
        assert stop.is_set()

    def test_action_registered_after_the_cleanup_runs_at_once(self, node: Node) -> None:
        context = Context(node)
        context.cleanup()
        called: list[bool] = []
        context.on_cleanup(lambda: called.append(True))
        assert called == [True]


def test_step_names_are_unique() -> None:
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))


def test_node_without_layers_skips(tmp_path: Path) -> None:
    node = Node(tmp_path, "shim", {}, [], "containerd has none")
    with pytest.raises(StepSkipped, match="containerd has none"):
        node.image()


def test_export_table_has_every_function_of_the_header() -> None:
    header = (ROOT / "shim" / "hcs_bindings" / "hcs.h").read_text()
    declared = set(re.findall(r"^\w[\w ]*\bWINAPI (\w+)\(", header, re.MULTILINE))
    listed = [name for names in EXPORTS.values() for name in names]
    assert len(listed) == len(set(listed)) and set(listed) == declared
    assert set(NEWER) <= declared


def test_size_table_has_every_structure_of_the_header() -> None:
    header = (ROOT / "shim" / "hcs_bindings" / "hcs.h").read_text()
    assert set(SIZES) == set(re.findall(r"\} (\w+);", header))


class TestAgainst:
    @staticmethod
    def compare(node: Node, ours: dict[str, Any], other: dict[str, Any]) -> runner.Result:
        def scenario(context: Context, id: str, program: str) -> dict[str, Any]:
            return {**(other if program else ours), "id": id}

        return run_step(Step("a", "alike", against._compare("x", scenario, "other.exe")), node)

    def test_equal_observations_with_the_same_id(self, node: Node) -> None:
        assert self.compare(node, {"exit": 3}, {"exit": 3}).outcome == "ok"

    def test_every_difference_is_reported(self, node: Node) -> None:
        result = self.compare(node, {"exit": 3, "out": "a"}, {"exit": 4, "err": "b"})
        assert result.outcome == "fail"
        assert result.finding == "exit: 3, the other 4; out: 'a', the other None; err: None, the other 'b'"
        assert result.details["other"]["exit"] == 4

    def test_text_of_a_refusal_is_not_compared(self, node: Node) -> None:
        result = self.compare(node, {"start": {"code": 2, "text": "a"}}, {"start": {"code": 2, "text": "b"}})
        assert result.outcome == "ok"
        result = self.compare(node, {"start": {"code": 2, "text": "a"}}, {"start": {"code": 5, "text": "a"}})
        assert result.outcome == "fail"

    def test_documented_difference_does_not_fail(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(against.KNOWN, ("x", "exit"), "explained")
        result = self.compare(node, {"exit": 3}, {"exit": 4})
        assert result.outcome == "ok" and result.details["known differences"] == {"exit": "explained"}

    def test_container_is_removed_before_the_other_shim_runs(self, node: Node) -> None:
        present: list[str] = []

        def scenario(context: Context, id: str, program: str) -> dict[str, Any]:
            assert not present
            present.append(id)
            context.on_cleanup(present.clear)
            return {}

        result = run_step(Step("a", "alike", against._compare("x", scenario, "other.exe")), node)
        assert result.outcome == "ok", result.finding

    def test_no_comparison_without_another_shim(self) -> None:
        assert against.comparison_steps("") == []


class Scheduler:
    """`schtasks`: runs the batch file's effect when the task is started."""

    def __init__(self, code: str = "0", failing: str = "") -> None:
        self.commands: list[Sequence[str]] = []
        self.batch = ""
        self._code = code
        self._failing = failing

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if command[1] == "/Create":
            self.path = Path(command[command.index("/TR") + 1].strip('"'))
            self.batch = self.path.read_text()
        if command[1] == "/Run":
            (self.path.parent / "out.txt").write_text("the output\n")
            (self.path.parent / "err.txt").write_text("")
            (self.path.parent / "done.txt").write_text(f"{self._code} \n")
        return subprocess.CompletedProcess(command, int(command[1] == self._failing), "", "Access is denied.")


class TestAsSystem:
    @pytest.fixture
    def args(self) -> argparse.Namespace:
        return argparse.Namespace(
            step=["hcs"], layers=["C:\\a b"], against="", record="", shim="", smb="", json=True, as_system=True
        )

    def test_task_runs_once_as_system_and_is_deleted(
        self, args: argparse.Namespace, capsys: pytest.CaptureFixture[str]
    ) -> None:
        scheduler = Scheduler("1")
        assert as_system.run_as_system(args, scheduler) == 1
        assert [command[1] for command in scheduler.commands] == ["/Create", "/Run", "/End", "/Delete"]
        create = scheduler.commands[0]
        assert create[create.index("/RU") + 1] == "SYSTEM" and create[create.index("/SC") + 1] == "ONCE"
        assert 'selftest --step hcs --layers "C:\\a b" --json' in scheduler.batch.replace(f"{Path.cwd()}/", "")
        assert "--as-system" not in scheduler.batch
        assert capsys.readouterr().out == "the output\n"
        assert not scheduler.path.parent.exists()

    def test_refusal_of_the_scheduler_is_reported(
        self, args: argparse.Namespace, capsys: pytest.CaptureFixture[str]
    ) -> None:
        scheduler = Scheduler(failing="/Create")
        assert as_system.run_as_system(args, scheduler) == 1
        assert "Access is denied" in capsys.readouterr().err
        assert [command[1] for command in scheduler.commands] == ["/Create"] and not scheduler.path.parent.exists()

    def test_task_that_does_not_finish_is_stopped(
        self, args: argparse.Namespace, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def accept(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess(command, 0, "", "")

        assert as_system.run_as_system(args, accept, timeout=0.0) == 1
        assert "did not finish" in capsys.readouterr().err
