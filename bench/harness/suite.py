"""The suite: everything about whole shims, all candidates interleaved in one run.

Each round runs every candidate once, in an order that a seed decides; the first rounds warm up caches and the standby
and are thrown away. A life that fails, events out of order and anything left behind are violations and fail the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from bench.harness.candidates import all_candidates
from bench.harness.cgroup import one_scheduling_group
from bench.harness.context import SIZES, Lab
from bench.harness.driver import node
from bench.harness.session import Session
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

MEASURES: dict[str, Callable[[Lab], None]] = {
    "harness": harness_cost.measure,
    "lives": lifecycles.measure,
    "phases": phases.measure,
    "calls": state_calls.measure,
    "cpu": cpu.measure,
    "rate": lifecycle_rate.measure,
    "output": stdout_throughput.measure,
    "probes": exec_probes.measure,
    "memory": memory.measure,
    "pods": scaling.measure,
    "containerd": containerd.measure,
}


def add_size(parser: argparse.ArgumentParser) -> None:
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="about a minute")
    size.add_argument(
        "--full", dest="size", action="store_const", const="full",
        help="1,000 exec probes, 200 pods, more rounds: up to an hour",
    )  # fmt: skip
    parser.set_defaults(size="normal")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_size(parser)
    parser.add_argument(
        "--measure", metavar="NAME", dest="measures", action="append", choices=MEASURES, default=[],
        help=f"only this one, of {', '.join(MEASURES)}; may be repeated",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, help="lives of each candidate (default 3, 20 or 50)")
    parser.add_argument("--containers", type=int, default=3, help="containers of a pod (default 3)")
    parser.add_argument("--probes", type=int, help="exec probes (default 10, 200 or 1000)")


def measure(session: Session, arguments: argparse.Namespace) -> None:
    sizes = SIZES[arguments.size]._replace(containers=arguments.containers)
    if arguments.rounds is not None:
        sizes = sizes._replace(rounds=arguments.rounds)
    if arguments.probes is not None:
        sizes = sizes._replace(probes=arguments.probes)
    with one_scheduling_group() as scheduling, node() as shared:
        session.run.environment["scheduling"] = scheduling
        session.run.environment["emulator latency profile"] = shared.emulator_status()["profile"]
        lab = Lab(session, shared, session.choose(all_candidates, shared.directory), sizes)
        for name in arguments.measures or MEASURES:
            MEASURES[name](lab)
            lab.check_leftovers(name)
