"""`selftest --against EXE`: the same containers with two shims on one node; every difference is a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import SCENARIOS, Observation, Scenario

# Differences from Microsoft's shim that docs/reference/parity.md explains, by scenario and observation.
KNOWN = {
    ("failures", "second create"): "ours refuses with AlreadyExists; Microsoft's creates it again, which HCS refuses",
}


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
        different = [key for key in {**ours, **theirs} if _comparable(ours.get(key)) != _comparable(theirs.get(key))]
        known = [key for key in different if (name, key) in KNOWN]
        context.details["known differences"] = {key: KNOWN[name, key] for key in known}
        differences = [f"{key}: {ours.get(key)!r}, the other {theirs.get(key)!r}" for key in different
                       if key not in known]  # fmt: skip
        if differences:
            raise StepFailed("; ".join(differences), "docs/reference/parity.md lists the known differences")
        return f"{len(ours) - len(known)} observations are equal, {len(known)} differ as documented"

    return run


def _comparable(value: Any) -> Any:
    """Of a refused call only the status code is compared: ours appends the cause and the next step to the text."""
    return {"code": value.get("code")} if isinstance(value, dict) and "text" in value else value


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
