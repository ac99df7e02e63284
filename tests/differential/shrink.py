"""Makes a case that differs as small as possible: fewer calls, then fewer members of its spec and options.

hypothesis shrinks by running the whole test again with smaller input. A case takes seconds here, so this needs few
attempts: delta debugging (ddmin) of the calls, and then each optional member once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Scenario = dict[str, Any]
MOST_ATTEMPTS = 12
# Without these the others mean nothing, or Microsoft's shim leaves the container behind.
_KEPT_STEPS = (
    "start", "connect", "create", "attach", "kill:,9", "kill:,9,all", "delete", "killshim", "deletecmd", "shutdown",
    "events",
)  # fmt: skip


def shrink(scenario: Scenario, differs: Callable[[Scenario], bool], attempts: int = MOST_ATTEMPTS) -> Scenario:
    """The smallest case found for which `differs` holds, within so many calls of it."""
    budget = iter(range(attempts))

    def holds(candidate: Scenario) -> bool:
        return next(budget, None) is not None and differs(candidate)

    units = list(_units(scenario["steps"]))
    removable = [at for at, unit in enumerate(units) if unit[0] not in _KEPT_STEPS]

    def with_only(kept: Sequence[int]) -> Scenario:
        chosen = [step for at, unit in enumerate(units) if at not in removable or at in kept for step in unit]
        return {**scenario, "steps": chosen}

    best = with_only(ddmin(removable, lambda kept: holds(with_only(kept))))
    for candidate in _smaller(best):
        merged = _without(best, candidate)
        if merged is not None and holds(merged):
            best = merged
    return best


def _units(steps: Sequence[str]) -> Iterator[list[str]]:
    """Calls, each with the waits for its effect: without it they would take until their timeout."""
    unit: list[str] = []
    for step in steps:
        if unit and not step.startswith("wait"):
            yield unit
            unit = []
        unit.append(step)
    yield unit


def ddmin(items: Sequence[int], holds: Callable[[Sequence[int]], bool]) -> list[int]:
    """A subset for which `holds`, from which no single part can be removed."""
    kept, parts = list(items), 2
    while kept:
        size = -(-len(kept) // parts)
        for begin in range(0, len(kept), size):
            candidate = kept[:begin] + kept[begin + size :]
            if holds(candidate):
                kept, parts = candidate, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(kept))
    return kept


Path = tuple[str, ...]


def _smaller(scenario: Scenario) -> Iterator[Path]:
    """Members that may be removed."""
    spec = scenario["spec"]
    yield from (("options", name) for name in scenario.get("options") or () if not name.startswith("sandbox"))
    for name in ("annotations", "mounts", "hostname"):
        if name in spec:
            yield ("spec", name)
    yield from (("spec", "annotations", name) for name in spec.get("annotations") or () if "kubernetes" not in name)
    yield from (("spec", "process", name) for name in spec["process"] if name != "args")
    for section in ("windows", "linux"):
        yield from (("spec", section, "resources", name) for name in (spec.get(section) or {}).get("resources") or ())
        yield from (("spec", section, name) for name in spec.get(section) or () if name in ("resources", "servicing"))


def _without(scenario: Scenario, path: Path) -> Scenario | None:
    """A copy without this member; None if it has none. A pod's annotations and those of a VM must not be empty."""
    found = copy.deepcopy(scenario)
    place: Any = found
    for name in path[:-1]:
        place = place.get(name) if isinstance(place, dict) else None
    if not isinstance(place, dict) or path[-1] not in place:
        return None
    if path == ("spec", "annotations"):
        if any("kubernetes" in name for name in place["annotations"]) or not place["annotations"]:
            return None
        place["annotations"] = {}
    else:
        del place[path[-1]]
    return found
