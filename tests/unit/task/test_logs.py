"""The log: lines in the format of Go's logrus, levels, scrubbing of secrets, and the FIFO."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim import logs
from shim.logs import DEBUG, ERROR, INFO, MAX_LINE, TRACE, WARNING, LevelError, Log, format_line, parse_level
from shim.platform.log_channel import LogChannel

MOMENT = 1_700_000_000_000_000_007
TIME = 'time="2023-11-14T22:13:20.000000007Z"'


class Lines:
    """A channel that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def close(self) -> None:
        """Nothing."""


# What logrus 1.9.3 (TextFormatter without colours) writes for the same message and fields.
@pytest.mark.parametrize(
    ("level", "message", "fields", "expected"),
    [
        (INFO, "started", {}, "level=info msg=started"),
        (WARNING, "two words", {"pid": 7, "tid": "a-b.c_d"}, 'level=warning msg="two words" pid=7 tid=a-b.c_d'),
        (ERROR, "", {"b": True, "a": "", "n": None}, 'level=error a= b=true n="<nil>"'),
        (
            DEBUG,
            "tab\tnew\nline\x00\x7f",
            {"path": "/run/a@b^c+d", "q": 'say "x"', "win": "C:\\a"},
            r'level=debug msg="tab\tnew\nline\x00\x7f" path=/run/a@b^c+d q="say \"x\"" win="C:\\a"',
        ),
        (
            TRACE,
            "ünïcode",
            {"u": "é", "z": "\u200b", "w": "\U0001f600", "inv": b"a\xffb"},
            'level=trace msg="ünïcode" inv="a\\xffb" u="é" w="\U0001f600" z="\\u200b"',
        ),
        (
            INFO,
            "x=y",
            {"l": ["a", "b c"], "m": {"y": 2, "x": 1}, "f": 1.5},
            'level=info msg="x=y" f=1.5 l="[a b c]" m="map[x:1 y:2]"',
        ),
        (
            INFO,
            "clash",
            {"msg": "m", "level": "l", "time": "t", "error": ValueError("boom: no")},
            'level=info msg=clash error="boom: no" fields.level=l fields.msg=m fields.time=t',
        ),
        (INFO, "nbsp\u00a0x", {}, 'level=info msg="nbsp\\u00a0x"'),
    ],
)
def test_line_format_matches_logrus(level: int, message: str, fields: dict[str, object], expected: str) -> None:
    assert format_line(MOMENT, level, message, fields).decode() == f"{TIME} {expected}\n"


def test_lines_above_the_level_are_dropped() -> None:
    lines = Lines()
    log = Log(lines, WARNING)
    log.debug("b")
    log.info("c")
    log.warning("d")
    log.error("e")
    assert [line.partition(" msg=")[2] for line in lines.lines] == ["d\n", "e\n"]
    assert log.enabled(ERROR) and not log.enabled(INFO)


def test_bound_fields_are_in_every_line() -> None:
    lines = Lines()
    Log(lines).bind(tid="c1").bind(eid="e1").info("hello", pid=3)
    assert lines.lines[0].endswith("msg=hello eid=e1 pid=3 tid=c1\n")


@pytest.mark.parametrize("name", ["panic", "FATAL", "error", "warn", "Warning", "info", "debug", "trace"])
def test_level_names_are_parsed(name: str) -> None:
    assert 0 <= parse_level(name) <= TRACE


def test_unknown_level_is_refused_and_known_ones_listed() -> None:
    with pytest.raises(LevelError, match=r'"loud"; use one of panic, .*, trace'):
        parse_level("loud")


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [f"PASSWORD={SECRET}"]},
        {"Environment": {"PASSWORD": SECRET}},
        {"commandLine": f"login {SECRET}"},
        {"command_line": f"login {SECRET}"},
        {"args": ["login", SECRET]},
        {"document": {"Container": {"Processes": [{"CommandLine": SECRET, "Environment": {"A": SECRET}}]}}},
        {"spec": {"process": {"args": [SECRET], "env": [SECRET]}, "annotations": {"x": SECRET}}},
    ],
)
def test_secrets_are_scrubbed_at_any_depth_unless_disabled(fields: dict[str, object]) -> None:
    lines = Lines()
    Log(lines).bind(**fields).info("creating", **fields)
    assert SECRET not in lines.lines[0] and logs.SCRUBBED in lines.lines[0]
    Log(lines, scrub_secrets=False).info("creating", **fields)
    assert SECRET in lines.lines[1]


def test_long_line_is_cut_and_stays_one_line() -> None:
    line = format_line(MOMENT, INFO, "é\n" * MAX_LINE, {})
    assert len(line) < MAX_LINE + 20
    assert line.decode().count("\n") == 1


def test_unprintable_field_does_not_raise() -> None:
    class Bad:
        def __str__(self) -> str:
            raise ValueError("no")

    lines = Lines()
    Log(lines).info("x", bad=Bad())
    assert "log line could not be formatted" in lines.lines[0]


# The FIFO.


def read(descriptor: int) -> bytes:
    data = b""
    while True:
        try:
            data += os.read(descriptor, 1 << 20)
        except BlockingIOError:
            return data


def test_missing_fifo_drops_lines(tmp_path: Path) -> None:
    channel = LogChannel(str(tmp_path))
    channel.write(b"x\n")
    channel.close()
    assert not (tmp_path / "log").exists()


def test_full_fifo_does_not_block_and_loss_is_logged(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    channel = LogChannel(str(tmp_path))
    line = b"0123456789" * 50 + b"\n"
    for _ in range(1000):  # half a megabyte into a pipe of 64 KiB without a reader
        channel.write(line)
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        first = read(reader)
        assert set(first.splitlines(keepends=True)) == {line}, "whole lines only"
        channel.write(b"after\n")
        warning, after = read(reader).splitlines()
        assert warning == b'level=warning msg="log lines lost, no reader" count=%d' % (
            1000 - first.count(b"\n")
        )
        assert after == b"after"
    finally:
        os.close(reader)
        channel.close()


def test_buffered_lines_reach_the_next_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    channel = LogChannel(str(tmp_path))
    first = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    channel.write(b"one\n")
    assert read(first) == b"one\n"
    os.close(first)
    channel.write(b"two\n")
    second = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    channel.write(b"three\n")
    assert read(second) == b"two\nthree\n"
    os.close(second)
    channel.close()


def test_long_line_written_in_parts_arrives_complete(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    channel = LogChannel(str(tmp_path))
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        lines = [bytes([65 + n]) * 40_000 + b"\n" for n in range(3)]
        got = b""
        for line in lines:
            channel.write(line)
        got += read(reader)
        channel.write(b"end\n")
        got += read(reader)
        for found in got.splitlines():
            assert len(set(found)) == 1 or found == b"end" or found.startswith(b"level=warning"), "lines are not mixed"
        assert lines[0] in got and lines[1] in got and got.endswith(b"end\n")
    finally:
        os.close(reader)
        channel.close()
