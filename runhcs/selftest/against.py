"""`selftest --against EXE`: the same containers with two shims on one node; every difference is a failure."""

from __future__ import annotations

from collections.abc import Callable

from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import SCENARIOS, Observation, Scenario


def comparison_steps(other: str) -> list[Step]:
    if not other:
        return []
    return [Step(f"against-{name}", f"{name}: both shims behave alike", _compare(name, scenario, other), 360.0)
            for name, scenario in SCENARIOS.items()]  # fmt: skip


def _compare(name: str, scenario: Scenario, other: str) -> Callable[[Context], str]:
    def run(context: Context) -> str:
        name_of_both = context.node.new_id(name)  # texts name the id, so both get the same
        ours = _observe(context, scenario, name_of_both, "")
        theirs = _observe(context, scenario, name_of_both, other)
        context.details["ours"], context.details["other"] = ours, theirs
        differences = [f"{key}: {ours.get(key)!r}, the other {theirs.get(key)!r}" for key in {**ours, **theirs}
                       if ours.get(key) != theirs.get(key)]  # fmt: skip
        if differences:
            raise StepFailed("; ".join(differences), "docs/reference/parity.md lists the known differences")
        return f"{len(ours)} observations are equal"

    return run


def _observe(context: Context, scenario: Scenario, id: str, program: str) -> Observation:
    """The observation, after which everything of the container is removed."""
    inner = Context(context.node)
    context.on_cleanup(lambda: _cleanup(inner))
    observed = scenario(inner, id, program)
    _cleanup(inner)
    return observed


def _cleanup(context: Context) -> None:
    if problems := context.cleanup():
        raise StepFailed(f"cleanup failed: {'; '.join(problems)}")
