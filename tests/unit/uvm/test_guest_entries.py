"""The log of a guest: no name of a field forges a line, and a flood is limited."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any

import pytest

from shim.logs import INFO, TRACE, Log, format_line
from shim.uvm.gcs import guest_entries
from shim.uvm.gcs.guest_entries import MAX_FIELDS, MAX_NAME, RateLimit, safe_fields
from shim.uvm.gcs.log_forwarding import GuestLog
from shim.uvm.linux import log_connection
from shim.uvm.linux.log_connection import Entries, LogConnection
from tests.unit.task.test_logs import Lines

FORGED = 'x\ntime="2026-01-01T00:00:00Z" level=fatal msg="FORGED" module=containerd y'
HOSTILE = [FORGED, "\x1b]0;title\x07", "a level=error", "a=b", "\u202e", "\ud800", "x" * 1000, "", 'q"uote', "a\r\nb"]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def windows_log(log: Log) -> GuestLog:
    guest_log = GuestLog.__new__(GuestLog)
    guest_log._log = log.bind(**{"uvm-id": "pod@vm"})
    guest_log._rate = RateLimit(guest_log._log)
    return guest_log


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_field_name_of_windows_guest_forges_no_line(name: str) -> None:
    lines = Lines()
    windows_log(Log(lines))._emit(json.dumps({"Message": "innocent", name: "v"}).encode())
    _expect_one_plain_line(lines)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_field_name_of_linux_guest_forges_no_line(name: str) -> None:
    lines = Lines()
    Entries(Log(lines).bind(**{"uvm-id": "pod@vm"})).feed(json.dumps({"msg": "innocent", name: "v"}).encode() + b"\n")
    _expect_one_plain_line(lines)


def _expect_one_plain_line(lines: Lines) -> None:
    (line,) = lines.lines
    assert line.count("\n") == 1 and line.endswith("\n")
    assert "level=info msg=innocent" in line and line.count("level=") == 1
    assert all(char.isprintable() for char in line[:-1])
    assert "uvm-id=pod@vm" in line


def test_fields_are_limited_in_number_and_length() -> None:
    fields = safe_fields({f"name{number}": 1 for number in range(100)} | {"x" * 500: 2}, prefix="guest_")
    assert len(fields) == MAX_FIELDS and all(len(name) <= MAX_NAME + 6 for name in fields)


def test_field_cannot_replace_one_of_the_shim() -> None:
    lines = Lines()
    Entries(Log(lines).bind(**{"uvm-id": "pod@vm"})).feed(b'{"msg":"m","uvm-id":"other","tid":"other"}\n')
    assert " uvm-id=pod@vm" in lines.lines[0] and " tid=" not in lines.lines[0]
    assert "guest.uvm-id=other" in lines.lines[0] and "guest.tid=other" in lines.lines[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_log_quotes_field_name_that_is_no_word(name: str) -> None:
    line = format_line(0, INFO, "m", {name: "v"}).decode()
    assert line.count("\n") == 1 and all(char.isprintable() for char in line[:-1])


def test_flood_of_windows_guest_is_limited() -> None:
    lines, clock = Lines(), Clock()
    guest_log = windows_log(Log(lines))
    guest_log._rate = RateLimit(guest_log._log, clock)
    for _ in range(int(guest_entries.BURST) + 500):
        guest_log._emit(b'{"Message":"flood"}')
    assert len(lines.lines) == guest_entries.BURST and guest_log._rate.is_exceeded
    clock.now += 1.0
    for _ in range(500):
        guest_log._emit(b'{"Message":"flood"}')
    assert len(lines.lines) == guest_entries.BURST + guest_entries.RATE + 1
    assert any("dropped" in line and "count=500" in line for line in lines.lines)
    guest_log._rate.report()
    assert "count=300" in lines.lines[-1]


@pytest.mark.parametrize("level", ["trace", "debug", "info", "warning", "error", "fatal", "panic", "x", ["a"], None])
def test_every_level_of_windows_guest_is_logged(level: object) -> None:
    lines = Lines()
    windows_log(Log(lines, TRACE))._emit(json.dumps({"Message": "m", "Level": level}).encode())
    assert len(lines.lines) == 1 and "msg=m" in lines.lines[0]


def test_rate_limit_lets_a_steady_log_through() -> None:
    lines, clock = Lines(), Clock()
    rate = RateLimit(Log(lines), clock)
    for _ in range(10_000):
        clock.now += 1 / guest_entries.RATE
        assert rate.take(100)
    assert lines.lines == []


def _windows_entries(log: Log, clock: Clock) -> Callable[[bytes], object]:
    guest_log = windows_log(log)
    guest_log._rate = RateLimit(guest_log._log, clock)
    return guest_log._emit


def _linux_entries(log: Log, clock: Clock) -> Callable[[bytes], object]:
    entries = Entries(log, clock)
    return lambda line: entries.feed(line + b"\n")


@pytest.mark.parametrize("entries", [_windows_entries, _linux_entries])
def test_long_entries_are_limited_by_their_bytes(entries: Callable[[Log, Clock], Callable[[bytes], object]]) -> None:
    """The longest line of the log has 48 KiB: 200 of them in a second would be 9.4 MiB."""
    lines, clock = Lines(), Clock()
    feed = entries(Log(lines), clock)
    entry = json.dumps({"Message": "x" * 40_000, "msg": "x" * 20_000}).encode()
    for second in range(5):
        for _ in range(200):
            feed(entry)
        allowed = guest_entries.BYTE_BURST + second * guest_entries.BYTE_RATE
        assert allowed / 2 < sum(map(len, lines.lines)) < allowed
        clock.now += 1.0


def test_line_of_many_linux_entries_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise 256 KiB of `{}` would take the processor for seconds."""
    texts: set[int] = set()
    decode = json.JSONDecoder().raw_decode

    class Decoder:
        def raw_decode(self, text: str, position: int = 0) -> tuple[Any, int]:
            texts.add(id(text))
            return decode(text, position)

    monkeypatch.setattr(log_connection.json, "JSONDecoder", Decoder)
    lines = Lines()
    Entries(Log(lines)).feed(b'{"msg":"a"}  {"msg":"b"}{"msg":"c"} \n')
    assert [line.count(f"msg={name}") for line, name in zip(lines.lines, "abc", strict=True)] == [1, 1, 1]
    assert len(texts) == 1


