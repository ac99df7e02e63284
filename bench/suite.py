"""The suite: all measures of whole shims, with the candidates interleaved in one run.

Each round runs every candidate once, in a seeded random order. Warm-up rounds fill caches and start the standby; they
are discarded. A failed lifecycle, events out of order and leaked resources are violations and fail the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from attrs import evolve

from bench.harness.candidates import all_candidates
from bench.harness.cgroup import one_scheduling_group
from bench.harness.context import RunContext, SuiteContext
from bench.harness.node import node
from bench.harness.prerequisites import PrerequisiteError, build_emulator, require_root
from bench.harness.sizes import SIZES, Sizes
from bench.measures import (
    containerd,
    cpu,
    exec_probes,
    harness_cost,
    lifecycle_rate,
    lifecycles,
    memory,
    phases,
    scaling,
    state_calls,
    stdout_throughput,
)

# --measure takes these names, which are those of the modules.
MEASURES: dict[str, Callable[[SuiteContext], None]] = {
    "harness_cost": harness_cost.measure,
    "lifecycles": lifecycles.measure,
    "phases": phases.measure,
    "state_calls": state_calls.measure,
    "cpu": cpu.measure,
    "lifecycle_rate": lifecycle_rate.measure,
    "stdout_throughput": stdout_throughput.measure,
    "exec_probes": exec_probes.measure,
    "memory": memory.measure,
    "scaling": scaling.measure,
    "containerd": containerd.measure,
}


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a positive number")
    return value


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="about a minute")
    size.add_argument(
        "--full", dest="size", action="store_const", const="full",
        help="1,000 exec probes, 200 pods, more rounds: up to an hour",
    )  # fmt: skip
    parser.set_defaults(size="normal")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_size_arguments(parser)
    parser.add_argument(
        "--measure", metavar="NAME", dest="measures", action="append", choices=MEASURES, default=[],
        help=f"only this one, of {', '.join(MEASURES)}; may be repeated",
    )  # fmt: skip
    parser.add_argument("--rounds", type=positive, help="lifecycles of each candidate (default 3, 20 or 50)")
    parser.add_argument("--containers", type=positive, default=3, help="containers of a pod (default 3)")
    parser.add_argument("--probes", type=positive, help="exec probes (default 10, 200 or 1000)")


def sizes_of(arguments: argparse.Namespace) -> Sizes:
    sizes = evolve(SIZES[arguments.size], containers=arguments.containers)
    if arguments.rounds is not None:
        sizes = evolve(sizes, lifecycle_rounds=arguments.rounds)
    if arguments.probes is not None:
        sizes = evolve(sizes, exec_probes=arguments.probes)
    return sizes


def measure(context: RunContext, arguments: argparse.Namespace) -> None:
    run = context.run
    require_root()
    build_emulator()
    with one_scheduling_group() as scheduling, node() as shared:
        run.environment["scheduling"] = scheduling
        run.environment["emulator latency profile"] = shared.emulator_status()["profile"]
        candidates = context.selection.select(run, all_candidates, shared.directory)
        suite = SuiteContext(context, shared, candidates, sizes_of(arguments))
        for name in arguments.measures or MEASURES:
            try:
                MEASURES[name](suite)
            except PrerequisiteError as error:
                run.skip(name, str(error))
            suite.check_leaks(name)
