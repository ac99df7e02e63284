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
_MOST_WEIGHT = 9


def from_spec(spec: Spec, processors: int, warn: Callable[[str], object]) -> Limits:
    limits = Limits(memory=resources.memory(spec).get("SizeInMB", 0) * resources.MIB)
    try:
        processor = resources.processor(spec, processors, warn)
    except InvalidSpec as error:  # the words of Microsoft's shim
        raise InvalidSpec(f"failed to convert OCI spec to job object limits: {error.message}", error.kind) from None
    _check_processor(processor)
    set_processor(limits, processor, processors)
    storage = resources.storage(spec)
    limits.iops = storage.get("IopsMaximum", 0)
    limits.bandwidth = storage.get("BandwidthMaximum", 0)
    return limits


def _check_processor(given: Mapping[str, int]) -> None:
    """A job refuses more than the whole machine, and a weight above 9."""
    problem = ""
    if (maximum := given.get("Maximum", 0)) > WHOLE_MACHINE:
        problem = f"processor rate of `{maximum}` is invalid: {WHOLE_MACHINE} is the whole machine"
    elif (weight := _weight(given.get("Weight", 0))) > _MOST_WEIGHT:
        problem = f"processor weight value of `{weight}` is invalid: shares are at most {WHOLE_MACHINE}"
    if problem:
        raise InvalidSpec(f"failed to set resource limits: failed to set job object cpu limit: {problem}")


def _weight(shares: int) -> int:
    """The weight of a job, 1 to 9, for shares of 1 to 10000."""
    return 1 + 8 * shares // WHOLE_MACHINE


def set_processor(limits: Limits, given: Mapping[str, int], processors: int) -> None:
    """Set one of Count, Maximum and Weight, and remove the others. A job has no count: it becomes a share of the
    machine."""
    limits.rate = limits.weight = 0
    if count := given.get("Count", 0):
        limits.rate = max(1, min(WHOLE_MACHINE, count * WHOLE_MACHINE // processors))
    elif maximum := given.get("Maximum", 0):
        limits.rate = max(1, min(WHOLE_MACHINE, maximum))
    elif weight := given.get("Weight", 0):
        limits.weight = min(_weight(weight), _MOST_WEIGHT)
