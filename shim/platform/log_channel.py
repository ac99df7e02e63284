"""The channel through which containerd reads the log, and on Windows the ETW provider."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class EventSink(Protocol):
        """Takes log entries as structured events, e.g. for ETW. `write` never blocks and never raises."""

        def write(self, nanoseconds: int, level: int, message: str, fields: dict[str, object]) -> None: ...

    class SystemSink(EventSink, Protocol):
        """One that is registered with the system until it is closed."""

        def close(self) -> None: ...


if sys.platform == "win32":
    from shim.platform.windows.log_channel import LogChannel
else:
    from shim.platform.linux.log_channel import LogChannel

__all__ = ["LogChannel", "event_sink"]


def event_sink(version: str, arguments: list[str], on_capture_state: Callable[[], object]) -> SystemSink | None:
    """Register the provider of structured log events; None where the system has none (Linux)."""
    if sys.platform != "win32":
        return None
    from shim.platform.windows.log_events import EtwSink

    return EtwSink.register(version, arguments, on_capture_state)
