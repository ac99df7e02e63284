"""Target ratios of this project, shown as lines in the charts. They fail nothing: --max-ratio and --min-ratio do."""

from __future__ import annotations

from bench.harness.candidates import COLD, NAMESPACE, NODE, STANDBY

WINE_COLD, WINE_STANDBY, WINE_GO = "runhcs (Wine)", "runhcs standby (Wine)", "Go runhcs (Wine)"
WINE_NAMESPACE, WINE_NODE = "runhcs namespace (Wine)", "runhcs node (Wine)"

# measure, or "profile: measure" -> candidate -> ratio of medians to the baseline
GOALS: dict[str, dict[str, float]] = {
    "start": {COLD: 0.25, STANDBY: 0.25},
    "start to Connect": {COLD: 0.7, STANDBY: 0.5},
    "start to running": {COLD: 1.0, STANDBY: 0.5},
    "delete": {COLD: 0.7, STANDBY: 0.7},
    "Exec": {COLD: 0.9, STANDBY: 0.9},
    "Wait for an exec": {COLD: 0.9, STANDBY: 0.9},
    "exec exit to event": {COLD: 0.9, STANDBY: 0.9},
    "exit to event": {COLD: 0.9, STANDBY: 0.9},
    "load: start": {},  # part of the next one, without a goal of its own
    "load: start to Connect": {COLD: 1.0, STANDBY: 1.0},
    "PSS per idle shim of 10": {COLD: 1.0, STANDBY: 1.0},
    "State, 1 caller": {COLD: 0.9, STANDBY: 0.9},
    "State, 16 callers": {COLD: 1.5, STANDBY: 1.5},
    "unary call, 1 caller": {"shim/ttrpc": 0.9},
    "unary calls, 16 callers": {"shim/ttrpc": 1.5},
    "start to running of a pod": {NAMESPACE: 0.25, NODE: 0.25},
    "memory per pod of 10": {NAMESPACE: 0.25, NODE: 0.25},
    "memory per pod of 50": {NAMESPACE: 0.1, NODE: 0.1},
    "memory per pod of 110": {NAMESPACE: 0.08, NODE: 0.08},
    "State, 16 callers over 110 pods": {NAMESPACE: 1.5, NODE: 1.5},
    "output of 16 containers": {NAMESPACE: 1.0, NODE: 1.0},
    "CPU of 110 pods with Stats every 10 s": {NAMESPACE: 0.3, NODE: 0.3},
    "container output": {COLD: 2.0},
    "CPU per GiB of container output": {COLD: 0.3},
    "wine: start": {WINE_COLD: 1.0, WINE_STANDBY: 0.5},
    "wine: start to Connect": {WINE_COLD: 0.5},
    "wine: start to running": {WINE_COLD: 0.6, WINE_STANDBY: 0.25},
    "wine: Create without HCS": {WINE_COLD: 0.8, WINE_STANDBY: 0.8},
    "wine: Start without HCS": {WINE_COLD: 0.8, WINE_STANDBY: 0.8},
    "wine: Pids without HCS": {WINE_COLD: 0.8, WINE_STANDBY: 0.8},
    "wine: Kill to exit without HCS": {WINE_COLD: 0.8, WINE_STANDBY: 0.8},
    "wine: Delete without HCS": {WINE_COLD: 0.8, WINE_STANDBY: 0.8},
    "wine: delete": {WINE_COLD: 0.7, WINE_STANDBY: 0.7},
    # With CPython's DLLs as published; both shims load what the DLLs of HCS load.
    "wine: RSS of an idle shim": {WINE_COLD: 0.75, WINE_STANDBY: 0.75},
    "wine: private of an idle shim": {WINE_COLD: 0.6, WINE_STANDBY: 0.6},
    "wine hypervisor: Create": {WINE_COLD: 0.8},
    "wine hypervisor: start to running": {WINE_COLD: 0.7},
    "wine: start to running of a pod": {WINE_NAMESPACE: 0.25, WINE_NODE: 0.25},
    "wine: memory per pod of 10": {WINE_NAMESPACE: 0.25, WINE_NODE: 0.25},
    "wine: memory per pod of 50": {WINE_NAMESPACE: 0.1, WINE_NODE: 0.1},
    "wine: memory per pod of 110": {WINE_NAMESPACE: 0.08, WINE_NODE: 0.08},
    "wine: State, 16 callers over 110 pods": {WINE_NAMESPACE: 1.5, WINE_NODE: 1.5},
    "wine: output of 16 containers": {WINE_NAMESPACE: 1.0, WINE_NODE: 1.0},
    "wine: CPU of 110 pods with Stats every 10 s": {WINE_NAMESPACE: 0.3, WINE_NODE: 0.3},
}

# The same goal for all measures of a profile whose name begins so, unless they have one above.
PREFIX_GOALS: dict[tuple[str, str], dict[str, float]] = {
    ("stdin", "start, "): {COLD: 0.25, STANDBY: 0.25},
    ("later calls", ""): {COLD: 1.0},
}
# These explain a measure and have no goal of their own.
EXPLAINING = " without HCS"


def goals_of(measure: str, profile: str = "") -> dict[str, float]:
    own = GOALS.get(f"{profile}: {measure}" if profile else measure)
    if own is not None:
        return dict(own)
    for (prefixed, prefix), goals in PREFIX_GOALS.items():
        if profile == prefixed and measure.startswith(prefix) and not measure.endswith(EXPLAINING):
            return dict(goals)
    return dict(GOALS.get(measure, {}))
