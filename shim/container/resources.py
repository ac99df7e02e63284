"""Limits of a container: processor, memory, storage. An annotation has precedence over the spec's field."""

from __future__ import annotations

from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.oci.spec import Spec

MIB = 1 << 20
# HCS has processor limits in hundredths of a percent of the whole machine, and weights from 1 to 10000.
WHOLE_MACHINE = 10_000


def processor(spec: Spec, processors: int, warn: Callable[[str], object]) -> dict[str, int]:
    """At most one of Count, Maximum and Weight; {} when there is no limit."""
    cpu = spec.windows.section("resources").section("cpu")
    annotations = spec.annotations
    given = {
        "Count": annotations.number(names.PROCESSOR_COUNT) or cpu.number("count"),
        "Maximum": annotations.number(names.PROCESSOR_LIMIT) or cpu.number("maximum"),
        "Weight": annotations.number(names.PROCESSOR_WEIGHT) or cpu.number("shares"),
    }
    given = {name: value for name, value in given.items() if value}
    if len(given) > 1:
        count, limit, weight = (given.get(name, 0) for name in ("Count", "Maximum", "Weight"))
        raise InvalidSpec(
            f"invalid spec - Windows Container CPU Count: '{count}', Limit: '{limit}', and Weight: '{weight}' are "
            "mutually exclusive: keep one, in the spec or its annotations"
        )
    if given.get("Count", 0) > processors:
        warn(f"{given['Count']} processors are asked for and the machine has {processors}: the container gets those")
        given["Count"] = processors
    return given


def memory(spec: Spec) -> dict[str, int]:
    """SizeInMB; bytes are cut to MiB, not rounded, and less than one is no limit. {} when there is none."""
    size = spec.annotations.number(names.MEMORY_SIZE_IN_MB, 0xFFFFFFFFFFFFFFFF)
    size = size or spec.windows.section("resources").section("memory").number("limit") // MIB
    return {"SizeInMB": size} if size else {}


def storage(spec: Spec) -> dict[str, int]:
    """QoS of the system drive; {} when there is none."""
    requested = spec.windows.section("resources").section("storage")
    limits = {
        "IopsMaximum": spec.annotations.number(names.STORAGE_IOPS) or requested.number("iops"),
        "BandwidthMaximum": spec.annotations.number(names.STORAGE_BANDWIDTH) or requested.number("bps"),
    }
    for name, value in limits.items():
        if value > 0x7FFFFFFF:
            field = "iops" if name.startswith("I") else "bps"
            raise InvalidSpec(f"{requested.path}.{field} is {value}: {0x7FFFFFFF} is the most")
    return {name: value for name, value in limits.items() if value}
