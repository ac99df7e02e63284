"""The benchmark's command line, the order of candidates, progress."""

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
from bench.harness import session
from bench.harness.candidates import Candidate
from bench.harness.progress import Progress
from bench.harness.runner import execute, hints
from bench.harness.session import WARM_UP, Session
from bench.report.results import Run, load


def made(*words: str, seed: int = 1) -> Session:
    parser = argparse.ArgumentParser()
    session.add_arguments(parser)
    return Session(Run(seed=seed), Progress(quiet=True), parser.parse_args(words))


def shims(_: Path) -> list[Candidate]:
    return [Candidate(name, Path("/bin/true")) for name in ("runc 1", "runc 2", "runhcs cold")]


def test_help_names_every_command_and_teaches() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "--help"], capture_output=True, text=True, check=True)
    for word in ("suite", "rpc", "stdio", "examples:", "--candidate", "--max-ratio", "exit status"):
        assert word in done.stdout


def test_every_candidate_runs_once_a_round_in_an_order_of_the_seed_and_warm_ups_are_not_kept() -> None:
    taken = list(made().rounds("lives", ["a", "b", "c"], 20))
    rounds = [taken[place : place + 3] for place in range(0, len(taken), 3)]
    assert len(rounds) == WARM_UP + 20
    assert all({name for name, _ in one} == {"a", "b", "c"} for one in rounds)
    assert [kept for _, kept in taken] == [False] * (WARM_UP * 3) + [True] * 60
    assert len({tuple(name for name, _ in one) for one in rounds}) > 2
    assert list(made().rounds("lives", ["a", "b", "c"], 20)) == taken
    assert list(made(seed=2).rounds("lives", ["a", "b", "c"], 20)) != taken


def test_the_newest_go_shim_is_the_baseline_unless_another_is_named(tmp_path: Path) -> None:
    one = made()
    assert [found.name for found in one.choose(shims, tmp_path)] == ["runc 1", "runc 2", "runhcs cold"]
    assert one.run.baseline == "runc 2"
    assert [about.name for about in one.run.candidates if about.subject] == ["runhcs cold"]
    other = made("--baseline", "runc 1")
    other.choose(shims, tmp_path)
    assert other.run.baseline == "runc 1"
    with pytest.raises(SystemExit, match=r"no candidate 'runc 3'.*'runc 2'"):
        made("--baseline", "runc 3").choose(shims, tmp_path)


def test_a_program_of_the_user_is_a_subject_and_needs_no_other(tmp_path: Path) -> None:
    one = made("--candidate", "mine=/bin/true", "--only", "mine")
    assert [found.name for found in one.choose(shims, tmp_path)] == ["runc 2", "mine"]
    assert one.run.about("mine").subject and one.run.about("mine").sha256

    def none(_: Path) -> list[Candidate]:
        raise FileNotFoundError("no shim: install containerd")

    alone = made("--candidate", "mine=/bin/true")
    assert [found.name for found in alone.choose(none, tmp_path)] == ["mine"]
    with pytest.raises(FileNotFoundError, match="install"):
        made().choose(none, tmp_path)


def test_a_shim_of_an_old_containerd_is_spoken_to_as_that_one_does(tmp_path: Path) -> None:
    old = tmp_path / "old-shim"
    old.write_text("#!/bin/sh\necho old-shim:\necho '  Version:  1.6.20~ds1'\n")
    old.chmod(0o755)
    words = ("--candidate", f"old={old}", "--candidate", "new=/bin/true", "--candidate", "told=/bin/true")
    found = made(*words, "--dialect", "told=1.7").choose(shims, tmp_path)
    spoken = {one.name: one.dialect.version for one in found}
    assert spoken["old"].startswith("1.6.") and spoken["new"].startswith("2.3.") and spoken["told"].startswith("1.7.")
    with pytest.raises(SystemExit):
        made("--dialect", "old=0.9")


def test_who_brought_a_shim_that_never_lived_gets_a_hint() -> None:
    arguments = argparse.Namespace(programs=[("mine", Path("/bin/true")), ("good", Path("/bin/true"))])
    run = Run()
    run.measure("start", "ms").add("good", 1.0)
    run.violation("mine", "error", "start failed")
    run.violation("good", "error", "start failed")
    assert hints(run, arguments) == [
        "hint: no life of 'mine' succeeded. Made for another containerd? Try --dialect mine=1.7"
    ]


