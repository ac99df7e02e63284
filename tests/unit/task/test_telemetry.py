"""When reports are sent to the node agent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from shim import spans, telemetry
from tests.support.eventually import eventually


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Any]]]:
    """The records of each report."""
    reports: list[list[Any]] = []
    monkeypatch.setattr(telemetry.Telemetry, "_send", lambda self, records, dropped: reports.append(records))
    yield reports
    spans.disable()


def test_report_waits_for_the_end_of_a_call(sent: list[list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MAX_DELAYS", 1 << 30)
    reporter = telemetry.Telemetry("unix:///nowhere", {}, delay=0.01)
    spans.enable(reporter.add)
    began, end = threading.Event(), threading.Event()

    def call() -> None:
        with spans.task_span("rpc Create", "c1"):
            began.set()
            assert end.wait(60)

    thread = threading.Thread(target=call)
    thread.start()
    assert began.wait(60)
    with spans.task_span("rpc State", "c1"):
        pass
    eventually(lambda: reporter._running, "the sender")
    assert not sent
    end.set()
    thread.join()
    eventually(lambda: sent, "the report")
    assert [root.name for report in sent for root in report] == ["rpc State", "rpc Create"]
    reporter.close()


def test_report_is_not_delayed_for_ever(sent: list[list[Any]]) -> None:
    """A call that never ends, such as one that HCS does not answer."""
    reporter = telemetry.Telemetry("unix:///nowhere", {}, delay=0.001)
    spans.enable(reporter.add)
    began, end = threading.Event(), threading.Event()

    def call() -> None:
        with spans.task_span("rpc Start", "c1"):
            began.set()
            assert end.wait(60)

    thread = threading.Thread(target=call)
    thread.start()
    assert began.wait(60)
    with spans.task_span("rpc State", "c1"):
        pass
    eventually(lambda: sent, "the report, although Start runs")
    end.set()
    thread.join()
    reporter.close()
