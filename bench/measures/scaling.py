"""How cost grows with the number of pods: time and memory of each, from the first to the two hundredth.

A pod here is the least there is: a sandbox and one container, served by one shim. They are brought up one after the
other and all stay; memory is that of the shims (PSS), with the standby's shared out where there is one.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.harness import standby
from bench.harness.bundles import Role
from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim, new_id
from bench.measures.memory import together

# Below this much free memory nobody is served by going on.
RESERVE_KB = 2 << 20


def measure(lab: Lab) -> None:
    for candidate in lab.central:
        with ExitStack() as stack:
            lab.attempt(candidate, "pods", _measure, lab, candidate, stack)


def _measure(lab: Lab, candidate: Candidate, stack: ExitStack) -> None:
    times = lab.session.run.series("time per pod", "ms", "pods", kind="latency")
    memory = lab.session.run.series("memory per pod", "kB", "pods", kind="memory")
    pods: list[tuple[Shim, Shim]] = []
    standby.wait(candidate)
    for count in lab.sizes.pods:
        if free_memory() < RESERVE_KB:
            lab.session.run.settings["pods cut short"] = f"{candidate.name}: memory was short at {len(pods)} pods"
            break
        taken = []
        while len(pods) < count:
            lab.session.progress.step("scaling", len(pods) + 1, lab.sizes.pods[-1], candidate.name)
            begin = time.perf_counter()
            pods.append(_pod(lab, candidate, stack))
            taken.append((time.perf_counter() - begin) * 1e3)
        times.add(candidate.name, count, *taken)
        shims = together(sandbox.pid for sandbox, _ in pods)["PSS"]
        memory.add(candidate.name, count, (shims + together(standby.pids(candidate))["PSS"]) / count)
    for number, (sandbox, member) in enumerate(pods):
        lab.session.progress.step("scaling down", number + 1, len(pods), candidate.name)
        member.end()
        sandbox.end()
        for one in (member, sandbox):
            lab.check_events(candidate, lab.node.events.settle(one.id), "pods")


def _pod(lab: Lab, candidate: Candidate, stack: ExitStack) -> tuple[Shim, Shim]:
    name = new_id()
    sandbox = stack.enter_context(Shim(candidate, lab.node, role=Role("sandbox", name)))
    sandbox.run()
    member = stack.enter_context(Shim(candidate, lab.node, role=Role("container", name)))
    member.run()
    return sandbox, member


def free_memory() -> int:
    """In kB."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1])
    return RESERVE_KB
