"""The log of a Linux guest, as entries of the shim's."""

from __future__ import annotations

import json

import pytest

from shim import logs
from shim.uvm.gcs import guest_entries
from shim.uvm.linux import log_connection
from shim.uvm.linux.log_connection import Entries


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def close(self) -> None:
        pass


@pytest.fixture
def channel() -> Lines:
    return Lines()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def entries(channel: Lines, now: list[float]) -> Entries:
    return Entries(logs.Log(channel, logs.DEBUG), lambda: now[0])


def entry(message: str, level: str = "info", **fields: object) -> bytes:
    return json.dumps({"time": "2026-01-01T00:00:00Z", "level": level, "msg": message, **fields}).encode() + b"\n"


def test_entry_keeps_level_fields_and_time(entries: Entries, channel: Lines) -> None:
    entries.feed(entry("mounted", "warning", device="sda", cid="c1"))
    (line,) = channel.lines
    assert "level=warning" in line and "msg=mounted" in line and "device=sda" in line and "cid=c1" in line
    assert 'vm.time="2026-01-01T00:00:00Z"' in line


@pytest.mark.parametrize(
    ("level", "expected"),
    [("panic", "error"), ("fatal", "error"), ("error", "error"), ("debug", "debug"), ("loud", "info")],
)
def test_level_is_error_at_most(entries: Entries, channel: Lines, level: str, expected: str) -> None:
    entries.feed(entry("x", level))
    assert f"level={expected}" in channel.lines[0]


def test_entries_are_found_in_any_pieces(entries: Entries, channel: Lines) -> None:
    data = entry("one") + entry("two")[:-1] + entry("three") + entry("four")[:-1]
    for at in range(0, len(data), 7):
        entries.feed(data[at : at + 7])
    entries.end()
    assert [word for line in channel.lines for word in line.split() if word.startswith("msg=")] == [
        "msg=one", "msg=two", "msg=three", "msg=four",
    ]  # fmt: skip


def test_text_that_is_not_json_is_one_entry_at_the_end(entries: Entries, channel: Lines) -> None:
    entries.feed(entry("one") + b"panic: runtime error\n\ngoroutine 1")
    entries.feed(b" [running]:\n" + entry("two"))
    assert len(channel.lines) == 1
    entries.end()
    assert len(channel.lines) == 2
    assert "level=error" in channel.lines[1] and 'msg="gcs terminated"' in channel.lines[1]
    assert "panic: runtime error" in channel.lines[1] and "goroutine 1 [running]" in channel.lines[1]


def test_termination_and_line_are_bounded(entries: Entries, channel: Lines) -> None:
    for _ in range(64):
        entries.feed(b"x" * 65536)
    entries.end()
    (line,) = channel.lines
    assert 'msg="gcs terminated"' in line and line.count("x") <= log_connection.MAX_TERMINATION + 1


def test_end_without_text_logs_nothing(entries: Entries, channel: Lines) -> None:
    entries.feed(b"\n \n")
    entries.end()
    assert channel.lines == []


def test_entries_above_the_rate_are_counted(entries: Entries, channel: Lines, now: list[float]) -> None:
    for _ in range(int(guest_entries.BURST) + 50):
        entries.feed(entry("noise"))
    assert len(channel.lines) == guest_entries.BURST
    now[0] += 1
    entries.feed(entry("later"))
    assert "count=50" in channel.lines[-2] or "count=50" in channel.lines[-1]
    assert any("msg=later" in line for line in channel.lines[-2:])


def test_dropped_entries_are_reported_at_the_end(entries: Entries, channel: Lines) -> None:
    for _ in range(int(guest_entries.BURST) + 1):
        entries.feed(entry("noise"))
    entries.end()
    assert "count=1" in channel.lines[-1]
