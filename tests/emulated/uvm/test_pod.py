"""A pod in a utility VM, through a real shim: the sandbox without a container, and its workloads."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from shim.api.cgroups_v2 import Metrics
from shim.api.extendedtask import ComputeProcessorInfoRequest, ComputeProcessorInfoResponse
from shim.api.types import Status
from shim.hcs_bindings import network
from shim.ttrpc import status
from tests.support.bindings import create_endpoint, reset_libraries, use
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shims import Shim, refused
from tests.support.vm_image import SLEEP, VmShims, fifo


def test_sandbox_is_vm_without_container(vms: VmShims) -> None:
    pod = vms.pod()
    assert len(vms.workers()) == 1
    assert [process.pid for process in pod.pids()] == [1]
    assert pod.state().status == Status.RUNNING and pod.state().pid == 1
    refused(status.UNIMPLEMENTED, pod.exec, "e1", vms.shims.process("cmd"))
    refused(status.NOT_FOUND, pod.start, "e1")
    refused(status.FAILED_PRECONDITION, pod.resize, 80, 25)
    refused(status.FAILED_PRECONDITION, pod.delete)
    answer = pod.stats()  # under CRI on Linux only cgroup metrics are understood
    assert Metrics.decode(answer.value).memory is not None
    pod.update({"memory": {"limit": 2 << 30}})
    assert vms.documents("HcsModifyComputeSystem")[-1]["Settings"] == 2048
    pod.kill(30)  # whatever the number
    assert pod.wait().exit_status == 0
    refused(status.NOT_FOUND, pod.kill, 9)
    assert pod.delete().pid == 1
    vms.events.expect(["create pod", "start pod", "exit pod", "delete pod"])
    assert not vms.leaked()
    pod.shutdown()
    pod.wait_exited()


def test_kill_before_start(vms: VmShims) -> None:
    pod = vms.shims.start("pod", vms.spec("pause", pod="pod", role="sandbox"))
    vms.create(pod)
    refused(status.FAILED_PRECONDITION, vms.run_in, pod, "c1", *SLEEP)  # it must run first
    assert [process.pid for process in pod.pids()] == [0]
    pod.kill(15)
    assert pod.wait().exit_status == 1
    pod.delete()
    assert not vms.leaked()


def test_vm_processor_count(vms: VmShims) -> None:
    pod = vms.pod(annotations={"io.microsoft.virtualmachine.computetopology.processor.count": "1"})
    request = ComputeProcessorInfoRequest(id="pod")
    answer = pod.client.call("ExtendedTask", "ComputeProcessorInfo", request.encode(), timeout=60)
    assert ComputeProcessorInfoResponse.decode(answer).count == 1
    vms.run_in(pod, "c1", *SLEEP)
    with_no_vm = ComputeProcessorInfoRequest(id="c1").encode()
    refused(status.UNKNOWN, pod.client.call, "ExtendedTask", "ComputeProcessorInfo", with_no_vm, 20)


def test_two_workloads_and_exec(vms: VmShims) -> None:
    pod = vms.pod()
    first = vms.run_in(pod, "c1", *SLEEP)
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    second = vms.run_in(pod, "c2", "cmd", "/c", "echo in the pod", stdout=stdout)
    assert first.pid == second.pid == pod.pid  # one shim
    assert second.wait().exit_status == 0 and out.text().split() == ["in", "the", "pod"]
    assert second.delete().exit_status == 0
    stdout = fifo(vms, "out2")
    out = Reader(stdout)
    first.exec("e1", vms.shims.process("cmd", "/c", "echo exec"), stdout=stdout)
    first.start("e1")
    assert first.wait("e1").exit_status == 0 and out.text().split() == ["exec"]
    assert len(vms.workers()) == 1
    first.kill(9)
    first.wait()
    first.delete()
    assert pod.state().status == Status.RUNNING
    pod.kill(9)
    assert pod.wait().exit_status == 0
    pod.delete()
    assert not vms.leaked()


def test_workload_without_hyperv_section_runs_in_pod_vm(vms: VmShims) -> None:
    pod = vms.pod()
    spec = vms.spec(*SLEEP, pod="pod", role="container")
    del spec["windows"]["hyperv"]
    shim = vms.shims.start("c1", spec)
    shim.create(rootfs=vms.rootfs("c1"))
    shim.start()
    systems = vms.documents("HcsCreateComputeSystem")
    assert len(systems) == 1 and "VirtualMachine" in systems[0]
    pod.kill(9)
    assert shim.wait().exit_status != 0


def test_sandbox_exit_stops_workloads(vms: VmShims) -> None:
    pod = vms.pod()
    running = vms.run_in(pod, "c1", *SLEEP)
    created = vms.workload(pod, "c2", *SLEEP)
    vms.create(created)
    pod.kill(9)
    assert pod.wait().exit_status == 0
    assert running.wait().exit_status == 0xFFFFFFFF
    assert created.wait().exit_status == 1
    pod.delete()
    assert running.delete().exit_status == 0xFFFFFFFF
    assert created.delete().exit_status == 1
    vms.expect_one_exit("c1", "c2", "pod")
    assert not vms.leaked()


def test_ten_concurrent_workloads(vms: VmShims) -> None:
    pod = vms.pod()
    shims = [vms.workload(pod, f"c{number}", "cmd", "/c", f"exit {number + 10}") for number in range(10)]
    failures: list[Exception] = []

    def run(shim: Shim) -> None:
        try:
            vms.create(shim)
            shim.start()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(shim,)) for shim in shims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    for number, shim in enumerate(shims):
        assert shim.wait().exit_status == number + 10
        shim.delete()
    # The image's two layers were shared once; every scratch was attached, and all but the VM's own are detached.
    changes = vms.documents("HcsModifyComputeSystem")
    shares = [change for change in changes if change["ResourcePath"].endswith("/Shares")]
    attached = [change["RequestType"] for change in changes if "/Attachments/" in change["ResourcePath"]]
    assert len(shares) == 2 and attached.count("Add") == attached.count("Remove") == 10
    pod.kill(9)
    pod.wait()
    pod.delete()
    assert not vms.leaked()


def test_concurrent_creates_of_one_id_create_one_container(vms: VmShims) -> None:
    pod = vms.pod()
    shim = vms.workload(pod, "c1", *SLEEP)
    outcomes: list[Exception | None] = []

    def create() -> None:
        try:
            vms.create(shim)
            outcomes.append(None)
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.count(None) == 1 and len(outcomes) == 4
    assert {getattr(error, "code", None) for error in outcomes if error} == {status.ALREADY_EXISTS}


def test_removed_workloads_leak_nothing(vms: VmShims) -> None:
    pod = vms.pod()
    descriptors = None
    for number in range(30):
        shim = vms.run_in(pod, f"c{number}", "cmd", "/c", "exit 0")
        assert shim.wait().exit_status == 0
        shim.delete()
        shim.client.close()
        if number == 4:
            descriptors = _open_files(pod)
    eventually(lambda: _open_files(pod) <= (descriptors or 0) + 1, f"{descriptors} open files, or one more")
    worker = vms.workers()[0]
    assert len(vms.emulator.descendants()) == 1, "silos stay behind"
    assert not list((vms.emulator.directory / "hvsock").glob("*/4*"))
    pod.kill(9)
    pod.wait()
    pod.delete()
    eventually(lambda: worker not in vms.emulator.descendants(), "the end of the worker")
    assert not vms.leaked()


def _open_files(shim: Shim) -> int:
    return len(os.listdir(f"/proc/{shim.pid}/fd"))


def test_pod_network_is_added_to_vm(
    vms: VmShims, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    use(vms.emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    endpoint = create_endpoint()
    namespace = network.create_namespace()["ID"]
    network.add_namespace_endpoint(namespace, endpoint)
    windows = {"layerFolders": None, "network": {"networkNamespace": namespace}}
    pod = vms.pod(windows=windows)
    shim = vms.workload(pod, "c1", *SLEEP, windows=windows)
    vms.create(shim)
    shim.start()
    changes = vms.documents("HcsModifyComputeSystem")
    added = [change for change in changes if "NetworkAdapters" in change["ResourcePath"]]
    assert [change["RequestType"] for change in added] == ["Add"]
    assert added[0]["Settings"]["EndpointId"] == endpoint
    pod.kill(9)
    pod.wait()
    shim.wait()
    shim.delete()
    pod.delete()
    assert not vms.leaked()
    assert network.namespace_endpoints(namespace) == [endpoint]  # not ours to take apart
    network.delete_namespace(namespace)
    reset_libraries()


def test_workload_update_is_sent_to_guest(vms: VmShims) -> None:
    pod = vms.pod()
    shim = vms.run_in(pod, "c1", *SLEEP)
    before = len(vms.documents("HcsModifyComputeSystem"))
    shim.update({"memory": {"limit": 300 << 20}, "cpu": {"maximum": 5000}})
    data = vms.directory / "hot"
    data.mkdir()
    (data / "x").write_text("added while it runs")
    mount = {"HostPath": str(data), "ContainerPath": "C:\\hot", "ReadOnly": True}
    shim.update(mount, "github.com/Microsoft/hcsshim/pkg/ctrdtaskapi/ContainerMount")

    def requests() -> list[dict[str, Any]]:
        sent = [entry["arguments"] for entry in vms.emulator.journal("guest:ModifySettings")]
        return [message["Request"] for message in sent if message["ContainerId"] == "c1"]

    eventually(lambda: len(requests()) == 3, "three requests to the guest")
    assert [request["ResourcePath"] for request in requests()] == [
        "Container/Memory/SizeInMB",
        "Container/Processor",
        "Container/MappedDirectories",
    ]
    assert requests()[2]["Settings"]["HostPath"].endswith("\\s3")
    (shared,) = vms.documents("HcsModifyComputeSystem")[before:]
    assert shared["Settings"]["Path"] == str(data)
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    shim.exec("e1", vms.shims.process("cat", "/hot/x"), stdout=stdout)
    shim.start("e1")
    assert shim.wait("e1").exit_status == 0 and out.text() == "added while it runs"


def test_isolated_workload_in_pod_without_vm_is_refused(vms: VmShims) -> None:
    spec = vms.shims.spec(*SLEEP)
    spec["annotations"] = {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-id": "pod",
    }
    pod = vms.shims.start("pod", spec)
    pod.run(rootfs=vms.rootfs("pod"))
    shim = vms.workload(pod, "c1", *SLEEP)
    assert "SandboxIsolation" in refused(status.FAILED_PRECONDITION, vms.create, shim)
