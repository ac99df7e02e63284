"""The security descriptor of objects that the shim creates: only SYSTEM and Administrators may open them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: SDDL. Protected: no inherited entries. Generic all for Administrators and for SYSTEM.
DESCRIPTOR = "D:P(A;;GA;;;BA)(A;;GA;;;SY)"

_REVISION = 1

_created: list[Any] = []  # the structures live as long as the process


def administrators_only() -> int:
    """The address of SECURITY_ATTRIBUTES with our descriptor: the launcher's, or, in python.exe, new ones. The first
    response of a daemon needs them, and must not wait until cffi is loaded."""
    given = sys._xoptions.get("runhcs_security")
    if isinstance(given, str) and given:
        return int(given)
    from shim.platform.windows._system_cffi import ffi

    if not _created:
        from shim.platform.hcs_library import system_library

        advapi32: Any = ffi.dlopen(system_library("advapi32"))
        descriptor = ffi.new("void **")
        convert = advapi32.ConvertStringSecurityDescriptorToSecurityDescriptorW
        if not convert(DESCRIPTOR, _REVISION, descriptor, ffi.NULL):
            code, message = ffi.getwinerror()
            raise OSError(code, f"no security descriptor can be created: {message}")
        attributes = ffi.new("SECURITY_ATTRIBUTES *", (ffi.sizeof("SECURITY_ATTRIBUTES"), descriptor[0], 0))
        _created[:] = [attributes, descriptor, advapi32]
    return int(ffi.cast("uintptr_t", _created[0]))
