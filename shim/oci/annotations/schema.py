"""The definition of one annotation: a str, its key, with the attributes that docs and parsers need.

The modules `container`, `vm`, `linux` and `unsupported` are the table: one row for every annotation that runhcs shims
know. Rows are keys, so code calls `annotations.number(names.PROCESSOR_COUNT)` and cannot use a key that is not in the
table; `docs/reference/annotations.md` is generated from the same rows.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

INT32 = 0x7FFFFFFF
UINT32 = 0xFFFFFFFF
UINT64 = 0xFFFFFFFFFFFFFFFF

IGNORED = "a warning in the log; counts as absent"


class Kind:
    """The format of a value, and what happens to a malformed one."""

    __slots__ = ("maximum", "text", "wrong")

    def __init__(self, text: str, wrong: str = IGNORED, maximum: int = INT32) -> None:
        self.text = text
        self.wrong = wrong
        self.maximum = maximum


FLAG = Kind("`true` or `false` (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)")
NUMBER = Kind("whole number up to 2147483647; 0 counts as absent")
NUMBER_32 = Kind("whole number up to 4294967295; 0 counts as absent", maximum=UINT32)
NUMBER_64 = Kind("whole number up to 18446744073709551615; 0 counts as absent", maximum=UINT64)
NUMBERS = Kind("comma-separated whole numbers, no spaces", maximum=UINT32)
NUMBERS_64 = Kind("comma-separated whole numbers, no spaces", maximum=UINT64)
TEXT = Kind("text, used unchanged; empty text counts as set", "every value is valid")
TEXTS = Kind("comma-separated texts, not trimmed", "every value is valid")
GUID = Kind("GUID, 36 characters without braces", "Create fails, also for empty text")
JSON = Kind("JSON")
EXACTLY_TRUE = Kind("exactly `true`", "anything else is false")

# Which spec an annotation is read from.
CONTAINER = "container"
VM = "VM"
CONTAINER_IN_VM = "container in a VM"
WINDOWS_VM = "Windows VM"
LINUX_VM = "Linux VM"
LINUX_CONTAINER = "Linux container"
ANY = "both"

# What the shim does with it.
APPLIED = "applied"
REFUSED = "refused"
NO_EFFECT = "no effect"


class Annotation(str):
    """A key, and the rest of its row."""

    __slots__ = ("default", "effect", "kind", "outcome", "scope")

    kind: Kind
    scope: str
    effect: str
    default: str
    outcome: str

    def __new__(
        cls, key: str, kind: Kind, scope: str, effect: str, *, default: str = "", outcome: str = APPLIED
    ) -> Self:
        self = super().__new__(cls, key)
        self.kind = kind
        self.scope = scope
        self.effect = effect
        self.default = default
        self.outcome = outcome
        return self
