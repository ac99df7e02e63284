"""The steps of the selftest, in the order in which they run: one module for each subject."""

from __future__ import annotations

from runhcs.selftest.runner import Step
from runhcs.selftest.steps import (
    container,
    crash,
    endpoint,
    environment,
    files,
    hostprocess,
    layers,
    libraries,
    queries,
    systems,
    vm,
)

STEPS: list[Step] = [
    *environment.STEPS,
    *libraries.STEPS,
    *files.STEPS,
    *queries.STEPS,
    *layers.STEPS,
    *endpoint.STEPS,
    *container.STEPS,
    *systems.STEPS,
    *crash.STEPS,
    *hostprocess.STEPS,
    *vm.STEPS,
]
