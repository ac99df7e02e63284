"""The final path of a file or directory, with links resolved."""

from __future__ import annotations

import _winapi

from shim.platform.windows._system_cffi import ffi
from shim.platform.windows.files import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHARE_ALL = 7
_OPEN_EXISTING = 3
_BACKUP_SEMANTICS = 0x02000000  # needed to open a directory
_BY_VOLUME = 1
_BY_LETTER = 0
_MAX_LENGTH = 32768


def final_path(path: str) -> str:
    """The path with all links resolved, by volume, or by drive if the volume has no name (a network share)."""
    from shim.platform.hcs_library import system_library

    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    handle = _winapi.CreateFile(native(path), 0, _SHARE_ALL, 0, _OPEN_EXISTING, _BACKUP_SEMANTICS, 0)
    try:
        buffer = ffi.new("char16_t[]", _MAX_LENGTH)
        for form in (_BY_VOLUME, _BY_LETTER):
            length = kernel32.GetFinalPathNameByHandleW(ffi.cast("void *", handle), buffer, _MAX_LENGTH, form)
            if 0 < length < _MAX_LENGTH:
                return str(ffi.string(buffer, length))
        code, message = ffi.getwinerror()
        raise OSError(code, f"the final path of {path} cannot be determined: {message}")
    finally:
        _winapi.CloseHandle(handle)
