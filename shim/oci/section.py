"""A JSON object of a spec, with typed getters.

Missing, null and empty are the same; a wrong type raises an error with its path.
"""

from __future__ import annotations

from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Values = dict[str, Any]

_NAMES = {bool: "true or false", int: "a number", float: "a fraction", str: "text", list: "a list", dict: "an object"}


class Section:
    __slots__ = ("path", "values")

    def __init__(self, values: Values, path: str) -> None:
        self.values = values
        #: Where it is, for messages: `process.user`; "" is the whole document.
        self.path = path

    def where(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Present, even if empty: for objects whose presence means something."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        value = self._get(name, str, "")
        return value if isinstance(value, str) else ""

    def flag(self, name: str) -> bool:
        return bool(self._get(name, bool, False))

    def number(self, name: str) -> int:
        """A whole number that is not negative; 0 when absent."""
        value = self._get(name, int, 0)
        if not isinstance(value, int) or value < 0:
            raise InvalidSpec(f"{self.where(name)} is {value}: give a number that is not negative")
        return value

    def section(self, name: str) -> Section:
        value = self._get(name, dict, {})
        return Section(value if isinstance(value, dict) else {}, self.where(name))

    def sections(self, name: str) -> list[Section]:
        return [Section(item, where) for where, item in self._items(name, dict)]

    def texts(self, name: str) -> list[str]:
        return [item for _, item in self._items(name, str)]

    def _items(self, name: str, kind: type) -> list[tuple[str, Any]]:
        value = self._get(name, list, [])
        items = [(f"{self.where(name)}[{index}]", item) for index, item in enumerate(value)]
        for where, item in items:
            if type(item) is not kind:
                raise wrong_type(where, item, kind)
        return items

    def _get(self, name: str, kind: type, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            return default
        if type(value) is not kind:  # the exact type: a bool is no number
            raise wrong_type(self.where(name), value, kind)
        return value


def wrong_type(where: str, value: object, kind: type) -> InvalidSpec:
    return InvalidSpec(f"{where} is {_NAMES.get(type(value), 'null')}: it must be {_NAMES[kind]}")