@pytest.mark.parametrize("text", ["mine", "=/bin/true", "mine=", "mine=/nonexistent/shim"])
def test_a_candidate_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        made("--candidate", text)
    assert text in capsys.readouterr().err


def test_progress_in_a_log_is_a_line_per_stage_and_on_a_terminal_one_line() -> None:
    log = io.StringIO()
    progress = Progress(log)
    progress.step("lives", 0, 3)
    for number in range(1, 4):
        progress.step("lives", number, 3, "runc 2")
    progress.say("memory", "10 shims")
    progress.end()
    assert [line.split("] ")[1] for line in log.getvalue().splitlines()] == ["lives: warm-up", "memory: 10 shims"]

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    progress = Progress(terminal)
    progress.step("lives", 2, 3, "runc 2")
    progress.end()
    assert "lives: 2 of 3, runc 2" in terminal.getvalue() and "\n" not in terminal.getvalue()
    quiet = Terminal()
    Progress(quiet, quiet=True).say("lives")
    assert quiet.getvalue() == ""


def test_a_wrong_bound_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "suite", "--max-ratio", "start", "--output", str(tmp_path / "out")],
        capture_output=True, text=True, env=os.environ, timeout=100,
    )  # fmt: skip
    assert done.returncode == 2 and "MEASURE=RATIO" in done.stderr
    assert not (tmp_path / "out").exists()


class Part:
    """A part of a run that measures one thing and then does what it is told."""

    def __init__(self, then: BaseException | None = None) -> None:
        self.then = then

    def measure(self, session: Session, _: argparse.Namespace) -> None:
        session.run.measure("start", "ms").add("a", 1.0)
        if self.then is not None:
            raise self.then


def executed(directory: Path, *parts: Part) -> int:
    arguments = argparse.Namespace(seed=1, quiet=True, bounds=[], output=directory, details=False, programs=[])
    return execute([(f"part {number}", part, arguments) for number, part in enumerate(parts)], arguments)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no space")])
def test_what_was_measured_before_an_early_end_is_written_and_the_run_fails(
    error: BaseException, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert executed(tmp_path, Part(error), Part()) == 1
    run = load(tmp_path / "results.json")
    assert run.measures[0].samples == {"a": [1.0]}
    assert run.failures == [f"error: the run: ended early: {type(error).__name__} {error}".rstrip()]
    assert run.failures[0] in capsys.readouterr().err


def test_sigterm_ends_a_run_as_tidily_as_an_interrupt(tmp_path: Path) -> None:
    class Ended(Part):
        def measure(self, session: Session, arguments: argparse.Namespace) -> None:
            super().measure(session, arguments)
            os.kill(os.getpid(), signal.SIGTERM)
            signal.sigtimedwait([], 30)  # the handler runs here at the latest

    before = signal.getsignal(signal.SIGTERM)
    assert executed(tmp_path, Ended()) == 1
    assert load(tmp_path / "results.json").failures == ["error: the run: ended early: KeyboardInterrupt"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_of_several_parts_one_that_lacks_a_program_is_left_out_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert executed(tmp_path, Part(FileNotFoundError("go is not on PATH: install Go")), Part()) == 0
    assert "part 0 was left out: go is not on PATH: install Go" in capsys.readouterr().err
    assert load(tmp_path / "results.json").measures[0].samples == {"a": [1.0, 1.0]}
    with pytest.raises(FileNotFoundError):
        executed(tmp_path, Part(FileNotFoundError("no runc")))


def test_options_of_all_reach_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, argparse.Namespace]] = []

    def note(parts: list[tuple[str, object, argparse.Namespace]], _: argparse.Namespace) -> int:
        seen.extend((name, own) for name, _, own in parts)
        return 0

    monkeypatch.setattr("bench.harness.runner.execute", note)
    for words in (["all", "--quick", "--seed", "7"], ["--quick", "--seed", "7"]):
        seen.clear()
        assert main(words) == 0
        assert [name for name, _ in seen] == ["suite", "rpc", "stdio"]
        assert {own.seed for _, own in seen} == {7} and seen[0][1].size == "quick"
        assert seen[0][1].probes is None and seen[1][1].calls > 0  # their own defaults
