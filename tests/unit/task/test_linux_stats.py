"""Stats of Linux containers from their guest's JSON, OOM events and signals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.api import cgroups_v1
from shim.task.signals import linux_signal
from shim.task.stats.linux_messages import metrics, oom_kills
from shim.ttrpc import status
from shim.ttrpc.status import StatusError

GIVEN: dict[str, Any] = {
    "hugetlb": [{"usage": 1, "max": 2, "failcnt": 3, "pagesize": "2MB"}],
    "pids": {"current": 4},
    "cpu": {
        "usage": {"total": 30, "kernel": 10, "user": 20, "per_cpu": [15, 15]},
        "throttling": {"periods": 7, "throttled_periods": 2, "throttled_time": 9},
    },
    "memory": {"cache": 1, "rss": 2, "total_rss": 3, "usage": {"limit": 100, "usage": 50, "max": 60}, "kernel": {}},
    "blkio": {},
    "memory_oom_control": {"oom_kill": 1},
}


def test_metrics_have_the_guests_figures() -> None:
    found = metrics({"LCOWMetrics": GIVEN})
    decoded = cgroups_v1.Metrics.decode(found.encode())
    assert decoded.hugetlb[0].pagesize == "2MB" and decoded.hugetlb[0].failcnt == 3
    assert decoded.pids is not None and decoded.pids.current == 4
    assert decoded.cpu is not None and decoded.cpu.usage is not None and decoded.cpu.throttling is not None
    assert (decoded.cpu.usage.total, decoded.cpu.usage.per_cpu) == (30, [15, 15])
    assert decoded.cpu.throttling.throttled_time == 9
    assert decoded.memory is not None and decoded.memory.usage is not None
    assert (decoded.memory.rss, decoded.memory.total_rss, decoded.memory.usage.limit) == (2, 3, 100)
    assert decoded.memory.swap is None and decoded.memory.kernel is not None
    assert decoded.memory_oom_control is not None and decoded.memory_oom_control.oom_kill == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(GIVEN)), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*GIVEN, "usage", "oom_kill"]), _JSON))
def test_metrics_of_any_json_are_a_message(document: dict[str, Any]) -> None:
    assert isinstance(metrics({"LCOWMetrics": document}).encode(), bytes)
    assert oom_kills({"LCOWMetrics": document}) in (None, 0) or isinstance(document["memory_oom_control"], dict)


def test_oom_kills_are_unknown_if_the_guest_does_not_report_them() -> None:
    assert oom_kills({"LCOWMetrics": {}}) is None and oom_kills({}) is None
    assert oom_kills({"LCOWMetrics": {"memory_oom_control": {}}}) == 0
    assert oom_kills({"LCOWMetrics": GIVEN}) == 1


@pytest.mark.parametrize(("signal", "sent"), [(1, 1), (15, 15), (31, 31), (9, None)])
def test_signal_of_a_linux_process_is_its_number(signal: int, sent: int | None) -> None:
    assert linux_signal(signal) == sent


@pytest.mark.parametrize("signal", [0, 32, 34, 64])
def test_signal_that_linux_guests_do_not_take_is_refused(signal: int) -> None:
    with pytest.raises(StatusError, match=f"signal {signal}: invalid signal value") as refused:
        linux_signal(signal)
    assert refused.value.code == status.FAILED_PRECONDITION
