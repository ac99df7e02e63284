"""The mapping of all errors of task RPCs to statuses.

Code in this package raises `StatusError` itself where it knows the class of an error, through the constructors here, so
that each message ends with the text of its class (containerd's convention: `<detail>: <class text>`). `to_status`
converts the exceptions of the packages below (HCS, OCI spec, operating system). Codes and the first words of a message
are those of Microsoft's shim: a failure of HCS or an invalid spec is UNKNOWN, with a message that names the cause.
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


def unknown(detail: str) -> StatusError:
    """For errors to which Microsoft's shim gives no class."""
    return StatusError(status.UNKNOWN, detail)


def unimplemented(detail: str) -> StatusError:
    return StatusError(status.UNIMPLEMENTED, f"{detail}: not implemented")


def deadline_exceeded(detail: str) -> StatusError:
    return StatusError(status.DEADLINE_EXCEEDED, f"{detail}: context deadline exceeded")


_NOT_IMPLEMENTED = 0x80004001
# `shim.oci` names the class by containerd's text for it.
_SPEC_CODES = {
    "invalid argument": status.INVALID_ARGUMENT,
    "failed precondition": status.FAILED_PRECONDITION,
    "not implemented": status.UNIMPLEMENTED,
}


def to_status(error: Exception) -> StatusError:
    """The status that containerd gets for an exception."""
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
    """HCS does not support the call for this kind of compute system, or on this build."""
    from shim.hcs_bindings import errors as hcs

    return hcs.is_not_supported(error) or (
        isinstance(error, hcs.HcsError) and hcs.normalise(error.code) == _NOT_IMPLEMENTED
    )


def has_no_stats(error: Exception) -> bool:
    """The compute system is not running and has no stats, which is not a failure of the host."""
    from shim.hcs_bindings import errors as hcs

    return hcs.stats_not_found(error) or hcs.is_already_stopped(error) or hcs.is_already_closed(error)
