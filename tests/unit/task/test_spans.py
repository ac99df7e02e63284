"""Spans: off by default; when on, the calls and phases of each task."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bench.harness import spans as reading
from shim import spans
from shim.api.task import StartRequest


@pytest.fixture
def recording() -> Iterator[None]:
    spans.enable()
    yield
    spans.document(0, "")


class Call:
    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.metadata: list[tuple[str, str]] = []


def taken() -> list[reading.Span]:
    return reading.parse(spans.document(7, "c1").decode())


def test_spans_are_off_by_default() -> None:
    def function() -> int:
        return 1

    assert not spans.is_enabled()
    assert spans.traced("hcs X", function) is function
    assert spans.rpc("Create", lambda call: b"").__name__ == "<lambda>"
    assert spans.span("a") is spans.span("b")
    with spans.span("a"):
        pass
    assert taken() == []


def test_rpc_span_contains_its_phases(recording: None) -> None:
    hcs = spans.traced("hcs HcsThing", lambda value: value * 2)

    def handler(call: Call) -> bytes:
        with spans.span("layers"):
            assert hcs(4) == 8
        return b"answer"

    assert spans.rpc("Create", handler)(Call(StartRequest(id="c1").encode())) == b"answer"
    with spans.span("alone"):
        pass
    document = json.loads(spans.document(7, "c1"))
    assert (document["pid"], document["id"], document["unit"]) == (7, "c1", "ns")
    found = reading.parse(json.dumps(document))
    assert [(one.task, one.name) for one in found] == [
        ("c1", "hcs HcsThing"), ("c1", "layers"), ("c1", "rpc Create"), ("", "alone"),
    ]  # fmt: skip
    (call,) = reading.rpcs(found)
    assert call.method == "Create" and set(call.phases()) == {"hcs HcsThing", "layers"}
    assert 0 < call.outside_ms <= call.whole.milliseconds


def test_failed_call_has_a_span(recording: None) -> None:
    def fails(call: Call) -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        spans.rpc("Start", fails)(Call(b""))
    assert [one.name for one in taken()] == ["rpc Start"]


def test_number_of_spans_is_limited(recording: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "MAX_SPANS", 3)
    for _ in range(5):
        with spans.span("x"):
            pass
    assert len(taken()) == 3


def test_overhead_excludes_time_in_hcs() -> None:
    found = [
        reading.Span("c1", 1, "rpc Create", 0, 10_000_000),
        reading.Span("c1", 1, "layers", 1_000_000, 4_000_000),
        reading.Span("c1", 1, "hcs A", 2_000_000, 3_000_000),
        reading.Span("c1", 1, "hcs A", 5_000_000, 7_000_000),
        reading.Span("c1", 2, "hcs B", 2_000_000, 3_000_000),
    ]
    assert reading.measures(found, {"Create": 12.0}) == {
        "Create: layers": 3.0, "Create: hcs A": 3.0, "Create: in HCS": 3.0, "Create: shim overhead": 9.0,
    }  # fmt: skip
