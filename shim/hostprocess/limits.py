"""Limits of a host process container, from its spec or an update, in the units of job objects."""

from __future__ import annotations

from shim.container import resources
from shim.oci.errors import InvalidSpec
from shim.platform.job_types import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shim.oci.spec import Spec

WHOLE_MACHINE = resources.WHOLE_MACHINE


def from_spec(spec: Spec, processors: int, warn: Callable[[str], object]) -> Limits:
    limits = Limits(memory=resources.memory(spec).get("SizeInMB", 0) * resources.MIB)
    try:
        processor = resources.processor(spec, processors, warn)
    except InvalidSpec as error:  # the words of Microsoft's shim
        raise InvalidSpec(f"failed to convert OCI spec to job object limits: {error.message}", error.kind) from None
    set_processor(limits, processor, processors)
    storage = resources.storage(spec)
    limits.iops = storage.get("IopsMaximum", 0)
    limits.bandwidth = storage.get("BandwidthMaximum", 0)
    return limits


def set_processor(limits: Limits, given: Mapping[str, int], processors: int) -> None:
    """Set one of Count, Maximum and Weight, and remove the others. A job has no count: it becomes a share of the
    machine."""
    limits.rate = limits.weight = 0
    if count := given.get("Count", 0):
        limits.rate = max(1, min(WHOLE_MACHINE, count * WHOLE_MACHINE // processors))
    elif maximum := given.get("Maximum", 0):
        limits.rate = max(1, min(WHOLE_MACHINE, maximum))
    elif weight := given.get("Weight", 0):
        limits.weight = 1 + 8 * min(weight, WHOLE_MACHINE) // WHOLE_MACHINE
