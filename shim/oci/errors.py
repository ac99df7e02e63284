"""Errors of the input, with a message that names the place and the next step."""

from __future__ import annotations

# The kinds are containerd's error names; the task service maps them to status codes. Most errors of a spec have no
# kind, as in Microsoft's shim: clients get UNKNOWN and the message.
NO_KIND = ""
INVALID_ARGUMENT = "invalid argument"
FAILED_PRECONDITION = "failed precondition"
UNIMPLEMENTED = "not implemented"


class InvalidSpec(Exception):  # noqa: N818
    """A spec, options or an annotation that cannot be applied. `str()` is for its author."""

    def __init__(self, message: str, kind: str = NO_KIND) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


class InvalidOption(InvalidSpec):
    """Runtime options that cannot be applied: containerd's configuration must change."""

    def __init__(self, message: str) -> None:
        super().__init__(message, INVALID_ARGUMENT)
