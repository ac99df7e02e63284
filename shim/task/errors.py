"""Every failure of a task RPC, turned into a status in one place.

The domain raises `StatusError` itself where it knows what went wrong, through the short constructors here, so that
each sentence ends in its class's own words (containerd's convention: `<detail>: <class text>`). What comes up from
the rooms below (HCS, the OCI reader, the operating system) is looked up in `to_status`. Codes are those of Microsoft's
shim, and so are the first words of what it says, too: what failed in HCS or is wrong with a spec is UNKNOWN, with a
sentence that names the cause.
"""

from __future__ import annotations

from shim.ttrpc import status
from shim.ttrpc.status import StatusError


def not_found(detail: str) -> StatusError:
    return StatusError(status.NOT_FOUND, f"{detail}: not found")


def already_exists(detail: str) -> StatusError:
    return StatusError(status.ALREADY_EXISTS, f"{detail}: already exists")


def failed_precondition(detail: str) -> StatusError:
    return StatusError(status.FAILED_PRECONDITION, f"{detail}: failed precondition")


def invalid_argument(detail: str) -> StatusError:
    return StatusError(status.INVALID_ARGUMENT, f"{detail}: invalid argument")


def wrong(detail: str) -> StatusError:
    """What is of no class, to Microsoft's shim."""
    return StatusError(status.UNKNOWN, detail)


def unimplemented(detail: str) -> StatusError:
    return StatusError(status.UNIMPLEMENTED, f"{detail}: not implemented")


def deadline_exceeded(detail: str) -> StatusError:
    return StatusError(status.DEADLINE_EXCEEDED, f"{detail}: context deadline exceeded")


_NOT_IMPLEMENTED = 0x80004001
# The OCI room says what is wrong in containerd's words for the class.
_SPEC_CODES = {
    "invalid argument": status.INVALID_ARGUMENT,
    "failed precondition": status.FAILED_PRECONDITION,
    "not implemented": status.UNIMPLEMENTED,
}


def to_status(error: Exception) -> StatusError:
    """The table: what containerd is told of an error that came up from below."""
    if isinstance(error, StatusError):
        return error
    from shim.api.wire import DecodeError
    from shim.hcs_bindings import errors as hcs
    from shim.oci.errors import InvalidSpec

    text = status.one_line(error)
    if isinstance(error, InvalidSpec):
        if error.kind not in _SPEC_CODES:
            return StatusError(status.UNKNOWN, text)
        return StatusError(_SPEC_CODES[error.kind], f"{text}: {error.kind}")
    if isinstance(error, DecodeError):
        return StatusError(status.INTERNAL, f"the request cannot be decoded: {text}")
    if hcs.is_timeout(error):
        return deadline_exceeded(text)
    return StatusError(status.UNKNOWN, text)


def is_not_supported(error: Exception) -> bool:
    """HCS cannot do this to that kind of system, on this build, ever: not a failure but an answer."""
    from shim.hcs_bindings import errors as hcs

    return hcs.is_not_supported(error) or (
        isinstance(error, hcs.HcsError) and hcs.normalise(error.code) == _NOT_IMPLEMENTED
    )


def has_no_stats(error: Exception) -> bool:
    """Asked for figures of a system that is not running: there are none, which is no failure of the machine."""
    from shim.hcs_bindings import errors as hcs

    return hcs.stats_not_found(error) or hcs.is_already_stopped(error) or hcs.is_already_closed(error)
