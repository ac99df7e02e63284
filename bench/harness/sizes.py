"""How much of everything a run measures: the sizes of --quick, the default and --full."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import ge

_positive = ge(1)


def _increasing(_: Any, attribute: Attribute[Sequence[int]], value: Sequence[int]) -> None:
    if not value or value[0] < 1 or sorted(set(value)) != list(value):
        raise ValueError(f"{attribute.name} must be positive and increasing, not {value}")


def count(minimum: int = 1) -> Callable[[str], int]:
    """An argparse type for a number of rounds, calls …"""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, at least {minimum}")
        return int(text)

    return parse


@frozen
class Sizes:
    """Numbers of rounds, unless a comment names another unit."""

    warm_up: int = field(validator=ge(0))
    #: For measures that take long.
    short_warm_up: int = field(validator=ge(0))
    lifecycle_rounds: int = field(validator=_positive)
    vm_rounds: int = field(validator=_positive)
    pod_rounds: int = field(validator=_positive)
    phase_rounds: int = field(validator=_positive)
    cpu_rounds: int = field(validator=_positive)
    call_rounds: int = field(validator=_positive)
    containerd_rounds: int = field(validator=_positive)
    output_rounds: int = field(validator=_positive)
    #: Numbers of concurrent lifecycles, and lifecycles of each of them.
    concurrency: Sequence[int] = field(validator=_increasing)
    lifecycles_each: int = field(validator=_positive)
    exec_probes: int = field(validator=_positive)
    #: Numbers of idle shims, and of pods.
    idle_shims: Sequence[int] = field(validator=_increasing)
    pods: Sequence[int] = field(validator=_increasing)
    output_mib: int = field(validator=_positive)
    #: Number of pods that are called, rounds of State calls, and intervals of Stats calls.
    called_pods: int = field(validator=_positive)
    pod_state_rounds: int = field(validator=_positive)
    stats_intervals: int = field(validator=_positive)
    #: Of a pod, besides its sandbox.
    containers: int = field(default=3, validator=_positive)


SIZES = {
    "quick": Sizes(
        warm_up=1, short_warm_up=0, lifecycle_rounds=3, vm_rounds=1, pod_rounds=1, phase_rounds=1, cpu_rounds=1,
        call_rounds=1, containerd_rounds=1, output_rounds=1, concurrency=(1, 4), lifecycles_each=1, exec_probes=10,
        idle_shims=(1, 3), pods=(1, 3), output_mib=64, called_pods=3, pod_state_rounds=1,
        stats_intervals=1,
    ),
    "normal": Sizes(
        warm_up=2, short_warm_up=1, lifecycle_rounds=20, vm_rounds=3, pod_rounds=4, phase_rounds=8, cpu_rounds=6,
        call_rounds=7, containerd_rounds=8, output_rounds=6, concurrency=(1, 4, 8, 16, 32), lifecycles_each=2,
        exec_probes=200, idle_shims=(1, 5, 10, 25, 50), pods=(1, 5, 10, 20), output_mib=512,
        called_pods=20, pod_state_rounds=12, stats_intervals=6,
    ),
    "full": Sizes(
        warm_up=2, short_warm_up=1, lifecycle_rounds=50, vm_rounds=8, pod_rounds=12, phase_rounds=25, cpu_rounds=20,
        call_rounds=20, containerd_rounds=30, output_rounds=12, concurrency=(1, 4, 8, 16, 32), lifecycles_each=4,
        exec_probes=1000, idle_shims=(1, 5, 10, 25, 50), pods=(1, 10, 25, 50, 110, 200), output_mib=1024,
        called_pods=110, pod_state_rounds=20, stats_intervals=12,
    ),
}  # fmt: skip
