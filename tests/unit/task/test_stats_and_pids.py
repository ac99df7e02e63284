"""Stats, Pids, Update and the exit record: the conversion of documents and messages."""

from __future__ import annotations

import datetime
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.api import cgroups_v2, runc_options, runhcs_options, runhcs_stats
from shim.api import task as api
from shim.api.wellknown import Timestamp
from shim.platform import client_quirks
from shim.task import exit_record
from shim.task.stats.hcs_time import timestamp
from shim.task.stats.messages import cgroup_metrics, statistics, windows_statistics
from shim.task.update.container import modify_requests
from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.support.eventually import eventually
from tests.unit.task.fakes import Harness

STATISTICS: dict[str, Any] = {
    "Timestamp": "2026-08-20T09:15:02.1234567Z",
    "ContainerStartTime": "2026-08-20T09:00:00.0000000Z",
    "Uptime100ns": 9021234567,
    "Processor": {"TotalRuntime100ns": 31250000, "RuntimeUser100ns": 20312500, "RuntimeKernel100ns": 10937500},
    "Memory": {
        "MemoryUsageCommitBytes": 73400320,
        "MemoryUsageCommitPeakBytes": 94371840,
        "MemoryUsagePrivateWorkingSetBytes": 41943040,
    },
    "Storage": {
        "ReadCountNormalized": 812,
        "ReadSizeBytes": 13312000,
        "WriteCountNormalized": 140,
        "WriteSizeBytes": 7,
    },
}
LISTED: list[dict[str, Any]] = [
    {
        "ProcessId": 100, "ImageName": "cmd.exe", "CreateTimestamp": "2026-08-20T09:00:01.5Z", "UserTime100ns": 156250,
        "KernelTime100ns": 312500, "MemoryCommitBytes": 2457600, "MemoryWorkingSetPrivateBytes": 1040384,
        "MemoryWorkingSetSharedBytes": 2883584,
    },
    {"ProcessId": 101, "ImageName": "ping.exe"},
    {"ProcessId": 7777, "ImageName": "child.exe"},
]  # fmt: skip


def stats(shim: Harness) -> runhcs_stats.WindowsContainerStatistics:
    answer = api.StatsResponse.decode(shim.call("Stats", api.StatsRequest(id="c1")))
    assert answer.stats is not None and answer.stats.type_url == "containerd.runhcs.stats.v1.Statistics"
    windows = runhcs_stats.Statistics.decode(answer.stats.value).windows
    assert windows is not None
    return windows


def pids(shim: Harness) -> list[tuple[int, Any]]:
    answer = api.PidsResponse.decode(shim.call("Pids", api.PidsRequest(id="c1")))
    return [(process.pid, process.info) for process in answer.processes]


def code(call: Any, *args: Any) -> int:
    with pytest.raises(StatusError) as caught:
        call(*args)
    return caught.value.code


