"""Lets all utility VMs use files of the host: write to a directory, for their dumps, or run a program that is shared.

HcsGrantVmGroupAccess grants reading only, and Server 2019 does not have it
(https://github.com/microsoft/hcsshim/blob/main/internal/security/grantvmgroupaccess.go).
"""

from __future__ import annotations

from shim.platform.windows._system_cffi import ffi
from shim.platform.windows.files import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# NT VIRTUAL MACHINE\\Virtual Machines.
VM_GROUP = "S-1-5-83-0"
GENERIC_ALL = 0x10000000
EVERYONE = "S-1-1-0"
GENERIC_READ_EXECUTE = 0xA0000000
_FILE_OBJECT = 1
_DACL = 4
_GRANT = 1
_INHERIT = 3  # to files and directories
_IS_SID, _WELL_KNOWN_GROUP = 0, 5


def grant(path: str, group: str = VM_GROUP, rights: int = GENERIC_ALL) -> None:
    """Add access of a group, of all VMs unless another is named, inherited by what is created in a directory. Raises
    OSError."""
    from shim.platform.hcs_library import system_library

    advapi32: Any = ffi.dlopen(system_library("advapi32"))
    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    name = native(path)
    sid, dacl, descriptor, changed = (ffi.new("void **") for _ in range(4))
    try:
        if not advapi32.ConvertStringSidToSidW(group, sid):
            raise _failed(path, ffi.getwinerror()[0])
        null = ffi.NULL
        _check(path, advapi32.GetNamedSecurityInfoW(name, _FILE_OBJECT, _DACL, null, null, dacl, null, descriptor))
        entry: Any = ffi.new("EXPLICIT_ACCESS *")
        entry.Permissions, entry.Mode, entry.Inheritance = rights, _GRANT, _INHERIT
        entry.Trustee.Form, entry.Trustee.Type, entry.Trustee.Name = _IS_SID, _WELL_KNOWN_GROUP, sid[0]
        _check(path, advapi32.SetEntriesInAclW(1, entry, dacl[0], changed))
        _check(path, advapi32.SetNamedSecurityInfoW(name, _FILE_OBJECT, _DACL, null, null, changed[0], null))
    finally:
        for memory in (sid, descriptor, changed):
            if memory[0] != ffi.NULL:
                kernel32.LocalFree(memory[0])


def _check(path: str, code: int) -> None:
    if code:
        raise _failed(path, code)


def _failed(path: str, code: int) -> OSError:
    return OSError(code, f"utility VMs cannot be given access to {path}: {ffi.getwinerror(code)[1].strip()}")
