"""Every call of the task API from its tenth time on, on a cold shim, by a client of one thread.

All shims do the same for the client: see the table in docs/how-to/benchmarks.md for what each does inside. Of our shim
another one records spans; its calls without the time in HCS are measures of their own.
"""

from __future__ import annotations

from contextlib import ExitStack

from bench.harness import spans
from bench.harness.candidates import STANDBY
from bench.harness.context import SuiteContext
from bench.measures.call_session import CALLS, Sample, Session, hcs_milliseconds

PROFILE = "later calls"
# Calls of each kind before the first that counts.
EARLIER = 9


def measure(context: SuiteContext) -> None:
    candidates = [one for one in context.central if one.name != STANDBY] or context.central
    node = context.node
    with ExitStack() as stack:
        sessions: dict[str, list[Session]] = {}
        for candidate in candidates:
            own = [Session(candidate, node, stack)]
            if candidate.is_ours:
                own.append(Session(candidate, node, stack, {"RUNHCS_SPANS": str(node.spans)}))
            if all(context.attempt(candidate, PROFILE, one.start) for one in own):
                sessions[candidate.name] = own
        running = [one for one in candidates if one.name in sessions]
        kept: dict[str, list[Sample]] = {one.name: [] for one in running}
        spanned: dict[str, list[Sample]] = {one.name: [] for one in running}
        for candidate, is_kept in context.rounds("later calls", running, context.sizes.lifecycle_rounds, EARLIER):
            for session, samples in zip(sessions[candidate.name], (kept, spanned), strict=False):
                found = context.attempt(candidate, PROFILE, session.round)
                if found is not None:
                    context.report_events(candidate, session.event_errors, PROFILE)
                    samples[candidate.name] += found if is_kept else []
        for session in (one for many in sessions.values() for one in many):
            context.attempt(session.candidate, PROFILE, session.stop)
            context.check_events(session.shim, PROFILE)
    _add(context, kept)
    in_hcs = {
        candidate.name: hcs_milliseconds(spanned[candidate.name], spans.take(node.spans, session.shim.id))
        for candidate in running
        for session in sessions[candidate.name][1:]
    }
    _add_without_hcs(context, kept, in_hcs)


def _add(context: SuiteContext, samples: dict[str, list[Sample]]) -> None:
    for name in CALLS:
        for candidate, many in samples.items():
            values = [one.milliseconds for one in many if one.name == name]
            if values:
                context.measure(name, "ms", profile=PROFILE).add(candidate, *values)


def _add_without_hcs(
    context: SuiteContext, samples: dict[str, list[Sample]], in_hcs: dict[str, list[tuple[Sample, float]]]
) -> None:
    """Only calls that use HCS. Of other shims it is the whole call."""
    using = {sample.name for many in in_hcs.values() for sample, milliseconds in many if milliseconds}
    for name in (one for one in CALLS if one in using):
        found = context.measure(f"{name} without HCS", "ms", profile=PROFILE)
        for candidate, many in samples.items():
            if candidate in in_hcs:
                values = [one.milliseconds - waited for one, waited in in_hcs[candidate] if one.name == name]
            else:
                values = [one.milliseconds for one in many if one.name == name]
            found.add(candidate, *values)
