"""Whole lives of containers: commands and calls, one container at a time, by profile."""

from __future__ import annotations

import time

from bench.harness.bundles import HYPERVISOR, POD, Role
from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim, new_id
from bench.measures import lifecycle

POD_MEASURES = ("sandbox to running", "container to running", "pod to running", "pod to gone")


def measure(lab: Lab) -> None:
    _lives(lab, lab.candidates, lab.sizes.rounds, "")
    _lives(lab, lab.ours, lab.sizes.vm_rounds, HYPERVISOR)
    _pods(lab)


def _lives(lab: Lab, candidates: list[Candidate], rounds: int, profile: str) -> None:
    """Every second life ends by itself, the others by Kill."""
    warm_up = lab.sizes.short_warm_up if profile else lab.sizes.warm_up
    lived = dict.fromkeys((one.name for one in candidates), 0)
    for candidate, kept in lab.rounds(f"lives {profile}".strip(), candidates, rounds, warm_up):
        lived[candidate.name] += 1
        by_itself = lived[candidate.name] % 2 == 0
        life = lab.attempt(
            candidate, profile, lifecycle.run_once, candidate, lab.node, profile, by_itself=by_itself
        )
        if life is None:
            continue
        lab.check_events(candidate, life.wrong, profile)
        if kept:
            for name in lifecycle.MEASURES:
                if name in life.times:
                    lab.session.measure(name, "ms", "latency", profile).add(candidate.name, life.times[name])


def _pods(lab: Lab) -> None:
    """A sandbox and some containers, served by one shim."""
    measures = {name: lab.session.measure(name, "ms", "latency", POD) for name in POD_MEASURES}
    for candidate, kept in lab.rounds("pods", lab.central, lab.sizes.pod_rounds, lab.sizes.short_warm_up):
        times = lab.attempt(candidate, POD, pod, lab, candidate)
        if times is not None and kept:
            for name, values in times.items():
                measures[name].add(candidate.name, *values)


def pod(lab: Lab, candidate: Candidate) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in POD_MEASURES}
    name = new_id()
    begin = time.perf_counter()
    with Shim(candidate, lab.node, role=Role("sandbox", name)) as sandbox:
        sandbox.run()
        times["sandbox to running"].append(_since(begin))
        members: list[Shim] = []
        try:
            for _ in range(lab.sizes.containers):
                begun = time.perf_counter()
                members.append(Shim(candidate, lab.node, role=Role("container", name)))
                members[-1].run()
                times["container to running"].append(_since(begun))
            times["pod to running"].append(_since(begin))
            begun = time.perf_counter()
            for member in members:
                member.end()
            sandbox.end()
            times["pod to gone"].append(_since(begun))
        finally:
            for member in members:
                member.__exit__(None)
    for one in (sandbox, *members):
        lab.check_events(candidate, lab.node.events.settle(one.id), POD)
    return times


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3
