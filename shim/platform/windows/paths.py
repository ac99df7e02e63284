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
# Flags of GetFinalPathNameByHandle. Without _AS_OPENED the path is normalised; without _BY_VOLUME it has a drive.
_BY_VOLUME, _AS_OPENED = 1, 8
_MAX_LENGTH = 32768
_PATH_NOT_FOUND, _ACCESS_DENIED = 3, 5
_UNC = "\\\\?\\UNC\\"


def final_path(path: str) -> str:
    r"""The path with all links resolved, by volume, or `\\server\share\...` for a network share.

    A share has no volume name (ERROR_PATH_NOT_FOUND). A path is normalised by listing its parents, which a share may
    refuse: then it is the path as opened. HCS gets shares without the prefix `\\?\UNC\`
    (https://github.com/microsoft/go-winio/blob/main/pkg/fs/resolve.go).
    """
    from shim.platform.hcs_library import system_library

    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    handle = _winapi.CreateFile(native(path), 0, _SHARE_ALL, 0, _OPEN_EXISTING, _BACKUP_SEMANTICS, 0)
    try:
        buffer = ffi.new("char16_t[]", _MAX_LENGTH)
        flags = _BY_VOLUME
        while True:
            length = kernel32.GetFinalPathNameByHandleW(ffi.cast("void *", handle), buffer, _MAX_LENGTH, flags)
            if 0 < length < _MAX_LENGTH:
                found = str(ffi.string(buffer, length))
                return f"\\\\{found[len(_UNC) :]}" if found.startswith(_UNC) else found
            code, message = ffi.getwinerror()
            if code == _PATH_NOT_FOUND and flags & _BY_VOLUME:
                flags &= ~_BY_VOLUME
            elif code == _ACCESS_DENIED and not flags & _AS_OPENED:
                flags |= _AS_OPENED
            else:
                raise OSError(code, f"the final path of {path} cannot be determined: {message}")
    finally:
        _winapi.CloseHandle(handle)
