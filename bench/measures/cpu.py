"""CPU time of a whole lifecycle: of the commands, the daemon, a standby and other programs of the shim, such as runc.

Everything that a candidate runs is in its own control group, whose CPU time is read before and after a lifecycle. HCS
is not in it. Without control groups it is the CPU time of the commands and the daemon, without a standby.
"""

from __future__ import annotations

import os

from bench.harness import standby
from bench.harness.candidates import Candidate
from bench.harness.cgroup import Accounting
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim


def measure(context: SuiteContext) -> None:
    found = context.measure("CPU per lifecycle", "ms", "cpu")
    groups = {one.name: Accounting(f"bench-{os.getpid()}-{number}") for number, one in enumerate(context.central)}
    try:
        for candidate, is_kept in context.rounds("CPU of lifecycles", context.central, context.sizes.cpu_rounds):
            group = groups[candidate.name]
            seconds = context.attempt(candidate, "", lifecycle, context, candidate, group)
            if is_kept and seconds is not None:
                found.add(candidate.name, seconds * 1e3)
    finally:
        for group in groups.values():
            group.close()


def lifecycle(context: SuiteContext, candidate: Candidate, group: Accounting) -> float:
    """CPU seconds."""
    before = group.seconds() if group.path is not None else 0.0
    with Shim(candidate, context.node) as shim:
        if group.path is not None:
            shim.before_exec = group.enter
        shim.run()
        shim.kill()
        shim.wait()
        shim.delete_task()
        shim.wait_delete_event()
        daemon = shim.cpu()
        shim.shut_down()
        shim.wait_exit()
        shim.delete()
    context.check_events(shim)
    standby.wait(candidate)  # the cost of the next spare counts
    return group.seconds() - before if group.path is not None else daemon + shim.commands_cpu
