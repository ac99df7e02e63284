"""Shim overhead of a call from the emulator's journal."""

from __future__ import annotations

import json

import pytest

from bench.measures.overhead import hcs_intervals, overhead_seconds, overlap


def line(time: str, milliseconds: float, call: str = "HcsStartComputeSystem") -> str:
    return json.dumps({"time": f"2026-01-02T03:04:{time}Z", "call": call, "duration_us": milliseconds * 1000})


def test_overhead_excludes_overlapping_hcs_calls_once() -> None:
    entries = [
        line("04.900000", 200),  # begins before the call: 100 ms are inside
        line("05.300000", 100),
        line("05.350000", 100),  # overlaps the one before
        line("05.360000", 10),  # inside others
        line("05.950000", 500),  # ends after the call: 50 ms
        line("08.000000", 100),
        json.dumps({"time": "2026-01-02T03:04:05.500000Z", "event": "SystemExited", "target": "x", "document": None}),
    ]
    begin = hcs_intervals([line("05.000000", 0)])[0][0]
    assert overhead_seconds(hcs_intervals(entries), begin, begin + 1) == pytest.approx(1 - 0.1 - 0.15 - 0.05)


def ending(time: str, milliseconds: float, call: str, **arguments: str) -> str:
    return json.dumps({**json.loads(line(time, milliseconds, call)), "arguments": arguments})


def exited(time: str, event: str, target: str) -> str:
    return json.dumps({"time": f"2026-01-02T03:04:{time}Z", "event": event, "target": target, "document": None})


@pytest.mark.parametrize(
    ("call", "argument", "event"),
    [
        ("HcsTerminateProcess", "process", "ProcessExited"),
        ("HcsSignalProcess", "process", "ProcessExited"),
        ("HcsShutDownComputeSystem", "computeSystem", "SystemExited"),
        ("HcsTerminateComputeSystem", "computeSystem", "SystemExited"),
    ],
)
def test_call_that_ends_its_target_lasts_until_the_exit(call: str, argument: str, event: str) -> None:
    begin = hcs_intervals([line("05.000000", 0)])[0][0]
    entries = [
        exited("04.000000", event, "one"),  # an earlier target of this name
        ending("05.000000", 10, call, **{argument: "one"}),
        exited("05.200000", event, "another"),
        exited("05.300000", event, "one"),
    ]
    assert hcs_intervals(entries) == [(begin, pytest.approx(begin + 0.3))]
    assert hcs_intervals(entries[:3]) == [(begin, pytest.approx(begin + 0.01))], "the exit is not in the journal"


def test_waiting_for_a_process_of_a_guest_is_no_hcs_time_until_it_is_killed() -> None:
    begin = hcs_intervals([line("05.000000", 0)])[0][0]
    waiting = ending("01.000000", 4500, "guest:WaitForProcess", ProcessId="7", ContainerId="c")
    other = ending("01.000000", 4200, "guest:WaitForProcess", ProcessId="8", ContainerId="c")
    kill = ending("05.000000", 10, "guest:SignalProcess", ProcessId="7", ContainerId="c")
    assert hcs_intervals([waiting]) == []
    assert hcs_intervals([other, waiting, kill]) == [(begin, pytest.approx(begin + 0.5))]


def test_exit_before_the_response_does_not_shorten_the_call() -> None:
    begin = hcs_intervals([line("05.000000", 0)])[0][0]
    entries = [
        exited("05.100000", "ProcessExited", "one"),
        ending("05.000000", 200, "HcsTerminateProcess", process="one"),
    ]
    assert hcs_intervals(entries) == [(begin, pytest.approx(begin + 0.2))]


def test_overlap_without_hcs_calls_is_zero() -> None:
    assert overlap([], 1.0, 2.0) == 0
    assert overlap([(0.0, 1.0), (2.0, 3.0)], 1.0, 2.0) == 0
