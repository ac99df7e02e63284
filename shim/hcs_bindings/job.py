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
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Result = TypeVar("Result")

_PREFIX = "\\Container_"
_SET_ATTRIBUTES, _QUERY = 0x2, 0x4
_GROUP_INFORMATION_EX = 14


def set_affinity(container_id: str, affinity: Sequence[tuple[int, int]]) -> None:
    """Restrict a created container to these processors, as (mask, processor group)."""
    job = _open(container_id, _SET_ATTRIBUTES)
    try:
        masks: Any = ffi.new("GROUP_AFFINITY[]", [{"Mask": mask, "Group": group} for mask, group in affinity])
        code = ntdll.NtSetInformationJobObject(job, _GROUP_INFORMATION_EX, masks, ffi.sizeof(masks))
        _check(code, f"NtSetInformationJobObject {_PREFIX}{container_id}")
    finally:
        ntdll.NtClose(job)


def use(container_id: str, query: Callable[[int], Result]) -> Result:
    """Call `query` with a handle for queries. It is closed right after: an open handle would keep the job."""
    job = _open(container_id, _QUERY)
    try:
        return query(int(ffi.cast("uintptr_t", job)))
    finally:
        ntdll.NtClose(job)


def _open(container_id: str, access: int) -> Any:
    name = _PREFIX + container_id
    text: Any = ffi.new("char16_t[]", name)
    size = 2 * (len(text) - 1)
    held: Any = ffi.new("UNICODE_STRING *", {"Length": size, "MaximumLength": size, "Buffer": text})
    attributes: Any = ffi.new("OBJECT_ATTRIBUTES *", {"Length": ffi.sizeof("OBJECT_ATTRIBUTES"), "ObjectName": held})
    job: Any = ffi.new("HANDLE *")
    _check(ntdll.NtOpenJobObject(job, access, attributes), f"NtOpenJobObject {name}")
    return job[0]


def _check(code: int, operation: str) -> None:
    if code < 0:
        raise errors.HcsError(code & 0xFFFFFFFF, operation)
