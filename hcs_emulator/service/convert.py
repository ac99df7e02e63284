"""Values from outside (JSON, TOML) as attrs classes: control requests, fault definitions, latency profiles.

Strict: an unknown or missing member and a value of another type are refused with a ValueError that names the member.
Only modules that need it import this one, inside functions: cattrs adds about 10 ms to the start of the service.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

T = TypeVar("T")


def _strict(kind: type, expected: str, *accepted: type) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"expected {expected}, not {value!r}")
        return kind(value)

    return check


CONVERTER = cattrs.Converter(forbid_extra_keys=True)
CONVERTER.register_structure_hook(bool, _strict(bool, "true or false", bool))
CONVERTER.register_structure_hook(int, _strict(int, "a whole number", int))
CONVERTER.register_structure_hook(float, _strict(float, "a number", int, float))
CONVERTER.register_structure_hook(str, _strict(str, "a string", str))


def structure(value: Any, kind: type[T], what: str) -> T:
    """`value` as an instance of the attrs class `kind`; `what` names it in error messages."""
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, not {value!r}")
    try:
        return CONVERTER.structure(value, kind)
    except (ClassValidationError, IterableValidationError) as error:
        problems = cattrs.transform_error(error, path="", format_exception=_describe)
        raise ValueError(f"{what}: {'; '.join(_place(problem) for problem in problems)}") from None


def _describe(error: BaseException, kind: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(field.name for field in attrs.fields(error.cl))
        return f"unknown member {', '.join(sorted(error.extra_fields))} (known: {known})"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return str(error)


def _place(problem: str) -> str:
    """transform_error appends "@ path"."""
    text, _, path = problem.rpartition(" @ ")
    return f"{path.lstrip('.')}: {text}" if path.strip(".") else text
