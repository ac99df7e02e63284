"""The log of a guest: no name of a field forges a line, and a flood is limited."""

from __future__ import annotations

import json

import pytest

from shim.logs import INFO, TRACE, Log, format_line
from shim.uvm.gcs import guest_entries
from shim.uvm.gcs.guest_entries import MAX_FIELDS, MAX_NAME, RateLimit, safe_fields
from shim.uvm.gcs.log_forwarding import GuestLog
from shim.uvm.linux.log_connection import Entries
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
        assert rate.take()
    assert lines.lines == []
