"""The Application event log of Windows: https://learn.microsoft.com/windows/win32/eventlog/reporting-an-event"""

from __future__ import annotations

from shim.platform.windows._system_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ERROR_TYPE = 1
# ReportEventW takes 31,839 characters in one text.
MAX_TEXT = 31_000


def _advapi32() -> Any:
    from shim.platform.hcs_library import system_library

    return ffi.dlopen(system_library("advapi32"))


def report_error(source: str, event: int, message: str, library: Any = None) -> bool:
    """Whether the entry was written."""
    try:
        advapi32 = library or _advapi32()
        log = advapi32.RegisterEventSourceW(ffi.NULL, source)
        if log == ffi.NULL:
            return False
        text = ffi.new("char16_t[]", message.replace("\0", "")[:MAX_TEXT])
        texts = ffi.new("char16_t *[]", [text])
        written = advapi32.ReportEventW(log, _ERROR_TYPE, 0, event, ffi.NULL, 1, 0, texts, ffi.NULL)
        advapi32.DeregisterEventSource(log)
    except (OSError, UnicodeError):
        return False
    return bool(written)
