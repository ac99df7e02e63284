"""CPU time of a whole life: of the commands, the daemon, a standby and whatever the shim runs besides (runc, for one).

Everything a candidate runs is in a control group of its own, whose time is read before and after some lives; HCS's
work is outside of it. Where there are no control groups to be had, it is the time of commands and daemon alone,
without a standby's.
"""

from __future__ import annotations

import os

from bench.harness import standby
from bench.harness.candidates import Candidate
from bench.harness.cgroup import Accounting
from bench.harness.context import Lab
from bench.harness.driver import Shim


def measure(lab: Lab) -> None:
    found = lab.session.measure("CPU per life", "ms", "cpu")
    groups = {one.name: Accounting(f"bench-{os.getpid()}-{number}") for number, one in enumerate(lab.central)}
    try:
        for candidate, kept in lab.rounds("CPU of lives", lab.central, lab.sizes.cpu_rounds):
            group = groups[candidate.name]
            seconds = lab.attempt(candidate, "", life, lab, candidate, group)
            if kept and seconds is not None:
                found.add(candidate.name, seconds * 1e3)
    finally:
        for group in groups.values():
            group.close()


def life(lab: Lab, candidate: Candidate, group: Accounting) -> float:
    """CPU seconds."""
    before = group.seconds() if group.path is not None else 0.0
    with Shim(candidate, lab.node) as shim:
        if group.path is not None:
            shim.before_exec = group.enter
        shim.run()
        shim.kill()
        shim.wait()
        shim.delete_task()
        shim.await_last_event()
        daemon = shim.cpu()
        shim.shut_down()
        shim.wait_gone()
        shim.delete()
    lab.check_events(candidate, lab.node.events.settle(shim.id))
    standby.wait(candidate)  # the next spare is part of the price
    return group.seconds() - before if group.path is not None else daemon + shim.commands_cpu
