"""Resource limits of a spec or an update, as enforced on the processes of a container."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from shim.api.cgroups_v2 import Metrics
from shim.api.runhcs_stats import Statistics
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shims import Shim, Shims, refused
from tests.support.vm_image import SLEEP, VmShims

HUNGRY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1")
COMMITMENT_LIMIT = 0xC000012D
ALLOWED = "while read name value; do case $name in Cpus_allowed_list:) echo $value;; esac; done < /proc/self/status"


def limited(shims: Shims, *args: str, **resources: Any) -> dict[str, Any]:
    spec = shims.spec(*args)
    spec["windows"]["resources"] = resources
    return spec


def run(shims: Shims, name: str, spec: dict[str, Any], **fields: Any) -> Shim:
    shim = shims.start(name, spec)
    shim.create(rootfs=shims.rootfs(), **fields)
    shim.start()
    return shim


def end(shim: Shim) -> None:
    shim.kill(9)
    shim.wait()
    shim.delete()


class TestMemory:
    def test_init_exceeding_limit_publishes_oom(self, shims: Shims) -> None:
        shim = run(shims, "c1", limited(shims, *HUNGRY, memory={"limit": 64 << 20}))
        assert shim.wait().exit_status == COMMITMENT_LIMIT
        shim.delete()
        shims.events.expect(["create c1", "start c1", "oom c1", "exit c1", "delete c1"])

    def test_exec_exceeding_limit_publishes_oom(self, shims: Shims) -> None:
        shim = run(shims, "c1", limited(shims, *SLEEP, memory={"limit": 64 << 20}))
        shim.exec("e1", shims.process(*HUNGRY))
        shim.start("e1")
        assert shim.wait("e1").exit_status == COMMITMENT_LIMIT
        eventually(lambda: shims.events.received("c1")[-2:] == ["oom c1", "exit e1"], "TaskOOM before the exec's exit")
        assert shim.state().status == 2  # the container runs on
        end(shim)

    def test_workload_in_vm_exceeding_limit_publishes_oom(self, vms: VmShims) -> None:
        pod = vms.pod()
        spec = vms.spec(*HUNGRY, pod="pod", role="container")
        spec["windows"]["resources"] = {"memory": {"limit": 64 << 20}}
        shim = vms.shims.start("w1", spec)
        vms.create(shim)
        shim.start()
        assert shim.wait().exit_status == COMMITMENT_LIMIT
        shim.delete()
        vms.events.expect(["create w1", "start w1", "oom w1", "exit w1", "delete w1"], "w1")
        assert pod.state().status == 2

    def test_no_oom_without_limit(self, shims: Shims) -> None:
        shim = run(shims, "c1", shims.spec(*HUNGRY))
        assert shim.wait().exit_status == 0
        shim.delete()
        shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"])

    def test_update_raises_limit(self, shims: Shims) -> None:
        """An allocation that was killed before the update succeeds after it, and stats report the limit."""
        del shims.env["MAX_SHIM_VERSION"]  # as containerd 1.6, whose clients read cgroup metrics
        shim = run(shims, "c1", limited(shims, *SLEEP, memory={"limit": 64 << 20}))
        assert _limit(shim) == 64 << 20
        shim.update({"memory": {"limit": (512 << 20) - 1}})
        assert _limit(shim) == 512 << 20
        shim.exec("e1", shims.process(*HUNGRY))
        shim.start("e1")
        assert shim.wait("e1").exit_status == 0
        end(shim)


def _limit(shim: Shim) -> int:
    answer = shim.stats()
    assert answer.type_url == Metrics.FULL_NAME
    memory = Metrics.decode(answer.value).memory
    assert memory is not None
    return memory.usage_limit


def test_update_resizes_vm(vms: VmShims) -> None:
    """Before and after, as Stats reports it."""
    shim = vms.run("c1", *SLEEP)

    def assigned() -> int:
        answer = shim.stats()
        vm = Statistics.decode(answer.value).vm
        assert vm is not None and vm.memory is not None and vm.memory.vm_memory is not None
        return vm.memory.vm_memory.assigned_memory * 4096

    assert assigned() == 1 << 30
    shim.update({"memory": {"limit": 3 << 30}})
    assert assigned() == 3 << 30
    end(shim)


class TestAffinity:
    """Which processors a container's processes may use, by the container's job."""

    ONLY_FIRST = {"affinity": [{"mask": 1, "group": 0}]}

    def test_affinity_of_spec_applies_to_init(self, shims: Shims, emulator: Emulator) -> None:
        out = _listen(shims, "out")
        shim = run(shims, "c1", limited(shims, "sh", "-c", ALLOWED, cpu=self.ONLY_FIRST), stdout=out.path)
        assert shim.wait().exit_status == 0
        assert out.text() == "0\n"
        calls = [entry.get("call") for entry in emulator.journal()]
        expected = ["HcsCreateComputeSystem", "NtOpenJobObject", "NtSetInformationJobObject", "HcsStartComputeSystem"]
        assert [call for call in calls if call in expected] == expected
        shim.delete()

    def test_update_changes_affinity(self, shims: Shims) -> None:
        shim = run(shims, "c1", shims.spec(*SLEEP))
        shim.update({"cpu": self.ONLY_FIRST})
        out = _listen(shims, "out")
        shim.exec("e1", shims.process("sh", "-c", ALLOWED), stdout=out.path)
        shim.start("e1")
        assert shim.wait("e1").exit_status == 0
        assert out.text() == "0\n"
        shim.update({"cpu": {**self.ONLY_FIRST, "count": 1}})
        refused(status.UNKNOWN, shim.update, {"cpu": {**self.ONLY_FIRST, "count": 1, "shares": 5}})
        end(shim)

    @pytest.mark.parametrize("entry", [{"mask": 0}, {"mask": 1 << 63}, {"mask": 1, "group": 3}])
    def test_affinity_of_missing_processors_is_refused(
        self, shims: Shims, emulator: Emulator, entry: dict[str, int]
    ) -> None:
        shim = shims.start("c1", limited(shims, *SLEEP, cpu={"affinity": [entry]}))
        assert "cpu affinity" in refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs()).lower()
        eventually(lambda: not emulator.control("status")["systems"], "nothing left of the container")

    def test_affinity_error_of_ntdll_names_the_processors(self, shims: Shims) -> None:
        shim = shims.start("c1", limited(shims, *SLEEP, cpu={"affinity": [{"mask": 1 << 63}]}))
        message = refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())
        assert "no such processors as 0x8000000000000000 of group 0" in message

    def test_processor_groups_on_older_build_are_refused(self, start_emulator: Callable[..., Emulator]) -> None:
        shims = Shims(start_emulator("--build", "19045").env)
        try:
            shim = shims.start("c1", limited(shims, *SLEEP, cpu={"affinity": [{"mask": 1, "group": 1}]}))
            assert "20348" in refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())
        finally:
            shims.close()

    def test_update_in_vm_is_unimplemented(self, vms: VmShims) -> None:
        pod = vms.pod()
        shim = vms.run_in(pod, "w1", *SLEEP)
        assert "hypervisor-isolated" in refused(status.UNIMPLEMENTED, shim.update, {"cpu": self.ONLY_FIRST})


class _Listening(Reader):
    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


def _listen(shims: Shims, name: str) -> _Listening:
    path = str(shims.directory / name)
    os.mkfifo(path)
    return _Listening(path)
