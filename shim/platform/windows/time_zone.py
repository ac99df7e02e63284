"""The time zone of Windows (GetTimeZoneInformation)."""

from __future__ import annotations

from shim.platform.windows._system_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIZE = 172  # of TIME_ZONE_INFORMATION
_INVALID = 0xFFFFFFFF


def information() -> bytes:
    """TIME_ZONE_INFORMATION; b"" if the call fails."""
    from shim.platform.hcs_library import system_library

    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    place = ffi.new(f"char[{SIZE}]")
    if kernel32.GetTimeZoneInformation(place) == _INVALID:
        return b""
    return bytes(ffi.buffer(place, SIZE))
