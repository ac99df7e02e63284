"""The Linux side of the benchmarks under Wine. tests/wine/test_bench.py runs them."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.harness.context import RunContext
from bench.harness.goals import WINE_COLD, WINE_GO, WINE_NODE
from bench.harness.progress import Progress
from bench.measures import wine, wine_scaling
from bench.measures.wine_driver import Shim, wine_processes
from bench.measures.wine_scaling import PodError, Pods, cpu_seconds, increasing, spread
from bench.report.results import Run
from tests.support.eventually import eventually

PROGRAM = r"C:\node\containerd-shim-runhcs-v1.exe"


class FakeDriver:
    """Answers the requests of Pods; `fails` names a request that fails."""

    def __init__(self, directory: Path) -> None:
        self.journal = directory / "journal"
        self.machine = argparse.Namespace(
            drive=directory, prefix=directory, environment={"HCS_EMULATOR_JOURNAL": str(self.journal)},
            wine=argparse.Namespace(server_pid=os.getpid()),
        )  # fmt: skip
        self.requests: list[dict[str, Any]] = []
        self.fails = ""
        self.response = {"pipe": r"\\.\pipe\x", "times": [1.0, 1.5, 1.75], "bytes": 0, "seconds": 20.0}

    def request(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        if self.fails in request:
            raise PodError(f"{self.fails} failed")
        return self.response


@pytest.fixture
def context() -> RunContext:
    return RunContext(Run(), Progress(quiet=True))


def pods(context: RunContext, driver: FakeDriver, name: str = WINE_NODE) -> Pods:
    shim = Shim(name, rf"C:\{name}\shim.exe", Path(f"/drive/{name}/shim.exe"), scope="node")
    return Pods(context, driver, shim)  # type: ignore[arg-type]


def samples(context: RunContext, name: str) -> dict[str, list[float]]:
    return next((one.samples for one in context.run.measures if one.name == name), {})


def sizes(**rounds: int) -> argparse.Namespace:
    return argparse.Namespace(pods=[1, 3], **{"call_rounds": 0, "output_rounds": 0, "stats_rounds": 0, **rounds})


@pytest.fixture
def without_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wine_scaling, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(wine_scaling, "available_memory", lambda: 100 << 20)


def test_spans_last_from_first_step_to_last() -> None:
    steps = {"start": [1.0, 2.0], "Connect": [2.5, 3.0], "Create": [3.0, 4.0], "Start": [4.0, 5.0], "Kill": [6.0, 6.5]}
    found = wine.with_spans({**steps, "Wait": [6.5, 8.0]})
    assert found["start to Connect"] == (1.0, 3.0)
    assert found["start to running"] == (1.0, 5.0)
    assert found["Kill to exit"] == (6.0, 8.0)
    assert found["Create"] == (3.0, 4.0)


def test_numbers_of_pods_must_increase() -> None:
    assert increasing("10,50,110") == [10, 50, 110]
    for text in ("50,10", "10,10", "0,10", "10,", "ten"):
        with pytest.raises(argparse.ArgumentTypeError):
            increasing(text)


def test_spread_takes_other_pods_evenly() -> None:
    names = [str(number) for number in range(110)]
    assert len(set(spread(names, 16))) == 16
    assert spread(names, 2) == ["0", "55"]
    assert spread(names[:3], 16) == ["0", "1", "2"]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[int]:
    """A process with the command line of a daemon under Wine."""
    running = subprocess.Popen(
        [PROGRAM, "-c", "while :; do :; done", "-id", "x", "serve"], executable="/bin/sh",
        env={"WINEPREFIX": str(tmp_path)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    yield running.pid
    running.kill()
    running.wait()


def test_processes_of_a_shim_are_its_daemons_in_this_prefix(daemon: int, tmp_path: Path) -> None:
    eventually(lambda: wine_processes(tmp_path, PROGRAM, "serve") == {daemon}, "its command line")
    assert wine_processes(tmp_path, PROGRAM.upper(), "serve") == {daemon}, "Windows ignores case"
    assert wine_processes(tmp_path, r"C:\other\containerd-shim-runhcs-v1.exe", "serve") == set()
    assert wine_processes(Path(f"{tmp_path}2"), PROGRAM, "serve") == set()
    assert wine_processes(tmp_path, PROGRAM, "delete") == set()
    assert wine_processes(tmp_path.parent, PROGRAM, "serve") == set()


def test_cpu_time_is_of_other_processes(daemon: int) -> None:
    eventually(lambda: cpu_seconds([daemon]) > 0.02, "CPU time")
    before = time.process_time()
    assert cpu_seconds([os.getpid()]) >= before
    exited = subprocess.Popen(["true"])
    exited.wait()
    assert cpu_seconds([exited.pid]) == 0


@pytest.mark.usefixtures("without_settling")
def test_pods_of_candidates_are_interleaved(context: RunContext, tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    names = ("one", "two", "three")
    wine_scaling.scale(context, [pods(context, driver, name) for name in names], sizes(), driver.machine)
    started = [one["start"]["id"].partition("-")[0] for one in driver.requests if "start" in one]
    assert [{*started[at : at + 3]} for at in range(0, 9, 3)] == [{*names}] * 3
    assert all(samples(context, "start to running of a pod")[name] == [750.0] * 3 for name in names)
    assert all(list(samples(context, f"memory per pod of {count}")) == [*names] for count in (1, 3))
    (series,) = [one for one in context.run.all_series if one.name == "time per pod"]
    assert series.points["one"] == {1: [750.0], 3: [750.0, 750.0]}
    assert len([one for one in driver.requests if "stop" in one]) == 9
    assert context.run.violations == []


@pytest.mark.usefixtures("without_settling")
def test_candidate_that_fails_is_left_out(context: RunContext, tmp_path: Path) -> None:
    bad, good = FakeDriver(tmp_path), FakeDriver(tmp_path)
    bad.fails = "start"
    both = [pods(context, bad, "bad"), pods(context, good, "good")]
    wine_scaling.scale(context, both, sizes(stats_rounds=2), good.machine)
    assert [(one.candidate, one.text) for one in context.run.violations] == [("bad", "start failed")]
    assert len(bad.requests) == 1
    assert list(samples(context, "CPU of 3 pods with Stats every 10 s")) == ["good"]
    assert len(samples(context, "CPU of 3 pods with Stats every 10 s")["good"]) == 2


@pytest.mark.usefixtures("without_settling")
def test_least_important_candidate_is_left_out_before_memory_runs_out(
    context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(tmp_path)
    found = [pods(context, driver, name) for name in (WINE_COLD, WINE_NODE, WINE_GO)]

    def available() -> int:
        """Enough for six pods."""
        return wine_scaling.MIN_AVAILABLE_KB - sum(len(one.pipes) for one in found) // 6

    monkeypatch.setattr(wine_scaling, "available_memory", available)
    wine_scaling.scale(context, found, sizes(stats_rounds=1), driver.machine)
    assert [one.name for one in found if one.is_left_out] == [WINE_COLD]
    (skipped,) = context.run.skipped
    assert f"{WINE_COLD}: stopped at 2 pods, since 2047 MiB of memory were available" in skipped.reason
    stopped = [one["stop"] for one in driver.requests if "stop" in one]
    assert len(stopped) == 8 and {one.rpartition("-")[0] for one in stopped[:2]} == {WINE_COLD}
    assert set(samples(context, "CPU of 3 pods with Stats every 10 s")) == {WINE_NODE, WINE_GO}
    assert context.run.violations == []


def test_shortage_of_descriptors_of_the_wine_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeDriver(tmp_path).machine
    monkeypatch.setattr(wine_scaling, "available_memory", lambda: 100 << 20)
    used, limit = wine_scaling.descriptors(os.getpid())
    assert used > 2 and limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    monkeypatch.setattr(wine_scaling, "MIN_DESCRIPTORS", limit - used - 10)
    assert wine_scaling.shortage(machine) == ""
    monkeypatch.setattr(wine_scaling, "MIN_DESCRIPTORS", limit)
    assert "file descriptors" in wine_scaling.shortage(machine)


@pytest.mark.usefixtures("without_settling")
def test_start_of_a_pod_without_hcs(context: RunContext, tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    call = {"time": "1970-01-01T00:00:01.200000Z", "call": "HcsCreateProcess", "arguments": {}, "duration_us": 300_000}
    driver.journal.write_text(json.dumps(call) + "\n")
    wine_scaling.scale(context, [pods(context, driver)], sizes(), driver.machine)
    assert samples(context, "start to running of a pod")[WINE_NODE] == [750.0] * 3
    assert samples(context, "start to running of a pod without HCS")[WINE_NODE] == [pytest.approx(450.0)] * 3


def test_missing_output_is_an_error(context: RunContext, tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    one = pods(context, driver)
    one.pipes = {"a": "", "b": ""}
    with pytest.raises(PodError, match="0 of 33554432 bytes"):
        one.write_output()
    driver.response["bytes"] = 32 << 20
    one.write_output()
    assert samples(context, "output of 16 containers") == {WINE_NODE: [pytest.approx(32 / 20)]}


def test_shim_that_stays_after_its_last_pod_is_an_error(
    context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = pods(context, FakeDriver(tmp_path))
    monkeypatch.setattr(wine_scaling, "EXIT_TIMEOUT", 0.2)
    monkeypatch.setattr(wine_scaling, "wine_processes", lambda *_: {1, 2})
    one.attempt(one.stop)
    assert [(found.candidate, found.text) for found in context.run.violations] == [
        (WINE_NODE, "2 shims still run after the end of the last pod")
    ]


def test_baseline_is_microsofts_shim(context: RunContext, tmp_path: Path) -> None:
    file = tmp_path / "shim.exe"
    file.write_bytes(b"x")
    wine.add_candidates(context, [Shim(WINE_NODE, "a", file), Shim(WINE_GO, "b", file)])
    assert context.run.baseline == WINE_GO
    assert [one.subject for one in context.run.candidates] == [True, False]
