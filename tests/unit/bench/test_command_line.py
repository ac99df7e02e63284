"""The command line, candidate selection, rounds, progress, and the end of a run."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.harness import selection
from bench.harness.candidates import Candidate
from bench.harness.context import WARM_UP, RunContext
from bench.harness.prerequisites import PrerequisiteError, build_emulator
from bench.harness.progress import Progress
from bench.report.results import Run
from bench.report.results_json import load
from bench.runner import Part, execute, hints


def run_context(*words: str, seed: int = 1) -> RunContext:
    parser = argparse.ArgumentParser()
    selection.add_arguments(parser)
    return RunContext(Run(seed=seed), Progress(quiet=True), parser.parse_args(words))


def shims(_: Path) -> list[Candidate]:
    return [Candidate(name, Path("/bin/true")) for name in ("runc 1", "runc 2", "runhcs cold")]


def choose(context: RunContext, directory: Path) -> list[Candidate]:
    return context.selection.select(context.run, shims, directory)


def test_help_names_commands_and_examples() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "--help"], capture_output=True, text=True, check=True)
    for word in ("suite", "ttrpc_calls", "relay_throughput", "examples:", "--candidate", "--max-ratio", "exit status"):
        assert word in done.stdout


def test_rounds_interleave_candidates_in_seeded_order() -> None:
    taken = list(run_context().rounds("lifecycles", ["a", "b", "c"], 20))
    rounds = [taken[place : place + 3] for place in range(0, len(taken), 3)]
    assert len(rounds) == WARM_UP + 20
    assert all({name for name, _ in one} == {"a", "b", "c"} for one in rounds)
    assert [is_kept for _, is_kept in taken] == [False] * (WARM_UP * 3) + [True] * 60
    assert len({tuple(name for name, _ in one) for one in rounds}) > 2
    assert list(run_context().rounds("lifecycles", ["a", "b", "c"], 20)) == taken
    assert list(run_context(seed=2).rounds("lifecycles", ["a", "b", "c"], 20)) != taken


def test_baseline_defaults_to_newest_go_shim(tmp_path: Path) -> None:
    one = run_context()
    assert [found.name for found in choose(one, tmp_path)] == ["runc 1", "runc 2", "runhcs cold"]
    assert one.run.baseline == "runc 2"
    assert [info.name for info in one.run.candidates if info.subject] == ["runhcs cold"]
    other = run_context("--baseline", "runc 1")
    choose(other, tmp_path)
    assert other.run.baseline == "runc 1"
    with pytest.raises(SystemExit, match=r"no candidate 'runc 3'.*'runc 2'"):
        choose(run_context("--baseline", "runc 3"), tmp_path)


def test_candidate_option_adds_subject(tmp_path: Path) -> None:
    one = run_context("--candidate", "mine=/bin/true", "--only", "mine")
    assert [found.name for found in choose(one, tmp_path)] == ["runc 2", "mine"]
    assert one.run.candidate("mine").subject and one.run.candidate("mine").sha256

    def none(_: Path) -> list[Candidate]:
        raise PrerequisiteError("no shim: install containerd")

    alone = run_context("--candidate", "mine=/bin/true")
    assert [found.name for found in alone.selection.select(alone.run, none, tmp_path)] == ["mine"]
    with pytest.raises(PrerequisiteError, match="install"):
        run_context().selection.select(Run(), none, tmp_path)


def test_dialect_from_version_or_option(tmp_path: Path) -> None:
    old = tmp_path / "old-shim"
    old.write_text("#!/bin/sh\necho old-shim:\necho '  Version:  1.6.20~ds1'\n")
    old.chmod(0o755)
    words = ("--candidate", f"old={old}", "--candidate", "new=/bin/true", "--candidate", "set=/bin/true")
    found = choose(run_context(*words, "--dialect", "set=1.7"), tmp_path)
    versions = {one.name: one.dialect.version for one in found}
    assert versions["old"].startswith("1.6.") and versions["new"].startswith("2.3.")
    assert versions["set"].startswith("1.7.")
    with pytest.raises(SystemExit):
        run_context("--dialect", "old=0.9")


def test_hint_for_candidate_without_successful_lifecycle() -> None:
    arguments = argparse.Namespace(programs=[("mine", Path("/bin/true")), ("good", Path("/bin/true"))])
    run = Run()
    run.measure("start", "ms").add("good", 1.0)
    run.violation("mine", "error", "start failed")
    run.violation("good", "error", "start failed")
    assert hints(run, arguments) == [
        "hint: no lifecycle of 'mine' succeeded. Does it expect another containerd? Try --dialect mine=1.7"
    ]


@pytest.mark.parametrize("text", ["mine", "=/bin/true", "mine=", "mine=/nonexistent/shim"])
def test_invalid_candidate_option_rejected(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_context("--candidate", text)
    assert text in capsys.readouterr().err


def test_progress_in_log_has_line_per_stage() -> None:
    log = io.StringIO()
    progress = Progress(log)
    progress.step("lifecycles", 0, 3)
    for number in range(1, 4):
        progress.step("lifecycles", number, 3, "runc 2")
    progress.stage("memory")
    progress.end()
    assert [line.split("] ")[1] for line in log.getvalue().splitlines()] == ["lifecycles: warm-up", "memory"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_terminal_has_bar_per_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    progress = Progress(terminal)
    progress.step("lifecycles", 2, 3, "runc 2")
    progress.stage("memory")
    progress.end()
    last = terminal.getvalue().rpartition("lifecycles")[2]
    assert "3/3" in last.splitlines()[0] and "memory" in last and "1/1" in last


def test_progress_quiet_prints_nothing() -> None:
    quiet = Terminal()
    progress = Progress(quiet, quiet=True)
    progress.step("lifecycles", 1, 2)
    progress.end()
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(
    "words",
    [
        ["suite", "--rounds", "0"], ["suite", "--probes", "-1"], ["ttrpc_calls", "--calls", "x"],
        ["wine", "--rounds", "0"],
    ],
)  # fmt: skip
def test_invalid_count_rejected(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(words)
    assert raised.value.code == 2 and "give a whole number, at least 1" in capsys.readouterr().err


def test_invalid_bound_rejected_before_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "suite", "--max-ratio", "start", "--output", str(tmp_path / "out")],
        capture_output=True, text=True, env=os.environ, timeout=100,
    )  # fmt: skip
    assert done.returncode == 2 and "MEASURE=RATIO" in done.stderr
    assert not (tmp_path / "out").exists()


class FakeCommand:
    """A command that adds one sample and then raises."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def measure(self, context: RunContext, _: argparse.Namespace) -> None:
        context.run.measure("start", "ms").add("a", 1.0)
        if self.error is not None:
            raise self.error


