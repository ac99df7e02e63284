"""Files of virtual disks (virtdisk.dll)."""

from __future__ import annotations

from shim.hcs_bindings import errors, guid
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import kernel32, virtdisk
from shim.hcs_bindings.strings import NULL, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VHDX = 3
MICROSOFT = "ec984aec-a0f9-47e9-901f-71415a66345b"
# The parameters of version 2 require an access mask of 0.
_VERSION = 2
_NO_ACCESS = 0
_WIN32 = 0x80070000


def create_vhdx(path: str, size: int, block_size: int) -> None:
    """Create a VHDX that grows up to `size` bytes. It must not exist."""
    operation = f"failed to create virtual disk: {path}"
    kind: Any = ffi.new("VIRTUAL_STORAGE_TYPE *")
    kind.DeviceId, kind.VendorId = VHDX, guid.to_native(MICROSOFT, operation)[0]
    parameters: Any = ffi.new("CREATE_VIRTUAL_DISK_PARAMETERS *")
    parameters.Version = _VERSION
    parameters.Version2.MaximumSize, parameters.Version2.BlockSizeInBytes = size, block_size
    disk = ffi.new("HANDLE *")
    code = virtdisk.CreateVirtualDisk(kind, text(path, operation), _NO_ACCESS, NULL, 0, 0, parameters, NULL, disk)
    if code:
        raise errors.HcsError(code | _WIN32 if code < 1 << 16 else code, operation)
    kernel32.CloseHandle(disk[0])
