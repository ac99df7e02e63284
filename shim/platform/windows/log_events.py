"""Log entries as ETW events of the provider that collectors of Microsoft's shim already know.

Provider `Microsoft.Virtualization.RunHCS` {0b52781f-b24d-5685-ddf6-69830ed40ec3}. Every log entry is an event
`LogrusEntry` with the fields `Message`, `Time`, the entry's own fields in the order of their names, and `error` last;
`ShimLaunched` is written once, with `Args`, `version` and `commit`. Names, types and order are those of
https://github.com/microsoft/go-winio/blob/main/pkg/etwlogrus/hook.go and of the Go shim's main.go.
"""

from __future__ import annotations

from shim.platform import tracelogging
from shim.platform.windows import etw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROVIDER = "Microsoft.Virtualization.RunHCS"
GUID = (0x0B52781F, 0xB24D, 0x5685, b"\xdd\xf6\x69\x83\x0e\xd4\x0e\xc3")

# By logrus level: panic, fatal, error, warning, info, debug, trace.
_LEVELS = (etw.ALWAYS, etw.CRITICAL, etw.ERROR, etw.WARNING, etw.INFO, etw.VERBOSE, etw.VERBOSE)
_ERROR_FIELD = "error"


class EtwSink:
    __slots__ = ("_provider",)

    def __init__(self, provider: etw.Provider) -> None:
        self._provider = provider

    @classmethod
    def register(
        cls, version: str, arguments: list[str], on_capture_state: Callable[[], object], library: Any = None
    ) -> EtwSink | None:
        """None if ETW refuses the provider: a shim without events is better than none."""
        try:
            provider = etw.Provider(PROVIDER, GUID, on_capture_state, library)
        except OSError:
            return None
        launched = [
            tracelogging.texts("Args", arguments),
            tracelogging.text("version", version),
            tracelogging.text("commit", ""),
        ]
        provider.write("ShimLaunched", etw.VERBOSE, launched)
        return cls(provider)

    def write(self, nanoseconds: int, level: int, message: str, fields: dict[str, object]) -> None:
        etw_level = _LEVELS[level]
        if not self._provider.is_enabled(etw_level):
            return
        # The error last: it is optional, and the other fields line up in a table of events.
        names = sorted(fields, key=lambda name: (name == _ERROR_FIELD, name))
        entry = [tracelogging.text("Message", message), tracelogging.file_time("Time", nanoseconds)]
        entry += [tracelogging.value(name, fields[name]) for name in names]
        self._provider.write("LogrusEntry", etw_level, entry)

    def close(self) -> None:
        self._provider.close()
