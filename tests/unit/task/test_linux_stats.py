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
    "blkio": {
        "io_service_bytes_recursive": [{"op": "Read", "device": "/dev/sda", "major": 8, "minor": 1, "value": 4096}],
        "sectors_recursive": [{"major": 8, "value": 2}],
    },
    "rdma": {"current": [{"device": "mlx0", "hca_handles": 1, "hca_objects": 2}]},
    "network": [{"name": "eth0", "rx_bytes": 11, "tx_dropped": 12}],
    "cgroup_stats": {"nr_running": 3},
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
    assert decoded.blkio is not None and decoded.rdma is not None and decoded.cgroup_stats is not None
    read = decoded.blkio.io_service_bytes_recursive[0]
    assert (read.op, read.device, read.major, read.minor, read.value) == ("Read", "/dev/sda", 8, 1, 4096)
    assert [entry.value for entry in decoded.blkio.sectors_recursive] == [2]
    assert (decoded.rdma.current[0].device, decoded.rdma.current[0].hca_objects, decoded.rdma.limit) == ("mlx0", 2, [])
    assert (decoded.network[0].name, decoded.network[0].rx_bytes, decoded.network[0].tx_dropped) == ("eth0", 11, 12)
    assert decoded.cgroup_stats.nr_running == 3


def test_metrics_have_the_guests_empty_parts_and_no_others() -> None:
    """A guest whose cgroups count no block I/O yet reports an empty part."""
    found = metrics({"LCOWMetrics": {"blkio": {}, "rdma": {}}})
    assert found.blkio is not None and found.rdma is not None
    assert found.cgroup_stats is None and found.network == []
    assert metrics({"LCOWMetrics": {}}).blkio is None


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
