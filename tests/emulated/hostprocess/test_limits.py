"""Host process containers: limits and stats of the job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.api.runhcs_stats import Statistics
from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.hostprocess import SLEEP_LOOP, Jobs, program
from tests.support.shims import refused

HUNGRY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1")
ALLOWED = "while read name value; do case $name in Cpus_allowed_list:) echo $value;; esac; done < /proc/self/status"


def group_file(pid: int, controller: str, *names: str) -> str:
    """A file of the control group that a process is in, of version 1 or 2."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for root in (f"/sys/fs/cgroup/{controllers}", f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
            for name in names:
                if controller in controllers.split(",") or not controllers:
                    file = Path(f"{root}{path}/{name}")
                    if file.exists():
                        return file.read_text().strip()
    raise AssertionError(f"process {pid} is in no group of {controller}")


class TestLimits:
    def test_memory_limit_is_enforced(self, jobs: Jobs) -> None:
        spec_windows = {"resources": {"memory": {"limit": 64 << 20}}}
        shim, _ = jobs.create("c1", *HUNGRY, windows=spec_windows)
        shim.start()
        assert shim.wait().exit_status != 0
        shim.delete()
        jobs.events.expect(["create c1", "start c1", "oom c1", "exit c1", "delete c1"])

    def test_update_raises_memory_limit(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", windows={"resources": {"memory": {"limit": 64 << 20}}})
        shim.update({"memory": {"limit": 600 << 20}})
        jobs.exec(shim, "e1", *HUNGRY)
        assert "oom c1" not in jobs.events.received()

    @pytest.mark.parametrize(
        ("cpu", "share"), [({"count": 1}, 1 / (os.cpu_count() or 1)), ({"maximum": 2500}, 0.25), ({}, 0)]
    )
    def test_processor_limit_is_enforced(self, jobs: Jobs, cpu: dict[str, int], share: float) -> None:
        shim = jobs.run_detached("c1", windows={"resources": {"cpu": cpu, "memory": {"limit": 1 << 30}}})
        if share:
            quota = group_file(shim.state().pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0]
            assert int(quota) == int(share * 100_000 * (os.cpu_count() or 1))
        shim.update({"cpu": {"maximum": 5000}})
        quota = group_file(shim.state().pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0]
        assert int(quota) == 50_000 * (os.cpu_count() or 1)

    def test_affinity_is_enforced(self, jobs: Jobs) -> None:
        resources = {"cpu": {"affinity": [{"mask": 1, "group": 0}]}}
        shim = jobs.run_detached("c1", windows={"resources": resources})
        assert jobs.exec(shim, "e1", "sh", "-c", ALLOWED) == "0\n"
        shim.update({"cpu": {"affinity": [{"mask": 2, "group": 0}]}})
        assert jobs.exec(shim, "e2", "sh", "-c", ALLOWED) == "1\n"
        missing = {"cpu": {"affinity": [{"mask": 1 << 60}]}}
        other = jobs.shims.start("c2", jobs.spec("sh", windows={"resources": missing}))
        assert "affinity" in refused(status.UNKNOWN, other.create, rootfs=jobs.rootfs)


class TestStats:
    def test_stats_cover_the_job(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 1000 & " + SLEEP_LOOP)
        before = Statistics.decode(shim.stats().value).windows
        assert before is not None and before.processor is not None and before.memory is not None
        assert before.processor.total_runtime_ns > 0 and before.memory.memory_usage_private_working_set_bytes > 0
        pids = {process.pid for process in shim.pids()}
        assert shim.state().pid in pids and os.getpid() not in pids and shim.pid not in pids
        eventually(lambda: {"sh", "sleep"} <= {program(process.pid) for process in shim.pids()}, "programs of the job")
        jobs.exec(shim, "e1", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        after = Statistics.decode(shim.stats().value).windows
        assert after is not None and after.processor is not None
        assert after.processor.total_runtime_ns > before.processor.total_runtime_ns  # of one that has ended
        shim.kill(9)
        shim.wait()
        last = Statistics.decode(shim.stats().value).windows
        assert last is not None and last.processor is not None
        assert last.processor.total_runtime_ns >= before.processor.total_runtime_ns
        shim.delete()
