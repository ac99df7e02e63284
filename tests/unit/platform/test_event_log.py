"""The Application event log: entries against a recording advapi32."""

from __future__ import annotations

from typing import Any

from shim.platform import admin_events
from shim.platform.windows import event_log
from shim.platform.windows._system_cffi import ffi


class Advapi32:
    def __init__(self, opens: bool = True) -> None:
        self.opens = opens
        self.calls: list[Any] = []

    def RegisterEventSourceW(self, server: Any, source: str) -> Any:  # noqa: N802
        self.calls.append(("register", source))
        return ffi.cast("void *", 5 if self.opens else 0)

    def ReportEventW(  # noqa: N802
        self, log: Any, kind: int, category: int, event: int, user: Any, count: int, size: int, texts: Any, data: Any
    ) -> int:
        assert (kind, category, count, size) == (1, 0, 1, 0)
        self.calls.append(("report", event, ffi.string(texts[0])))
        return 1

    def DeregisterEventSource(self, log: Any) -> int:  # noqa: N802
        self.calls.append("deregister")
        return 1


def test_report_writes_one_error_entry() -> None:
    library = Advapi32()
    assert event_log.report_error(admin_events.SOURCE, admin_events.VM_LOST, "a\0b \u20ac", library)
    assert library.calls == [("register", "containerd-shim-runhcs"), ("report", 2, "ab \u20ac"), "deregister"]


def test_report_cuts_text_that_the_event_log_refuses() -> None:
    library = Advapi32()
    assert event_log.report_error(admin_events.SOURCE, 1, "x" * 100_000, library)
    assert len(library.calls[1][2]) == event_log.MAX_TEXT


def test_report_without_event_log_is_no_error() -> None:
    library = Advapi32(opens=False)
    assert not event_log.report_error(admin_events.SOURCE, 1, "x", library)
    assert library.calls == [("register", "containerd-shim-runhcs")]


def test_report_on_linux_does_nothing() -> None:
    admin_events.report(admin_events.SHIM_CRASHED, "x")