class Flood:
    """A connection that delivers so much, many times."""

    def __init__(self, data: bytes, count: int) -> None:
        self.data, self.count = data, count

    def recv(self, size: int) -> bytes:
        self.count -= 1
        return self.data if self.count >= 0 else b""

    def close(self) -> None:
        pass


def _read_windows(stream: Any) -> None:
    windows_log(Log(Lines()))._read(stream)


def _read_linux(stream: Any) -> None:
    connection = LogConnection.__new__(LogConnection)
    connection._stream, connection._lock, connection._closed = stream, Lock(), False
    connection._entries = Entries(Log(Lines()))
    connection._read()


@pytest.mark.parametrize("read", [_read_windows, _read_linux])
def test_flood_of_nothing_pauses_the_reader(monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], None]) -> None:
    """Empty lines are no entries, and reading them takes a processor all the same."""
    pauses: list[float] = []
    clock = Clock()

    def monotonic() -> float:
        clock.now += 0.02
        return clock.now

    monkeypatch.setattr(guest_entries, "time", SimpleNamespace(sleep=pauses.append, monotonic=monotonic))
    monkeypatch.setattr("shim.uvm.gcs.log_forwarding.time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr("shim.uvm.linux.log_connection.time", SimpleNamespace(monotonic=monotonic))
    read(Flood(b"\n" * guest_entries.FLOOD_BYTES, 5))
    assert len(pauses) == 5
    # Nine times as long as the clock says that reading took.
    assert all(9 * 0.02 - 1e-6 <= pause <= guest_entries.LONGEST_PAUSE for pause in pauses)


def test_guest_that_connects_again_and_again_pauses_the_reader() -> None:
    connections = [Flood(b"", 0) for _ in range(5)]

    def accept(timeout: float | None) -> Flood:
        if not connections:
            raise OSError
        return connections.pop()

    guest_log = windows_log(Log(Lines()))
    guest_log._lock, guest_log._closed, guest_log._ended = Lock(), False, Event()
    guest_log._listener = SimpleNamespace(accept=accept)  # type: ignore[assignment]
    pauses: list[float] = []
    guest_log._closing = SimpleNamespace(wait=pauses.append)  # type: ignore[assignment]
    guest_log._run()
    assert pauses == [guest_entries.PAUSE_SECONDS] * 5 and guest_log._ended.is_set()
