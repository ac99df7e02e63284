"""Strings and documents across the C boundary.

In: a Python str may be given as it is to a `PCWSTR` argument; cffi makes the UTF-16 copy (no byte order mark) and
keeps it until the call returns, and HCS copies what it keeps. Only a string that a *structure* points to must be held
by hand (`wide`).

Out: a returned document belongs to us and is freed on every path, with `LocalFree` for computecore and computestorage
and with `CoTaskMemFree` for computenetwork and vmcompute. A NULL pointer is an empty document, on success as well as
on failure.
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
    """`value`, if C can take it: a NUL inside would silently cut off what follows."""
    if "\0" in value:
        raise errors.HcsError(errors.INVALID_ARGUMENT, operation, detail="a name or path has a NUL character in it")
    return value


def wide(value: str) -> Any:
    """A UTF-16 buffer of our own; it lives as long as the caller holds it."""
    return ffi.new("char16_t[]", value)


def out() -> Any:
    """A place for a string that the callee allocates, NULL to begin with."""
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
    """The string computecore or computestorage put there, freed."""
    return _take(place, library.kernel32.LocalFree)


def take_task(place: Any) -> str:
    """The string computenetwork or vmcompute put there, freed."""
    return _take(place, library.ole32.CoTaskMemFree)


def dump(document: object) -> str:
    """A document as HCS reads it: plain JSON, no spaces, text unescaped."""
    return dumps(document)


def dump_optional(document: object) -> Any:
    """A document, or NULL for none: what options and queries want."""
    return NULL if document is None else dump(document)


def load(document: str, operation: str) -> Any:
    """What an answer says. Where HCS must answer with a document, none at all or a broken one is a failure."""
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
