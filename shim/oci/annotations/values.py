"""The annotations of one spec, parsed by the rules of Microsoft's shim
(https://github.com/microsoft/hcsshim/blob/main/internal/oci/annotations.go): a malformed value causes a warning and
counts as absent.

Precedence for any setting: annotation, then shim option (which becomes an annotation where there is none), then the
spec's own field, then the default. The option copies and the expansion happen in `shim.oci.normalize`, before anything
is read.
"""

from __future__ import annotations

from shim.oci.annotations.schema import INT32, UINT32, Annotation
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A spec that a person has written has fewer.
MAX_WARNINGS = 20

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class Annotations:
    """Getters raise only where a malformed value must fail the create. Limits and defaults are those of the table's row
    unless the call gives others."""

    __slots__ = ("_more", "_values", "_warned")

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        # Ordered, each once.
        self._warned: dict[str, None] = {}
        self._more = 0

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def set(self, key: str, value: str) -> None:
        self._values[key] = value

    def set_default(self, key: str, value: str) -> None:
        self._values.setdefault(key, value)

    def text(self, key: str, default: str = "") -> str:
        """Verbatim. An empty text counts as set: use `in` where that matters."""
        return self._values.get(key, default)

    def is_exactly_true(self, key: str) -> bool:
        """For privileges: only the text `true`."""
        return self._values.get(key) == "true"

    def flag(self, key: str, default: bool | None = None) -> bool:
        if default is None:
            default = isinstance(key, Annotation) and key.default == "true"
        value = self._values.get(key)
        if value is None:
            return default
        if value in _TRUE:
            return True
        if value not in _FALSE:
            self._ignore(key, "true or false")
            return default
        return False

    def number(self, key: str, maximum: int = 0) -> int:
        """A number from 1 to the maximum; 0 if it is absent or malformed."""
        value = self._values.get(key)
        if value is None:
            return 0
        maximum = maximum or (key.kind.maximum if isinstance(key, Annotation) else INT32)
        if not _is_number(value, maximum):
            self._ignore(key, f"a whole number up to {maximum}")
            return 0
        return int(value)

    def count(self, key: str, default: int) -> int:
        """A number from 0 to the maximum; the default if it is absent or malformed."""
        value = self._values.get(key)
        if value is None:
            return default
        maximum = key.kind.maximum if isinstance(key, Annotation) else UINT32
        if not _is_number(value, maximum):
            self._ignore(key, f"a whole number up to {maximum}")
            return default
        return int(value)

    def numbers(self, key: str, maximum: int = 0) -> list[int]:
        """Numbers between commas, without spaces: all or none."""
        value = self._values.get(key, "")
        if not value:
            return []
        maximum = maximum or (key.kind.maximum if isinstance(key, Annotation) else UINT32)
        parts = value.split(",")
        if not all(_is_number(part, maximum) for part in parts):
            self._ignore(key, f"whole numbers up to {maximum} between commas")
            return []
        return [int(part) for part in parts]

    def texts(self, key: str) -> list[str]:
        """Texts between commas, not trimmed."""
        value = self._values.get(key, "")
        return value.split(",") if value else []

    def guid(self, key: str) -> str:
        """A GUID without braces, in lower case; "" when absent. A bad one stops the create."""
        value = self._values.get(key)
        if value is None:
            return ""
        if not is_guid(value):
            raise InvalidSpec(
                f'failed to parse annotation "{key}" with value "{value}" as GUID: invalid GUID "{value}": give 36 '
                "characters without braces"
            )
        return value.lower()

    def json(self, key: str) -> object:
        """The JSON value inside, None when absent or broken."""
        value = self._values.get(key)
        if value is None:
            return None
        import json

        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            self._ignore(key, "JSON")
            return None

    def warn(self, sentence: str) -> None:
        """Add a warning for the log, once. A client may send any number of annotations: only the first are named."""
        if sentence in self._warned:
            return
        if len(self._warned) < MAX_WARNINGS:
            self._warned[sentence] = None
        else:
            self._more += 1

    @property
    def warnings(self) -> list[str]:
        """Malformed values and settings without effect, for the log."""
        if self._more:
            return [*self._warned, f"{self._more} more annotations are ignored or have no effect"]
        return list(self._warned)

    def _ignore(self, key: str, expected: str) -> None:
        # Its value is not repeated: annotations may hold secrets.
        self.warn(f"annotation {key} is ignored: its value is not {expected}")


def is_guid(text: str) -> bool:
    """36 characters, without braces."""
    parts = [len(part) for part in text.split("-")]
    return parts == [8, 4, 4, 4, 12] and all(char in "-0123456789abcdefABCDEF" for char in text)


def _is_number(text: str, maximum: int) -> bool:
    # Check the length first: parsing a megabyte of digits is slow.
    return len(text) <= 20 and text.isascii() and text.isdigit() and int(text) <= maximum
