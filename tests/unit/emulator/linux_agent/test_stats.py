"""LCOWMetrics from the files of both cgroup versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hcs_emulator.vm.linux.agent import cgroups, stats
from hcs_emulator.vm.linux.agent.errors import GuestError

UNLIMITED = 0xFFFFFFFFFFFFFFFF


def write(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "ROOT", str(tmp_path))
    return tmp_path


def test_metrics_of_version_1(root: Path) -> None:
    write(root / "pids/pods/app", pids__current="3\n", pids__max="max\n")
    write(root / "cpu/pods/app", cpu__stat="nr_periods 5\nnr_throttled 2\nthrottled_time 900\n")
    usage = {
        "cpuacct__usage": "12345\n",
        "cpuacct__usage_percpu": "12000 345 \n",
        "cpuacct__stat": "user 2\nsystem 1\n",
    }
    write(root / "cpuacct/pods/app", **usage)
    write(root / "blkio/pods/app")
    write(
        root / "memory/pods/app",
        memory__stat="cache 10\nrss 20\npgpgin 3\nhierarchical_memory_limit 77\ntotal_rss 21\ndirty 0\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        memory__usage_in_bytes="30\n",
        memory__max_usage_in_bytes="40\n",
        memory__failcnt="0\n",
        memory__limit_in_bytes="77\n",
    )
    assert stats.metrics("/pods/app") == {
        "pids": {"current": 3},
        "cpu": {
            "usage": {"total": 12345, "kernel": 10_000_000, "user": 20_000_000, "per_cpu": [12000, 345]},
            "throttling": {"periods": 5, "throttled_periods": 2, "throttled_time": 900},
        },
        "memory": {
            "cache": 10,
            "rss": 20,
            "pg_pg_in": 3,
            "hierarchical_memory_limit": 77,
            "total_rss": 21,
            "usage": {"usage": 30, "max": 40, "limit": 77},
            "swap": {},
            "kernel": {},
            "kernel_tcp": {},
        },
        "memory_oom_control": {"oom_kill": 2},
        "blkio": {},
    }


def test_metrics_of_version_2(root: Path) -> None:
    write(root, cgroup__controllers="cpu memory pids\n")
    write(
        root / "pods/app",
        pids__current="2\n",
        pids__max="max\n",
        cpu__stat="usage_usec 50\nuser_usec 30\nsystem_usec 20\nnr_periods 1\nnr_throttled 1\nthrottled_usec 4\n",
        memory__stat="anon 100\nfile 200\nkernel_stack 16\nsock 8\npgfault 9\n",
        memory__current="300\n",
        memory__max="1000\n",
        memory__swap__max="max\n",
        memory__events="low 0\noom_kill 1\n",
    )
    found = stats.metrics("/pods/app")
    assert found["pids"] == {"current": 2, "limit": UNLIMITED}
    assert found["cpu"]["usage"] == {"total": 50_000, "user": 30_000, "kernel": 20_000}
    assert found["cpu"]["throttling"]["throttled_time"] == 4_000
    assert found["memory"]["rss"] == 100 and found["memory"]["cache"] == 200
    assert found["memory"]["usage"] == {"usage": 300, "limit": 1000}
    assert found["memory"]["kernel"] == {"usage": 16} and found["memory"]["kernel_tcp"] == {"usage": 8}
    assert found["memory_oom_control"] == {"oom_kill": 1}


def test_metrics_of_a_missing_group_refused(root: Path) -> None:
    (root / "memory").mkdir()
    with pytest.raises(GuestError, match="failed to load v1 cgroup /pods/none"):
        stats.metrics("/pods/none")
    write(root, cgroup__controllers="")
    with pytest.raises(GuestError, match="failed to stat v2 cgroup /pods/none"):
        stats.metrics("/pods/none")


def test_create_sets_limits_of_version_2(root: Path) -> None:
    write(root, cgroup__controllers="memory\n", cgroup__subtree_control="")
    write(root / "pods", cgroup__controllers="memory\n", cgroup__subtree_control="")
    write(root / "pods/app", memory__max="", cpu__weight="", cpu__max="")
    limits = {"memory": {"limit": 4096}, "cpu": {"shares": 1024, "quota": 50000, "period": 100000}}
    cgroups.create("/pods/app", limits)
    assert (root / "pods/app/memory.max").read_text() == "4096"
    assert (root / "pods/app/cpu.weight").read_text() == "39"
    assert (root / "pods/app/cpu.max").read_text() == "50000 100000"
