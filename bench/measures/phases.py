"""What our shim does inside Create, Start, Kill and Delete, told by its own spans; and what the spans cost.

Lives with spans and without take turns. The difference is the spans' cost as a caller sees it; what one span takes is
measured alone as well, since the difference drowns in the noise of a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from bench.harness import spans, standby
from bench.harness.bundles import HYPERVISOR, PROCESS
from bench.harness.candidates import Candidate
from bench.harness.context import Lab
from bench.harness.spans import Span
from bench.measures import lifecycle
from shim import spans as recording

KEPT = ("in HCS", "shim overhead")
BURST = 2000


def measure(lab: Lab) -> None:
    if not lab.ours:
        return
    _one_span(lab)
    _profile(lab, PROCESS, lab.sizes.phase_rounds)
    _profile(lab, HYPERVISOR, max(lab.sizes.vm_rounds // 2, 1))


def _profile(lab: Lab, profile: str, rounds: int) -> None:
    """Which of a pair comes first changes from round to round: the second finds everything warm."""
    told = "" if profile == PROCESS else profile
    number = dict.fromkeys((one.name for one in lab.ours), 0)
    for candidate, kept in lab.rounds(f"phases {told}".strip(), lab.ours, rounds, lab.sizes.short_warm_up):
        number[candidate.name] += 1
        pair: dict[bool, lifecycle.Life] = {}
        order = (True, False) if number[candidate.name] % 2 else (False, True)
        for with_spans in order if profile == PROCESS else (True,):
            standby.wait(candidate)
            life = lab.attempt(
                candidate, told, lifecycle.run_once, candidate, lab.node, profile, with_spans=with_spans
            )
            if life is not None:
                pair[with_spans] = life
        if True in pair and not pair[True].spans:
            lab.session.run.violation(candidate.name, "error", "no spans, although they were asked for", told)
        elif kept and True in pair:
            _enter(lab, candidate, pair[True], told)
            if False in pair:
                name = f"spans: Create and Start of {candidate.name}, with minus without"
                lab.session.run.cost(name, "ms", _middle(pair[True]) - _middle(pair[False]), note="pairs of lives")


def _middle(life: lifecycle.Life) -> float:
    return life.times["Create"] + life.times["Start"]


def _enter(lab: Lab, candidate: Candidate, life: lifecycle.Life, profile: str) -> None:
    for name, value in spans.measures(life.spans, life.times).items():
        if name.endswith(KEPT):
            lab.session.measure(name, "ms", "latency", profile).add(candidate.name, value)
    seen = set()
    for call in spans.rpcs(life.spans):
        if call.method in spans.CALLS and call.method not in seen:
            seen.add(call.method)
            phases = timeline(call.whole, call.inside)
            lab.session.run.timeline(call.method, profile).add(candidate.name, phases)


def timeline(whole: Span, inside: Iterable[Span]) -> list[tuple[str, float, float]]:
    """Phases in milliseconds from the begin of the call; what lies within another is named `outer/inner`."""
    ordered = sorted(inside, key=lambda one: (one.begin, -one.end))
    found = []
    open_ones: list[tuple[Span, str]] = []
    for one in ordered:
        while open_ones and open_ones[-1][0].end <= one.begin:
            open_ones.pop()
        own = one.name.removeprefix(recording.HCS)
        path = f"{open_ones[-1][1]}/{own}" if open_ones else own
        open_ones.append((one, path))
        found.append((path, (one.begin - whole.begin) / 1e6, one.milliseconds))
    return found


def _one_span(lab: Lab) -> None:
    """In this process, which is as good as any."""
    for name, is_on in (("spans: one that is not kept", False), ("spans: one that is kept", True)):
        if is_on:
            recording.enable()
        try:
            for _ in range(20):
                begin = time.perf_counter_ns()
                for _ in range(BURST):
                    with recording.span("x"):
                        pass
                lab.session.run.cost(name, "us", (time.perf_counter_ns() - begin) / BURST / 1e3, note=f"{BURST} each")
                if is_on:
                    recording.enable()
        finally:
            recording.document(0, "")
