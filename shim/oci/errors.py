"""What is wrong with the input, in a sentence that says where and what to do."""

from __future__ import annotations

# The kinds are containerd's own words; the task service looks its status codes up by them. Most of what can be wrong
# with a spec is of no kind, as with Microsoft's shim: clients see UNKNOWN and the sentence.
NO_KIND = ""
INVALID_ARGUMENT = "invalid argument"
FAILED_PRECONDITION = "failed precondition"
UNIMPLEMENTED = "not implemented"


class InvalidSpec(Exception):  # noqa: N818
    """A spec, options or an annotation that cannot be followed. `str()` is for the person who wrote it."""

    def __init__(self, message: str, kind: str = NO_KIND) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


class InvalidOption(InvalidSpec):
    """Runtime options that cannot be followed: whoever configured the runtime has to change them."""

    def __init__(self, message: str) -> None:
        super().__init__(message, INVALID_ARGUMENT)
