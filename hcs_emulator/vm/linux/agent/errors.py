"""Failures of requests as gcs reports them, and failures that end gcs."""

from __future__ import annotations

import os
import sys

E_NOTIMPL = 0x80004001
E_FAIL = 0x80004005
INVALID_ARGUMENT = 0x80070057
NOT_FOUND = 0x80070490
INVALID_STATE = 0x80370105
TIMEOUT = 0xC0370109
UNSUPPORTED_VERSION = 0xC037010C
INVALID_JSON = 0xC037010D
SYSTEM_NOT_FOUND = 0xC037010E
SYSTEM_ALREADY_EXISTS = 0xC037010F
SYSTEM_ALREADY_STOPPED = 0xC0370110


class GuestError(Exception):
    """A failed request: the response's result and text."""

    def __init__(self, message: str, hresult: int = E_FAIL) -> None:
        super().__init__(message)
        self.hresult = hresult

    def within(self, context: str) -> GuestError:
        """The same failure with its context in front, as gcs wraps errors."""
        return GuestError(f"{context}: {self}", self.hresult)


class RuleError(GuestError):
    """The host broke a rule that gcs does not check; see `rules`."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"strict guest: rule {rule}: {message}", INVALID_ARGUMENT)
        self.rule = rule


def with_code(hresult: int, text: str = "") -> GuestError:
    """A failure that is a code, with the words that gcs gives it."""
    return GuestError(f"HRESULT 0x{hresult:x}: {text}" if text else f"HRESULT: 0x{hresult:x}", hresult)


def reason(error: OSError) -> str:
    """The text of an errno as Go spells it."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def failed(context: str, error: OSError) -> GuestError:
    return GuestError(f"{context}: {reason(error)}")


def panic(text: str) -> None:
    """End the agent, and with it the VM, as an unrecovered panic ends gcs."""
    try:
        os.write(2, f"panic: {text}\n\ngoroutine 1 [running]:\n".encode())
    finally:
        sys.stderr = None
        os._exit(2)


NIL = "runtime error: invalid memory address or nil pointer dereference"
