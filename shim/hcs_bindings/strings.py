"""Strings and documents across the C boundary.

In: a Python str may be passed to a `PCWSTR` argument; cffi makes a UTF-16 copy (no byte order mark) that lives until
the call returns, and HCS copies what it keeps. Only a string that a *structure* points to must be kept alive by the
caller (`wide`).

Out: the caller frees a returned document, on every path, with `LocalFree` for computecore and computestorage and with
`CoTaskMemFree` for computenetwork and vmcompute. A NULL pointer is an empty document, on success and on failure.
"""

from __future__ import annotations

from shim.hcs_bindings import errors, library
from shim.hcs_bindings._hcs_cffi import ffi
from shim.lean_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NULL = ffi.NULL


def text(value: str, operation: str) -> str:
    """`value`, unless it contains a NUL, which would silently truncate it."""
    if "\0" in value:
        raise errors.HcsError(errors.INVALID_ARGUMENT, operation, detail="a name or path has a NUL character in it")
    return value


def wide(value: str) -> Any:
    """A new UTF-16 buffer; it lives as long as the caller keeps it."""
    return ffi.new("char16_t[]", value)


def out() -> Any:
    """An out parameter for a string that the callee allocates, initially NULL."""
    return ffi.new("char16_t **")


def _take(place: Any, free: Callable[[Any], object]) -> str:
    pointer = place[0]
    if pointer == NULL:
        return ""
    try:
        return str(ffi.string(pointer))
    finally:
        place[0] = NULL
        free(pointer)


def take_local(place: Any) -> str:
    """The string that computecore or computestorage returned; its memory is freed."""
    return _take(place, library.kernel32.LocalFree)


def take_task(place: Any) -> str:
    """The string that computenetwork or vmcompute returned; its memory is freed."""
    return _take(place, library.ole32.CoTaskMemFree)


def dump(document: object) -> str:
    """A document for HCS: JSON without spaces, text unescaped."""
    return dumps(document)


def dump_optional(document: object) -> Any:
    """A document, or NULL for None: for options and queries."""
    return NULL if document is None else dump(document)


def load(document: str, operation: str) -> Any:
    """Parse a result document. Raises HcsError if it is missing or broken."""
    try:
        return loads(document)
    except ValueError as cause:
        detail = f"the answer is not JSON: {document[:200]!r}" if document else "the answer is empty"
        raise errors.HcsError(errors.UNEXPECTED, operation, detail=detail) from cause


def load_object(document: str, operation: str) -> dict[str, Any]:
    loaded = load(document, operation)
    if not isinstance(loaded, dict):
        raise errors.HcsError(errors.UNEXPECTED, operation, detail=f"the answer is not an object: {document[:200]!r}")
    return loaded
