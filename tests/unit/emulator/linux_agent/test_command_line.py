"""The agent takes the command line of gcs."""

from __future__ import annotations

import pytest

from hcs_emulator.vm.linux.agent.command_line import UsageError, parse


def test_parse_default_command_line_of_a_shim() -> None:
    flags = parse(["-v4", "-log-format", "json", "-loglevel", "info", "-disable-time-sync", "-scrub-logs=false"])
    assert flags["v4"] is True and flags["log-format"] == "json" and flags["loglevel"] == "info"
    assert flags["disable-time-sync"] is True and flags["scrub-logs"] is False
    assert flags["root-mem-reserve-bytes"] == 75 << 20


def test_parse_two_dashes_and_numbers() -> None:
    flags = parse(["--gcs-mem-limit-bytes=1024", "--core-dump-location", "/tmp/%e"])
    assert flags["gcs-mem-limit-bytes"] == 1024 and flags["core-dump-location"] == "/tmp/%e"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-verbose"], "flag provided but not defined: -verbose"),
        (["-loglevel"], "flag needs an argument: -loglevel"),
        (["-v4=maybe"], 'invalid boolean value "maybe" for -v4'),
        (["-kmsgLogLevel", "x"], 'invalid value "x" for flag -kmsgLogLevel'),
    ],
)
def test_parse_invalid_flag_refused_with_the_words_of_go(arguments: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse(arguments)
