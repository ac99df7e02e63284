"""The benchmarks of the Windows shim, small: that every measure has results of our shim and Microsoft's.

No result is judged here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.harness.goals import WINE_COLD, WINE_GO, WINE_NAMESPACE, WINE_NODE, WINE_STANDBY
from bench.report.results import Run
from bench.report.results_json import load
from tests.wine.conftest import ROOT, distribution, go_programs

TIMEOUT = 360


def bench(output: Path, *arguments: str) -> Run:
    distribution()
    go_programs("hcsshim")
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--quiet", "--output", str(output)], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return load(output / "results.json")


def candidates(run: Run) -> dict[str, set[str]]:
    """Measure -> candidates with results, all of which are positive."""
    assert all(min(values) > 0 for one in run.measures for values in one.samples.values())
    return {one.title: {name for name, values in one.samples.items() if values} for one in run.measures}


def test_lifecycles_have_every_measure_of_each_shim(tmp_path: Path) -> None:
    none = [word for name in ("vm", "linux", "linux-idle", "idle") for word in (f"--{name}-rounds", "0")]
    found = candidates(bench(tmp_path, "wine", "--rounds", "1", *none))
    names = [
        *("start", "Connect", "start to Connect", "start to running", "Kill", "Wait", "delete"),
        *(f"{name}{part}" for name in ("Create", "Start", "Pids", "Kill to exit", "Delete")
          for part in ("", " without HCS")),
    ]  # fmt: skip
    for name in names:
        assert found[f"wine: {name}"] == {WINE_COLD, WINE_STANDBY, WINE_GO}, name


def test_scaling_has_every_measure_of_each_scope(tmp_path: Path) -> None:
    rounds = ("--call-rounds", "1", "--output-rounds", "1", "--stats-rounds", "1")
    run = bench(tmp_path, "wine_scaling", "--pods", "2,3", *rounds)
    found = candidates(run)
    for name in (
        "start to running of a pod", "start to running of a pod without HCS", "memory per pod of 2",
        "memory per pod of 3", "State, 16 callers over 3 pods", "output of 16 containers",
        "CPU of 3 pods with Stats every 10 s",
    ):  # fmt: skip
        assert found[f"wine: {name}"] == {WINE_COLD, WINE_NAMESPACE, WINE_NODE, WINE_GO}, name
    (threads,) = [one for one in run.measures if one.name == "threads per pod of 3"]
    assert threads.samples[WINE_NODE][0] < threads.samples[WINE_COLD][0], "pods share a process"