def executed(directory: Path, *commands: FakeCommand) -> int:
    arguments = argparse.Namespace(seed=1, quiet=True, bounds=[], output=directory, details=False, programs=[])
    parts = [Part(f"part {number}", command, arguments) for number, command in enumerate(commands)]
    return execute(parts, arguments, ["bench"])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no space")])
def test_early_end_writes_results_and_fails(
    error: BaseException, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert executed(tmp_path, FakeCommand(error), FakeCommand()) == 1
    run = load(tmp_path / "results.json")
    assert run.measures[0].samples == {"a": [1.0]}
    assert run.failures == [f"error: the run: ended early: {type(error).__name__} {error}".rstrip()]
    assert run.failures[0] in capsys.readouterr().err


def test_sigterm_ends_run_like_interrupt(tmp_path: Path) -> None:
    class Terminated(FakeCommand):
        def measure(self, context: RunContext, arguments: argparse.Namespace) -> None:
            super().measure(context, arguments)
            os.kill(os.getpid(), signal.SIGTERM)
            signal.sigtimedwait([], 30)  # the handler runs here at the latest

    before = signal.getsignal(signal.SIGTERM)
    assert executed(tmp_path, Terminated()) == 1
    assert load(tmp_path / "results.json").failures == ["error: the run: ended early: KeyboardInterrupt"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_part_without_prerequisite_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert executed(tmp_path, FakeCommand(PrerequisiteError("needs Go: install it")), FakeCommand()) == 0
    assert "skipped part 0: needs Go: install it" in capsys.readouterr().err
    run = load(tmp_path / "results.json")
    assert run.measures[0].samples == {"a": [1.0, 1.0]}
    assert [(one.measure, one.reason) for one in run.skipped] == [("part 0", "needs Go: install it")]


def test_single_part_without_prerequisite_raises(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError):
        executed(tmp_path, FakeCommand(PrerequisiteError("no runc")))


@pytest.mark.parametrize("command", ["ttrpc_calls", "relay_throughput"])
def test_interop_measure_needs_checkout(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.harness.go_programs.CHECKOUT", tmp_path)
    assert main([command, "--quiet", "--output", str(tmp_path / "out")], prog="runhcs bench") == 2
    assert capsys.readouterr().err.splitlines() == [
        f"bench: measure {command} needs Go and the interop sources: run from a checkout",
        f"see: runhcs bench {command} --help",
    ]


def test_wine_needs_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.measures.wine.CHECKOUT", tmp_path)
    assert main(["wine", "--quiet", "--output", str(tmp_path / "out")]) == 2
    assert "measure wine needs tests/wine: run from a checkout" in capsys.readouterr().err


def test_prog_name_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"], prog="runhcs bench")
    output = capsys.readouterr().out
    assert "usage: runhcs bench" in output and "runhcs bench compare" in output and "python -m" not in output


def test_all_passes_common_options_to_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, argparse.Namespace]] = []

    def record(parts: list[Part], _: argparse.Namespace, command: list[str]) -> int:
        seen.extend((part.name, part.arguments) for part in parts)
        assert command[:3] == ["python", "-m", "bench"]
        return 0

    monkeypatch.setattr("bench.runner.execute", record)
    for words in (["all", "--quick", "--seed", "7"], ["--quick", "--seed", "7"]):
        seen.clear()
        assert main(words) == 0
        assert [name for name, _ in seen] == ["suite", "ttrpc_calls", "relay_throughput"]
        assert {own.seed for _, own in seen} == {7} and seen[0][1].size == "quick"
        assert seen[0][1].probes is None and seen[1][1].calls > 0  # their own defaults


def test_suite_needs_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["suite", "--quiet", "--output", str(tmp_path / "out")]) == 2
    assert "the suite needs root" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(), "the emulator needs a C compiler"),
        (PermissionError(13, "Permission denied"), "building the emulator failed: .*Permission denied"),
        (subprocess.CalledProcessError(1, "cc"), "building the emulator failed: Command 'cc'"),
    ],
)
def test_emulator_build_failure_names_prerequisite(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> None:
        raise error

    monkeypatch.setattr("hcs_emulator.native.build.build", build)
    with pytest.raises(PrerequisiteError, match=message):
        build_emulator()
