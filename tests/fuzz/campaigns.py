"""The campaigns by name. Each is a context manager that yields `run_batch(seed)`, which returns its number of steps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.emulated.model.ledger_driver import LedgerHost
from tests.emulated.model.places import HYPERVISOR, PODS, PROCESS
from tests.emulated.model.programs import crashes, endings, exit_codes, pods, programs
from tests.emulated.model.task_driver import Host, Member, Round
from tests.fuzz import coverage_guided
from tests.fuzz.native_targets import TARGETS
from tests.fuzz.parsers import PARSERS
from tests.support.emulator import Emulator
from tests.support.shims import Shims

RunBatch = Callable[[int], int]
BATCH = 25
# Rounds of calls per program: more than in the tests, since starting a shim takes longer than many calls.
LONGEST = 200
# Inputs per fuzzer and batch.
RUNS = 20_000
# Cases of a differential batch, and on how many machines of each kind they run side by side.
CASES = 96
# Set: cases that differ are reported as they are, which is faster while many do.
NO_SHRINK = "FUZZ_NO_SHRINK"
COLUMNS = 3

_SETTINGS = settings(
    max_examples=BATCH, database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@contextmanager
def _shims() -> Iterator[tuple[Emulator, Shims]]:
    emulator = Emulator()
    try:
        shims = Shims(emulator.env)
        try:
            yield emulator, shims
        finally:
            shims.close()
    finally:
        emulator.stop()


@contextmanager
def task_model() -> Iterator[RunBatch]:
    """Programs of calls against the model of the task API: containers on the host, in a VM, in pods. A step is a call,
    or another action of a client."""
    with _shims() as (emulator, shims):
        host = Host(emulator, shims)

        def run_batch(number: int) -> int:
            before = host.steps

            @seed(number)
            @_SETTINGS
            @given(programs(LONGEST), exit_codes, endings, st.sampled_from([PROCESS, PROCESS, HYPERVISOR]))
            def run(rounds: Sequence[Round], program: int | None, ending: str, kind: str) -> None:
                host.run(rounds, program, ending, kind)

            @seed(number)
            @settings(_SETTINGS, max_examples=BATCH // 3)
            @given(st.sampled_from(PODS), pods(LONGEST), endings)
            def run_pods(kind: str, members: Sequence[Member], ending: str) -> None:
                host.run_pod(kind, members, ending)

            run()
            run_pods()
            return host.steps - before

        try:
            yield run_batch
        finally:
            host.close()


@contextmanager
def ledger_model() -> Iterator[RunBatch]:
    """Shims that are killed at any point of any lifecycle; `delete` must leave nothing. A step is one such shim."""
    with _shims() as (emulator, shims):
        host = LedgerHost(emulator, shims)

        def run_batch(number: int) -> int:
            before = host.steps

            @seed(number)
            @_SETTINGS
            @given(crashes())
            def run(crash: object) -> None:
                host.run(crash)  # type: ignore[arg-type]

            run()
            return host.steps - before

        yield run_batch


@contextmanager
def differential() -> Iterator[RunBatch]:
    """Generated cases through Microsoft's shim and ours. A step is one case with three shims. Needs what tests/wine
    needs. Differences are printed; the run continues, and fails at its end."""
    from tests.differential.generate import Case, cases
    from tests.differential.machines import Machines

    machines = Machines(COLUMNS)
    found: set[str] = set()

    def run_batch(number: int) -> int:
        count = 0

        def counted() -> Iterator[Case]:
            nonlocal count
            for _, case in cases(number, CASES):
                count += 1
                yield case

        for report in machines.run(counted()):
            print(f"difference, seed {number}: {report.text()}", flush=True)
            is_new = not report.differences <= found
            found.update(report.differences)
            if is_new and NO_SHRINK not in os.environ:
                print(f"smallest: {json.dumps(machines.smallest(report))}", flush=True)
        return count

    try:
        yield run_batch
    finally:
        machines.close()
        print("listed differences, with the lines that only they allow:", *machines.needed(), sep="\n", flush=True)
    assert not found, "\n".join(["cases differ:", *sorted(found)])


@contextmanager
def parsers() -> Iterator[RunBatch]:
    """Every parser of `tests.fuzz.parsers` with atheris. A step is one input. Needs `pip install atheris`."""
    assert coverage_guided.is_available(), "atheris is missing: .venv/bin/pip install atheris"
    with _corpus() as corpus:

        def run_batch(number: int) -> int:
            for name in PARSERS:
                arguments = [name, str(RUNS), str(number), str(corpus / name)]
                _fuzz([sys.executable, "-m", "tests.fuzz.coverage_guided", *arguments])
            return RUNS * len(PARSERS)

        yield run_batch


@contextmanager
def native() -> Iterator[RunBatch]:
    """The C targets with libFuzzer. A step is one input. Needs clang."""
    assert shutil.which("clang"), "clang is missing: apt-get install clang"
    with _corpus() as corpus:
        programs = {}
        for name, target in TARGETS.items():
            programs[name] = target.build(name, corpus / f"{name}.fuzz", libfuzzer=True)
            (corpus / name).mkdir()
            for index, data in enumerate(target.seeds):
                (corpus / name / f"seed-{index}").write_bytes(data)

        def run_batch(number: int) -> int:
            for name, program in programs.items():
                limits = [f"-runs={RUNS}", f"-seed={number}", "-verbosity=0", "-timeout=30"]
                _fuzz([str(program), *limits, str(corpus / name)])
            return RUNS * len(programs)

        yield run_batch


@contextmanager
def _corpus() -> Iterator[Path]:
    """Where the inputs of one run are collected; a finding is kept as `crash-…` in the current directory."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        yield Path(directory)


def _fuzz(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=3600)


CAMPAIGNS: dict[str, Callable[[], AbstractContextManager[RunBatch]]] = {
    "task-model": task_model,
    "ledger-model": ledger_model,
    "differential": differential,
    "parsers": parsers,
    "native": native,
}
