"""An ETW provider: registered once per process, enabled and disabled by whoever collects.

ETW calls back when a session enables the provider, with the session's level and keywords, and once more to capture
state. Until then a log line costs one comparison here.

https://learn.microsoft.com/windows/win32/api/evntprov/
"""

from __future__ import annotations

from shim.platform import tracelogging
from shim.platform.windows._etw_cffi import ffi
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.platform.tracelogging import Field

ALWAYS, CRITICAL, ERROR, WARNING, INFO, VERBOSE = range(6)

# States of EnableCallback: ControlCode of https://learn.microsoft.com/windows/win32/api/evntprov/nc-evntprov-penablecallback
_DISABLE, _ENABLE, _CAPTURE_STATE = range(3)
_SET_TRAITS = 2
# Channel of TraceLogging events.
_CHANNEL = 11
_EVENT_METADATA, _PROVIDER_METADATA = 1, 2


def _advapi32() -> Any:
    from shim.platform.hcs_library import system_library

    return ffi.dlopen(system_library("advapi32"))


class Provider:
    """Events of one provider. `write` may be called from any thread, and never raises."""

    def __init__(
        self, name: str, guid: tuple[int, int, int, bytes], on_capture_state: Callable[[], object], library: Any = None
    ) -> None:
        """`on_capture_state` is called in a thread of its own when a session asks for the provider's state."""
        self._library = library or _advapi32()
        self._on_capture_state = on_capture_state
        self._enabled = False
        self._level = 0
        # Both are ETW's to use as long as the provider is registered.
        self._traits = ffi.from_buffer(tracelogging.provider_metadata(name))
        self._callback = ffi.callback("EnableCallback", self._notified)
        provider = ffi.new("GUID *", guid)
        handle = ffi.new("uint64_t *")
        code = self._library.EventRegister(provider, self._callback, ffi.NULL, handle)
        if code:
            raise OSError(code, f"the ETW provider {name} cannot be registered: error {code}")
        self._handle = handle[0]
        # Without its traits the events are there all the same, under the provider's GUID.
        self._library.EventSetInformation(self._handle, _SET_TRAITS, self._traits, len(self._traits))

    def is_enabled(self, level: int) -> bool:
        """Whether a session collects events of this level.

        Our events have no keyword, as those of Microsoft's shim: ETW passes them to sessions with any keywords.
        """
        return self._enabled and level <= self._level

    def write(self, name: str, level: int, fields: Sequence[Field]) -> None:
        if not self.is_enabled(level):
            return
        metadata, data = tracelogging.event(name, fields)
        blobs = [(self._traits, _PROVIDER_METADATA), (ffi.from_buffer(metadata), _EVENT_METADATA)]
        if data:
            blobs.append((ffi.from_buffer(data), 0))
        descriptors = ffi.new("EVENT_DATA_DESCRIPTOR[]", len(blobs))
        for descriptor, (blob, kind) in zip(descriptors, blobs, strict=True):
            descriptor.Ptr = int(ffi.cast("uintptr_t", blob))
            descriptor.Size = len(blob)
            descriptor.Type = kind
        event = ffi.new("EVENT_DESCRIPTOR *", {"Channel": _CHANNEL, "Level": level})
        # A full buffer of a session is no reason to trouble a task: the result is not looked at, as in go-winio.
        self._library.EventWriteTransfer(self._handle, event, ffi.NULL, ffi.NULL, len(blobs), descriptors)

    def close(self) -> None:
        self._enabled = False
        self._library.EventUnregister(self._handle)

    def _notified(self, source: object, state: int, level: int, *_: object) -> None:
        """Called on a thread of ETW, or within EventRegister if a session has enabled the provider already."""
        if state == _ENABLE:
            # A session that asks for level 0 wants all levels.
            self._level = level or 255
            self._enabled = True
        elif state == _DISABLE:
            self._enabled = False
        elif state == _CAPTURE_STATE:
            run_soon(self._on_capture_state)
