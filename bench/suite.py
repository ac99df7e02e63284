"""The suite: all measures of whole shims, with the candidates interleaved in one run.

Each round runs every candidate once, in a seeded random order. Warm-up rounds fill caches and start the standby; they
are discarded. A failed lifecycle, events out of order and leaked resources are violations and fail the run.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable

from attrs import evolve

from bench.harness.candidates import all_candidates
from bench.harness.cgroup import one_scheduling_group
from bench.harness.context import RunContext, SuiteContext
from bench.harness.node import node
from bench.harness.prerequisites import PrerequisiteError, build_emulator, require_root
from bench.harness.sizes import SIZES, Sizes, count

# Module of bench.measures -> its line in the help. A run measures in this order.
MEASURES = {
    "harness_cost": "the cost of measuring: an empty command, an empty call",
    "lifecycles": "steps of a container lifecycle and of a pod, with process and hypervisor isolation",
    "start_formats": "`start` with each form of stdin of containerd 1.6 to 2.3",
    "loaded_start": "`start` to Connect with three busy processes per processor",
    "later_calls": "every call of the task API, the tenth of its kind and later",
    "phases": "phases inside calls and time in HCS, from spans (our shim only)",
    "state_calls": "State calls: latency, rate, CPU per call",
    "cpu": "CPU time per lifecycle",
    "lifecycle_rate": "lifecycles per second by concurrency",
    "stdout_throughput": "throughput of a container's stdout, CPU per GiB",
    "exec_probes": "latency of exec probes; growth of memory, descriptors and threads",
    "memory": "memory, threads and descriptors of idle shims",
    "scaling": "start time and memory per pod by the number of pods",
    "pod_calls": "many pods, by shim scope: State with 16 callers, CPU with Stats every 10 s",
    "shared_output": "throughput of the stdout of 16 containers at once, by shim scope",
    "containerd": "lifecycles under a real containerd",
}


def function_of(name: str) -> Callable[[SuiteContext], None]:
    function: Callable[[SuiteContext], None] = importlib.import_module(f"bench.measures.{name}").measure
    return function


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
        help="only this one; may be repeated",
    )  # fmt: skip
    parser.add_argument("--rounds", type=count(), help="lifecycles, starts and later calls (default 3, 20 or 50)")
    parser.add_argument("--containers", type=count(), default=3, help="containers of a pod (default 3)")
    parser.add_argument("--probes", type=count(), help="exec probes (default 10, 200 or 1000)")
    parser.add_argument("--pods", type=count(), help="pods of pod_calls (default 3, 20 or 110)")
    parser.epilog = "\n".join(["measures:", *(f"  {name:<18} {text}" for name, text in MEASURES.items())])


def sizes_of(arguments: argparse.Namespace) -> Sizes:
    sizes = evolve(SIZES[arguments.size], containers=arguments.containers)
    if arguments.rounds is not None:
        sizes = evolve(sizes, lifecycle_rounds=arguments.rounds)
    if arguments.probes is not None:
        sizes = evolve(sizes, exec_probes=arguments.probes)
    if arguments.pods is not None:
        sizes = evolve(sizes, called_pods=arguments.pods)
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
                function_of(name)(suite)
            except PrerequisiteError as error:
                run.skip(name, str(error))
            suite.check_leaks(name)
