"""The campaigns by name. Each is a context manager that yields `run_batch(seed)`, which returns its number of steps."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

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
    from tests.differential.host_process_scenarios import host_process_scenarios
    from tests.differential.linux_scenarios import failing_linux_scenarios, linux_pods, linux_scenarios
    from tests.differential.machines import SMALLEST, Machines
    from tests.differential.scenarios import crashing_scenarios, failing_scenarios, scenarios
    from tests.differential.scenarios import pods as windows_pods

    machines = Machines()
    found: list[str] = []
    single = st.one_of(scenarios(), scenarios(), scenarios(), linux_scenarios(), host_process_scenarios())
    failing = st.one_of(failing_scenarios(), failing_linux_scenarios(), crashing_scenarios())

    def run_batch(number: int) -> int:
        cases = 0

        @seed(number)
        @settings(_SETTINGS, max_examples=4, phases=(Phase.generate,))
        @given(
            st.lists(single, min_size=5, max_size=5),
            st.one_of(windows_pods(), linux_pods()),
            st.lists(failing, min_size=2, max_size=2),
        )
        def run(batch: list[dict[str, Any]], pod: list[dict[str, Any]], faults: list[dict[str, Any]]) -> None:
            nonlocal cases
            if all(one == batch[0] for one in batch):
                return  # hypothesis begins every seed with the simplest cases
            cases += len(batch) + 1 + len(faults)
            runs = (machines.run_and_shrink([*batch, *faults]), machines.run_and_shrink_pod(pod))
            for text in chain.from_iterable(runs):
                if not text.startswith(SMALLEST):
                    found.append(text)
                print(f"difference, seed {number}: {text}", flush=True)

        run()
        return cases

    try:
        yield run_batch
    finally:
        machines.close()
    assert not found, f"{len(found)} cases differ"


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
