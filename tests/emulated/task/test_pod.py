"""A process-isolated pod in one shim: its sandbox and workloads, as CRI marks them by annotations."""

from __future__ import annotations

from typing import Any

from shim.api.types import Status
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims, refused

TERMINATED = 0xFFFFFFFF
SLEEP = ("sleep", "600")


def marked(spec: dict[str, Any], kind: str, pod: str = "pod") -> dict[str, Any]:
    annotations = {"io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": pod}
    return {**spec, "annotations": annotations}


def sandbox(shims: Shims) -> Shim:
    shim = shims.start("pod", marked(shims.spec(*SLEEP), "sandbox"))
    shim.run(rootfs=shims.rootfs())
    return shim


def workload(shims: Shims, name: str, *args: str) -> Shim:
    return shims.start(name, marked(shims.spec(*args), "container"))


def test_pod_with_two_workloads(shims: Shims, emulator: Emulator) -> None:
    pod = sandbox(shims)
    first = workload(shims, "w1", "sh", "-c", "exit 4")
    second = workload(shims, "w2", *SLEEP)
    assert first.address == second.address == pod.address
    assert first.pid == second.pid == pod.pid
    first.run(rootfs=shims.rootfs())
    second.run(rootfs=shims.rootfs())
    assert first.wait().exit_status == 4
    assert first.delete().exit_status == 4
    refused(status.NOT_FOUND, first.delete)
    first.shutdown()
    assert first.delete_command().exit_status == 4
    assert pod.state().status == second.state().status == Status.RUNNING
    assert {system["Id"] for system in emulator.control("status")["systems"]} == {"pod", "w2"}
    assert second.stats().type_url == "io.containerd.cgroups.v2.Metrics"

    pod.kill(9, all=True)
    assert second.wait().exit_status == TERMINATED
    assert pod.wait().exit_status == TERMINATED
    second.delete()
    pod.delete()
    assert emulator.control("status")["systems"] == []
    pod.shutdown()
    pod.wait_exited()
    shims.events.expect(["create pod", "start pod", "exit pod", "delete pod"], "pod")
    shims.events.expect(["create w1", "start w1", "exit w1", "delete w1"], "w1")
    shims.events.expect(["create w2", "start w2", "exit w2", "delete w2"], "w2")


def test_join_with_wrong_annotations_is_refused(shims: Shims) -> None:
    pod = shims.start("pod", marked(shims.spec(*SLEEP), "sandbox"))
    joining = workload(shims, "w1", *SLEEP)
    refused(status.FAILED_PRECONDITION, joining.create, rootfs=shims.rootfs())
    pod.create(rootfs=shims.rootfs())
    assert "not running" in refused(status.FAILED_PRECONDITION, joining.create, rootfs=shims.rootfs())
    pod.start()
    joining.create(rootfs=shims.rootfs())
    refused(status.ALREADY_EXISTS, joining.create, rootfs=shims.rootfs())
    refused(status.ALREADY_EXISTS, pod.create, rootfs=shims.rootfs())
    stranger = shims.bundle("stranger", shims.spec(*SLEEP))
    refused(status.FAILED_PRECONDITION, pod.create, "stranger", str(stranger), rootfs=shims.rootfs())
    pod.kill(9)
    pod.wait()
    late = workload(shims, "late", *SLEEP)
    refused(status.FAILED_PRECONDITION, late.create, rootfs=shims.rootfs())


def test_exit_of_workload_leaves_other_running(shims: Shims) -> None:
    sandbox(shims)
    first, second = workload(shims, "w1", *SLEEP), workload(shims, "w2", *SLEEP)
    for shim in (first, second):
        shim.run(rootfs=shims.rootfs())
    first.kill(9)
    first.wait()
    first.delete()
    second.exec("e1", shims.process("sh", "-c", "exit 6"))
    second.start("e1")
    assert second.wait("e1").exit_status == 6
    eventually(lambda: "delete w1" in shims.events.received("w1"), "the first workload's delete event")


def test_sandbox_with_interactive_shell_keeps_running(shims: Shims, emulator: Emulator) -> None:
    pod = shims.start("pod", marked(shims.spec("c:\\windows\\system32\\cmd.exe"), "sandbox"))
    pod.create(rootfs=shims.rootfs())
    emulator.fault("HcsCreateProcess", error=0x80070002, nth=1)
    refused(status.UNKNOWN, pod.start)
    request = emulator.journal("HcsCreateProcess")[0]
    assert "ping -t 127.0.0.1" in str(request)


def test_shutdown_of_sandbox_stops_workloads(shims: Shims, emulator: Emulator) -> None:
    pod = sandbox(shims)
    running = workload(shims, "w1", *SLEEP)
    running.run(rootfs=shims.rootfs())
    pod.shutdown()
    pod.wait_exited()
    assert emulator.control("status")["systems"] == []
