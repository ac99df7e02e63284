"""Host process containers in a utility VM: processes of the VM itself."""

from __future__ import annotations

from typing import Any

import pytest

from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shims import Shim, refused
from tests.support.vm_image import SLEEP, VmShims, fifo

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT = "microsoft.com/hostprocess-rootfs-location"


def workload(vms: VmShims, pod: Shim, name: str, *args: str, **annotations: str) -> Shim:
    return vms.workload(pod, name, *args, annotations={HOST_PROCESS: "true", **annotations})


def sent(vms: VmShims, name: str) -> list[dict[str, Any]]:
    return [entry["arguments"] for entry in vms.emulator.journal(f"guest:{name}")]


def test_container_runs_in_pod_vm(vms: VmShims) -> None:
    """It sees the VM's own files, its image at the pod's root path, and runs as the pod's user."""
    (vms.layers[0] / "Files" / "tool.txt").write_text("from the image\n")
    pod = vms.pod(annotations={HOST_PROCESS: "true", INHERIT_USER: "true", ROOT: "C:\\srv\\hpc"})
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    shim = workload(vms, pod, "w1", "sh", "-c", "cat /srv/hpc/tool.txt; echo $CONTAINER_SANDBOX_MOUNT_POINT")
    vms.create(shim, stdout=stdout)
    shim.start()
    assert shim.wait().exit_status == 0
    assert out.text() == "from the image\nC:\\srv\\hpc\n"
    container = sent(vms, "Create")[-1]["ContainerConfig"]["Container"]
    assert container["IsolationType"] == "HostProcess"
    assert container["Storage"]["PrivilegedContainerRootPath"] == "C:\\srv\\hpc"
    parameters = sent(vms, "ExecuteProcess")[-1]["Settings"]["ProcessParameters"]
    assert parameters["CommandLine"].startswith("cmd /c sh -c ") and parameters["User"] == "NT AUTHORITY\\SYSTEM"
    shim.delete()


def test_execs_run_in_vm(vms: VmShims) -> None:
    pod = vms.pod(annotations={HOST_PROCESS: "true"})
    shim = workload(vms, pod, "w1", *SLEEP)
    vms.create(shim)
    shim.start()
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    shim.exec("e1", vms.shims.process("cmd.exe", "/c", "echo %COMPUTERNAME%"), stdout=stdout)
    shim.start("e1")
    assert shim.wait("e1").exit_status == 0
    assert out.text().strip().lower() == "utilityvm"
    lines = [message["Settings"]["ProcessParameters"]["CommandLine"] for message in sent(vms, "ExecuteProcess")]
    assert not any(line.startswith("cmd /c cmd") for line in lines)


@pytest.mark.parametrize("root", ["C:\\Windows\\x", "c:/mounts", "relative", "C:\\x\\..\\Windows"])
def test_invalid_root_paths_are_refused(vms: VmShims, root: str) -> None:
    pod = vms.pod(annotations={HOST_PROCESS: "true", ROOT: root})
    shim = workload(vms, pod, "w1", *SLEEP)
    assert "rootfs-location" in refused(status.UNKNOWN, vms.create, shim)


def test_inherit_user_annotation_alone_has_no_effect(vms: VmShims) -> None:
    pod = vms.pod()
    shim = vms.workload(pod, "w1", *SLEEP, annotations={INHERIT_USER: "true"})
    vms.create(shim)
    shim.start()
    eventually(lambda: bool(sent(vms, "ExecuteProcess")), "the journal's line of the process")
    assert "IsolationType" not in sent(vms, "Create")[-1]["ContainerConfig"]["Container"]
    assert sent(vms, "ExecuteProcess")[-1]["Settings"]["ProcessParameters"]["User"] == "ContainerAdministrator"


def test_create_is_refused_if_host_process_containers_are_disabled(vms: VmShims) -> None:
    annotations = {HOST_PROCESS: "true", "microsoft.com/disable-hostprocess-container": "true"}
    shim = vms.start("c1", *SLEEP, annotations=annotations)
    assert "forbid" in refused(status.UNKNOWN, vms.create, shim)
