"""The language of the schema tables: a shape validates a JSON value and reports where it is wrong.

    Record({"SizeInMB": Int(1), "Processor": PROCESSOR, "QoS": since(20348, QOS)})

A shape is checked against the emulated build: members that are newer are unknown, as on a host of that build. Member
names are case-sensitive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hcs_emulator.service.errors import HCS_E_INVALID_JSON, HcsError

GUID = re.compile(r"\{?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}?\Z")


class SchemaError(Exception):
    """`path` is a JSON path such as `$.Container.Memory`; `problem` is the text before it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{problem} at {path}")
        self.path = path
        self.problem = problem


class Shape:
    """Base of all shapes. `build` is the emulated Windows build."""

    newer_than: int = 0

    def check(self, value: Any, path: str, build: int) -> None:
        raise SchemaError(path, "no value allowed")


def since(build: int, shape: Shape) -> Shape:
    """The member exists from this build on."""
    return _Since(build, shape)


class _Since(Shape):
    def __init__(self, build: int, shape: Shape) -> None:
        self.newer_than = build
        self.shape = shape

    def check(self, value: Any, path: str, build: int) -> None:
        self.shape.check(value, path, build)


class Anything(Shape):
    """Any JSON value: parts that HCS passes on without validation."""

    def check(self, value: Any, path: str, build: int) -> None:
        return


class Bool(Shape):
    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, bool):
            raise SchemaError(path, f"expected a boolean, found {kind(value)}")


class Int(Shape):
    def __init__(self, low: int = 0, high: int = 2**64 - 1) -> None:
        self.low = low
        self.high = high

    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise SchemaError(path, f"expected a number, found {kind(value)}")
        if not self.low <= value <= self.high:
            raise SchemaError(path, f"{value} is not in {self.low}..{self.high}")


class Str(Shape):
    def __init__(self, *, empty: bool = True) -> None:
        self.empty = empty

    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, str):
            raise SchemaError(path, f"expected a string, found {kind(value)}")
        if not value and not self.empty:
            raise SchemaError(path, "empty string")


class Guid(Shape):
    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, str) or not GUID.match(value):
            raise SchemaError(path, "expected a GUID")


class Enum(Shape):
    def __init__(self, *values: str) -> None:
        self.values = values

    def check(self, value: Any, path: str, build: int) -> None:
        if value not in self.values:
            raise SchemaError(path, f"{json.dumps(value)[:80]} is not one of {', '.join(self.values)}")


class ListOf(Shape):
    def __init__(self, item: Shape, *, length: int | None = None) -> None:
        self.item = item
        self.length = length

    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, list):
            raise SchemaError(path, f"expected an array, found {kind(value)}")
        if self.length is not None and len(value) != self.length:
            raise SchemaError(path, f"expected {self.length} elements, found {len(value)}")
        for index, item in enumerate(value):
            self.item.check(item, f"{path}[{index}]", build)


class MapOf(Shape):
    """An object whose keys are data: numbers as strings, GUIDs, environment variables."""

    def __init__(self, item: Shape, *, key: Shape | None = None) -> None:
        self.item = item
        self.key = key

    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, dict):
            raise SchemaError(path, f"expected an object, found {kind(value)}")
        for name, item in value.items():
            if self.key is not None:
                self.key.check(name, f"{path}.{name}", build)
            self.item.check(item, f"{path}.{name}", build)


class NumberKey(Shape):
    """Numbers used as keys are strings in the schema ("0" is a LUN)."""

    def __init__(self, high: int) -> None:
        self.high = high

    def check(self, value: Any, path: str, build: int) -> None:
        if not (isinstance(value, str) and value.isascii() and value.isdigit() and int(value) <= self.high):
            raise SchemaError(path, f"expected a number in 0..{self.high} as key")


class Record(Shape):
    """An object with known members; `required` ones must be present; `rule` may refuse combinations."""

    def __init__(
        self,
        members: Mapping[str, Shape],
        *,
        required: Iterable[str] = (),
        rule: Callable[[dict[str, Any], str], None] | None = None,
    ) -> None:
        self.members = members
        self.required = tuple(required)
        self.rule = rule

    def check(self, value: Any, path: str, build: int) -> None:
        if not isinstance(value, dict):
            raise SchemaError(path, f"expected an object, found {kind(value)}")
        for name, item in value.items():
            shape = self.members.get(name)
            if shape is None or shape.newer_than > build:
                raise SchemaError(f"{path}.{name}", "unknown member")
            shape.check(item, f"{path}.{name}", build)
        for name in self.required:
            if name not in value:
                raise SchemaError(f"{path}.{name}", "missing member")
        if self.rule is not None:
            self.rule(value, path)


def at_most_one(*names: str) -> Callable[[dict[str, Any], str], None]:
    """A rule: only one of these members may be present and nonzero."""

    def rule(value: dict[str, Any], path: str) -> None:
        present = [name for name in names if value.get(name)]
        if len(present) > 1:
            raise SchemaError(path, f"{' and '.join(present)} exclude each other")

    return rule


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a member occurs twice")
    return result


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# One for all documents: the names of attributes that a new decoder reads fill the interpreter's cache of methods.
_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constants)


def parse(text: str | None, operation: str, *, code: int = HCS_E_INVALID_JSON) -> Any:
    """JSON text as a value; raises the error that HCS returns for invalid JSON. NULL and "" are an absent document:
    None.
    """
    if text is None or text == "":
        return None
    try:
        return _DECODER.decode(text)
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:
        problem = str(error)
    raise HcsError(code, f"[{operation}] the document is not valid JSON: {problem}", data="$")


def check(
    shape: Shape, value: Any, operation: str, build: int, *, path: str = "$", code: int = HCS_E_INVALID_JSON
) -> None:
    """Refuse an invalid `value` as HCS does: the error event names the place."""
    try:
        shape.check(value, path, build)
    except SchemaError as error:
        raise HcsError(code, f"[{operation}] {error}", data=error.path, operation="Construct") from None
    except RecursionError:
        raise HcsError(code, f"[{operation}] nested too deeply at {path}", data=path) from None
