r"""The job object of a process-isolated container, for settings that HCS documents do not have.

HCS names it `\Container_<id>` in the object manager, where only ntdll's native calls find it, and only SYSTEM may open
it.
"""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import ntdll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_SET_ATTRIBUTES = 0x2
_GROUP_INFORMATION_EX = 14


def set_affinity(container_id: str, affinity: Sequence[tuple[int, int]]) -> None:
    """Restrict a created container to these processors, as (mask, processor group)."""
    name = f"\\Container_{container_id}"
    text: Any = ffi.new("char16_t[]", name)
    size = 2 * (len(text) - 1)
    held: Any = ffi.new("UNICODE_STRING *", {"Length": size, "MaximumLength": size, "Buffer": text})
    attributes: Any = ffi.new("OBJECT_ATTRIBUTES *", {"Length": ffi.sizeof("OBJECT_ATTRIBUTES"), "ObjectName": held})
    job: Any = ffi.new("HANDLE *")
    _check(ntdll.NtOpenJobObject(job, _SET_ATTRIBUTES, attributes), f"NtOpenJobObject {name}")
    try:
        masks: Any = ffi.new("GROUP_AFFINITY[]", [{"Mask": mask, "Group": group} for mask, group in affinity])
        code = ntdll.NtSetInformationJobObject(job[0], _GROUP_INFORMATION_EX, masks, ffi.sizeof(masks))
        _check(code, f"NtSetInformationJobObject {name}")
    finally:
        ntdll.NtClose(job[0])


def _check(code: int, operation: str) -> None:
    if code < 0:
        raise errors.HcsError(code & 0xFFFFFFFF, operation)
