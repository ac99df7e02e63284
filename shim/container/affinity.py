"""Which processors a process-isolated container may use: `cpu.affinity` of its resources.

HCS's document has no member for it: it is set on the container's job between create and start, so that it holds for
the init from the start, or later by an update.
"""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.oci.section import Section

# Before it a job has one mask, of processor group 0.
FIRST_BUILD_WITH_GROUPS = 20348
_MASK = 0xFFFFFFFFFFFFFFFF


def parse(cpu: Section) -> list[tuple[int, int]]:
    """(mask, group) of each entry; [] when all processors may be used."""
    affinity = []
    for index, entry in enumerate(cpu.sections("affinity")):
        mask, group = entry.number("mask"), entry.number("group")
        if not mask:
            raise InvalidSpec(f"cpu affinity mask must be non-zero: entry {index} has zero mask: name a processor")
        if mask > _MASK or group > 0xFFFF:
            raise InvalidSpec(f"cpu affinity is out of range: {entry.path} has mask {mask} of group {group}")
        affinity.append((mask, group))
    if len(affinity) > 1 or any(group for _, group in affinity):
        from shim.hcs_bindings.windows_version import windows_build

        if (build := windows_build()) < FIRST_BUILD_WITH_GROUPS:
            several = len(affinity) > 1
            what = "multiple processor groups" if several else "a non-zero processor group"
            given = f"{len(affinity)} entries" if several else f"group {affinity[0][1]}"
            raise InvalidSpec(
                f"cpu affinity with {what} requires Windows Server 2022 or later: {given}, and this host is build "
                f"{build}, before {FIRST_BUILD_WITH_GROUPS}"
            )
    return affinity


def apply(container_id: str, affinity: Sequence[tuple[int, int]]) -> None:
    from shim.hcs_bindings import job

    try:
        job.set_affinity(container_id, affinity)
    except errors.HcsError as error:
        if error.code != errors.STATUS_INVALID_PARAMETER:
            raise
        masks = ", ".join(f"{mask:#x} of group {group}" for mask, group in affinity)
        raise InvalidSpec(
            f"apply CPU affinity to container silo: Windows has no such processors as {masks}; correct the masks"
        ) from None
