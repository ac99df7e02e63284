"""The Windows build of this host. On Linux the emulator reports it, and may report any."""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import ntdll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_build = 0


def windows_build() -> int:
    """Queried once per process. RtlGetVersion is exact; other functions report what the manifest declares."""
    global _build
    if not _build:
        version: Any = ffi.new("RTL_OSVERSIONINFOW *")
        version.Size = ffi.sizeof("RTL_OSVERSIONINFOW")
        code = ntdll.RtlGetVersion(version)
        if code < 0:
            raise errors.HcsError(code, "RtlGetVersion")
        _build = int(version.Build)
    return _build
