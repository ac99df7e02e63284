"""GUID structures of the C interface, without importing `uuid`."""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ZERO = "00000000-0000-0000-0000-000000000000"


def to_native(value: str, operation: str) -> Any:
    """A new `GUID *` for its text, with or without braces."""
    digits = value.strip("{}").replace("-", "")
    try:
        if len(digits) != 32:
            raise ValueError(value)
        raw = bytes.fromhex(digits)
    except ValueError as cause:
        detail = f"{value!r} is no GUID"
        raise errors.HcsError(errors.INVALID_ARGUMENT, operation, detail=detail) from cause
    guid: Any = ffi.new("GUID *")
    guid.Data1 = int.from_bytes(raw[0:4], "big")
    guid.Data2 = int.from_bytes(raw[4:6], "big")
    guid.Data3 = int.from_bytes(raw[6:8], "big")
    for index in range(8):
        guid.Data4[index] = raw[8 + index]
    return guid


def to_text(guid: Any) -> str:
    """Lower case, no braces, as in HCS documents."""
    tail = bytes(guid.Data4).hex()
    return f"{guid.Data1:08x}-{guid.Data2:04x}-{guid.Data3:04x}-{tail[:4]}-{tail[4:]}"