class TestTimestamp:
    @given(st.datetimes(min_value=datetime.datetime(1601, 1, 1), max_value=datetime.datetime(9999, 12, 31)))
    def test_valid_timestamp(self, when: datetime.datetime) -> None:
        text = when.strftime("%H:%M:%S.%f")
        found = timestamp(f"{when.year:04d}-{when.month:02d}-{when.day:02d}T{text}7Z")
        seconds = (when.replace(microsecond=0) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
        assert found == Timestamp(seconds=seconds, nanos=when.microsecond * 1000 + 700)

    @pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00.xZ"])
    def test_invalid_timestamp_is_none(self, text: str) -> None:
        assert timestamp(text) is None


class TestStats:
    def test_units_are_converted(self) -> None:
        packed = statistics(windows_statistics(STATISTICS))
        windows = runhcs_stats.Statistics.decode(packed.value).windows
        assert windows == runhcs_stats.WindowsContainerStatistics(
            timestamp=Timestamp(seconds=1787217302, nanos=123456700),
            container_start_time=Timestamp(seconds=1787216400),
            uptime_ns=902123456700,
            processor=runhcs_stats.WindowsContainerProcessorStatistics(
                total_runtime_ns=3125000000, runtime_user_ns=2031250000, runtime_kernel_ns=1093750000
            ),
            memory=runhcs_stats.WindowsContainerMemoryStatistics(
                memory_usage_commit_bytes=73400320,
                memory_usage_commit_peak_bytes=94371840,
                memory_usage_private_working_set_bytes=41943040,
            ),
            storage=runhcs_stats.WindowsContainerStorageStatistics(
                read_count_normalized=812, read_size_bytes=13312000, write_count_normalized=140, write_size_bytes=7
            ),
        )

    def test_missing_members_are_zero(self) -> None:
        windows = windows_statistics({"Uptime100ns": 1})
        assert windows.uptime_ns == 100
        assert windows.processor == runhcs_stats.WindowsContainerProcessorStatistics()

    def test_cgroup_metrics(self) -> None:
        packed = cgroup_metrics(STATISTICS, 3)
        assert packed.type_url == "io.containerd.cgroups.v2.Metrics"
        metrics = cgroups_v2.Metrics.decode(packed.value)
        assert metrics.cpu is not None and metrics.memory is not None and metrics.pids is not None
        assert (metrics.cpu.usage_usec, metrics.cpu.user_usec) == (3125000, 2031250)
        assert (metrics.memory.usage, metrics.pids.current) == (73400320, 3)
        assert metrics.memory.usage_limit == (1 << 64) - 1  # none
        assert metrics.memory_events is not None  # the kubelet reads the count of OOM kills
        limited = cgroups_v2.Metrics.decode(cgroup_metrics(STATISTICS, 3, 1 << 26).value)
        assert limited.memory is not None and limited.memory.usage_limit == 1 << 26

    def test_stats_in_each_state(self, shim: Harness) -> None:
        shim.create()
        assert code(stats, shim) == status.NOT_FOUND  # no process, no stats
        container = shim.containers["c1"]
        container.answers["Statistics"] = STATISTICS
        shim.start()
        assert stats(shim).uptime_ns == 902123456700
        container.answers["Statistics"] = {**STATISTICS, "Uptime100ns": 9021234568}
        container.processes[0].exit(0)
        shim.wait()
        # The stats were sampled at the exit; HCS is not queried for a container that is torn down.
        queries = container.calls.count(("properties", "Statistics"))
        assert stats(shim).uptime_ns == 902123456800
        assert container.calls.count(("properties", "Statistics")) == queries
        shim.delete()
        assert code(stats, shim) == status.NOT_FOUND

    @pytest.mark.parametrize("patience", [60, 0])
    def test_stats_during_exit(self, shim: Harness, patience: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.task.stats.collect.LAST_STATS_TIMEOUT", patience)
        init = shim.run()
        container, io = shim.containers["c1"], shim.ios["c1"]
        container.answers["Statistics"] = STATISTICS
        io.drained.clear()
        init.exit(0)
        eventually(lambda: io.waits_for_late_client is not None)
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(stats, shim)
            if patience:
                eventually(lambda: bool(shim.pod.task("c1").stats_final._callbacks))
                io.drained.set()
            assert asking.result(30).uptime_ns == 902123456700
        queries = container.calls.count(("properties", "Statistics"))
        assert queries == 1, "by the exit, or by the Stats call that did not wait for it"
        io.drained.set()
        shim.wait()

    def test_stats_include_own_vm(self, shim: Harness) -> None:
        shim.run()
        task = shim.pod.task("c1")
        shim.containers["c1"].answers["Statistics"] = STATISTICS

        class Vm:
            def properties(self, *types: str, timeout: float | None = None) -> dict[str, Any]:
                assert task.last_stats == (None, None), "seen before the stats of its VM"
                return {"Memory": {}}

        task.vm = Vm()  # type: ignore[assignment]
        task.refresh_stats()
        assert task.last_stats == (STATISTICS, {"Memory": {}})

    def test_stats_for_clients_of_cgroup_metrics(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOMAXPROCS", "2")
        monkeypatch.delenv("MAX_SHIM_VERSION", raising=False)
        shim.create()
        shim.containers["c1"].answers["Statistics"] = STATISTICS
        shim.start()
        answer = api.StatsResponse.decode(shim.call("Stats", api.StatsRequest(id="c1")))
        assert answer.stats is not None and answer.stats.type_url == "io.containerd.cgroups.v2.Metrics"
        monkeypatch.setenv("MAX_SHIM_VERSION", "2")
        assert stats(shim).uptime_ns == 902123456700

    def test_pod_members_get_stats_for_cri(self) -> None:
        assert client_quirks.needs_cgroup_metrics(under_cri=True)


class TestPids:
    def test_init_is_listed_until_delete(self, shim: Harness) -> None:
        shim.create()
        assert [pid for pid, _ in pids(shim)] == [0]
        shim.start()
        shim.containers["c1"].answers["ProcessList"] = LISTED
        assert [pid for pid, _ in pids(shim)] == [100, 101, 7777]
        shim.containers["c1"].processes[0].exit(0)
        shim.wait()
        assert [pid for pid, _ in pids(shim)] == [100]
        shim.delete()
        assert code(pids, shim) == status.NOT_FOUND

    def test_init_is_listed_without_hcs_entry(self, shim: Harness) -> None:
        shim.run()
        assert [pid for pid, _ in pids(shim)] == [100]

    def test_runc_details(self, shim: Harness) -> None:
        shim.run()
        shim.run_exec("e1")
        shim.containers["c1"].answers["ProcessList"] = LISTED
        infos = [info for _, info in pids(shim)]
        names = [None if info is None else runc_options.ProcessDetails.decode(info.value).exec_id for info in infos]
        assert names == ["c1", "e1", None]

    def test_runhcs_details(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.task.stats.pids.accepts_runhcs_process_details", lambda: True)
        shim.run()
        shim.run_exec("e1")
        shim.containers["c1"].answers["ProcessList"] = LISTED
        (_, init), (_, exec_), (_, child) = pids(shim)
        assert init.type_url == "containerd.runhcs.v1.ProcessDetails"
        assert runhcs_options.ProcessDetails.decode(init.value) == runhcs_options.ProcessDetails(
            image_name="cmd.exe", created_at=Timestamp(seconds=1787216401, nanos=500000000), kernel_time_100_ns=312500,
            memory_commit_bytes=2457600, memory_working_set_private_bytes=1040384,
            memory_working_set_shared_bytes=2883584, process_id=100, user_time_100_ns=156250, exec_id="c1",
        )  # fmt: skip
        assert runhcs_options.ProcessDetails.decode(exec_.value).exec_id == "e1"
        assert runhcs_options.ProcessDetails.decode(child.value).exec_id == ""

    def test_process_without_creation_time_has_the_zero_time(
        self, shim: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As Microsoft's shim sends it: Linux guests report no times."""
        monkeypatch.setattr("shim.task.stats.pids.accepts_runhcs_process_details", lambda: True)
        shim.run()
        shim.containers["c1"].answers["ProcessList"] = [{"ProcessId": 100}]
        ((_, init),) = pids(shim)
        assert runhcs_options.ProcessDetails.decode(init.value).created_at == Timestamp(seconds=-62135596800)


class TestUpdate:
    @pytest.mark.parametrize(
        ("kind", "value", "expected"),
        [
            ("WindowsResources", b"{}", []),
            ("WindowsResources", b'{"memory": {"limit": 536870912}}', [("Container/Memory/SizeInMB", 512)]),
            ("WindowsResources", b'{"memory": {"limit": 1}}', [("Container/Memory/SizeInMB", 2)]),
            ("WindowsResources", b'{"cpu": {"count": 64}}', [("Container/Processor", {"Count": 4})]),
            ("WindowsResources", b'{"cpu": {"shares": 500}}', [("Container/Processor", {"Weight": 500})]),
            ("LinuxResources", b'{"memory": {"limit": -1}, "cpu": {}}', []),
            ("LinuxResources", b'{"memory": {}}', []),
            (
                "LinuxResources",
                b'{"cpu": {"quota": 50000, "period": 100000, "shares": 512}}',
                [("Container/Processor", {"Maximum": 1250})],
            ),
            ("LinuxResources", b'{"cpu": {"shares": 512}}', [("Container/Processor", {"Weight": 512})]),
        ],
    )
    def test_limits_become_modify_requests(self, kind: str, value: bytes, expected: list[Any]) -> None:
        requests = list(modify_requests(kind, value, 4))
        assert [(request["ResourcePath"], request["Settings"]) for request in requests] == expected
        assert all(request["RequestType"] == "Update" for request in requests)

    def test_mount_becomes_modify_request(self, tmp_path: Path) -> None:
        os.symlink(tmp_path, tmp_path / "link")
        source = str(tmp_path / "link")
        value = f'{{"HostPath": "{source}", "ContainerPath": "C:\\\\hot", "ReadOnly": true}}'.encode()
        settings = {"HostPath": str(tmp_path), "ContainerPath": "C:\\hot", "ReadOnly": True}
        assert list(modify_requests("ContainerMount", value, 4)) == [
            {"ResourcePath": "Container/MappedDirectories", "RequestType": "Add", "Settings": settings}
        ]

    @pytest.mark.parametrize(
        ("kind", "value", "expected"),
        [
            ("PolicyFragment", b"{}", status.UNKNOWN),
            ("ContainerMount", b'{"HostPath": "/x"}', status.UNKNOWN),
            ("ContainerMount", b'{"HostPath": "uvm://x", "ContainerPath": "y"}', status.UNKNOWN),
            ("ContainerMount", b'{"HostPath": "/x", "ContainerPath": "y", "Type": "z"}', status.UNKNOWN),
        ],
    )
    def test_invalid_update_is_refused(self, kind: str, value: bytes, expected: int) -> None:
        assert code(lambda: list(modify_requests(kind, value, 4))) == expected


class TestExitRecord:
    def test_exit_record_round_trip(self, tmp_path: Path) -> None:
        assert exit_record.read(str(tmp_path)) is None
        exit_record.write(str(tmp_path), 0xC000013A, 1787216401, 5, 4712)
        assert exit_record.read(str(tmp_path)) == (0xC000013A, 1787216401, 5, 4712)

    @pytest.mark.parametrize("text", [b"", b"1 2 3 4", b"1 2 3\n", b"a b c d\n", b"1 2 3 4 5\n"])
    def test_incomplete_exit_record_is_ignored(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / exit_record.FILE_NAME).write_bytes(text)
        assert exit_record.read(str(tmp_path)) is None
