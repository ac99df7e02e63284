"""Utility VMs as HCS shows them: lifecycle, devices, exit."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import pytest

from hcs_emulator.vm import bridge_frames
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.guest_host import NULL
from tests.support.vm import (
    ALREADY_STOPPED,
    CONTROLLER,
    DEVICES,
    EXISTS,
    GUEST_CONNECTION_CLOSED,
    INVALID_STATE,
    NOT_FOUND,
    NOT_SUPPORTED,
    Vm,
    negotiated,
    running_container,
)
from tests.support.wire_client import EXITED, WireClient


def test_vm_lifecycle(emulator: Emulator, client: WireClient, vm: Vm) -> None:
    vm.create()
    assert vm.properties()["State"] == "Created" and vm.properties()["SystemType"] == "VirtualMachine"
    assert client.call("HcsPauseComputeSystem", None, handle=vm.handle).hresult == INVALID_STATE
    assert emulator.descendants() == []
    vm.start()
    assert len(emulator.descendants()) == 1
    assert client.call("HcsStartComputeSystem", None, handle=vm.handle).hresult == INVALID_STATE
    assert client.call("HcsShutDownComputeSystem", None, handle=vm.handle).hresult == 0x80370108
    memory = vm.properties("Memory", "Statistics")
    assert memory["Memory"]["VirtualMachineMemory"]["AssignedMemory"] == 1024 * 256
    assert memory["Statistics"]["Processor"]["TotalRuntime100ns"] > 0
    vm.terminate()
    assert client.wait_event(vm.handle, EXITED)["ExitType"] == "ForcedExit"
    assert client.call("HcsTerminateComputeSystem", None, handle=vm.handle).hresult == ALREADY_STOPPED
    assert emulator.descendants() == []
    assert list((emulator.directory / "hvsock").iterdir()) == []


def test_vm_pause_resume_and_save(emulator: Emulator, client: WireClient, vm: Vm, tmp_path: Path) -> None:
    bridge = negotiated(vm.boot())
    client.ok("HcsPauseComputeSystem", None, handle=vm.handle)
    assert vm.properties()["State"] == "Paused"
    assert vm.modify("VirtualMachine/ComputeTopology/Memory/SizeInMB", "Update", 2048) == INVALID_STATE
    waiting = bridge.begin(bridge_frames.GET_PROPERTIES, NULL, Query="")
    client.ok("HcsResumeComputeSystem", None, handle=vm.handle)
    assert bridge.finish(waiting)["Result"] == 0
    save = {"SaveType": "ToFile", "SaveStateFilePath": str(tmp_path / "saved")}
    assert client.call("HcsSaveComputeSystem", save, handle=vm.handle).hresult == INVALID_STATE
    client.ok("HcsPauseComputeSystem", None, handle=vm.handle)
    client.ok("HcsSaveComputeSystem", save, handle=vm.handle)
    client.wait_event(vm.handle, EXITED)
    assert (tmp_path / "saved").exists() and emulator.descendants() == []


def test_vm_without_a_boot_share_is_refused(client: WireClient, vm: Vm) -> None:
    handle = client.ok("HcsCreateComputeSystem", "empty@vm", documents.virtual_machine()).handle
    assert client.call("HcsStartComputeSystem", None, handle=handle).hresult == 0x80070003
    missing = documents.virtual_machine(VirtualSmb={"Shares": [{"Name": "os", "Path": "/nowhere"}]})
    assert client.call("HcsCreateComputeSystem", "missing@vm", missing).hresult == 0x80070003
    ungranted = vm.make_disk("other.vhdx", grant=False)
    disks = {CONTROLLER: {"Attachments": {"0": {"Type": "VirtualDisk", "Path": ungranted}}}}
    document = documents.virtual_machine(Scsi=disks)
    assert client.call("HcsCreateComputeSystem", "ungranted@vm", document).hresult == 0x80070005
    odd = vm.document()
    odd["VirtualMachine"]["ComputeTopology"]["Memory"]["SizeInMB"] = 1025
    assert client.call("HcsCreateComputeSystem", "odd@vm", odd).hresult == 0x8037010D


def test_vm_devices_can_be_added_and_removed(client: WireClient, vm: Vm) -> None:
    vm.create()
    shares = DEVICES + "VirtualSmb/Shares"
    share = {"Name": "s1", "Path": vm.layer, "Options": {"ReadOnly": True}}
    assert vm.modify(shares, "Add", share) == INVALID_STATE
    vm.start()
    assert vm.modify(shares, "Add", share) == 0
    assert vm.modify(shares, "Add", share) == EXISTS
    assert vm.modify(shares, "Remove", {"Name": "s1"}) == NOT_SUPPORTED  # mapped directly
    assert vm.modify(shares, "Update", share | {"AllowedFiles": []}) == NOT_SUPPORTED
    assert vm.modify(shares, "Add", {"Name": "s2", "Path": vm.layer, "Options": {"NoDirectmap": True}}) == 0
    assert vm.modify(shares, "Remove", {"Name": "s2"}) == 0
    assert vm.modify(shares, "Remove", {"Name": "s2"}) == NOT_FOUND
    assert vm.modify(shares, "Add", share | {"Name": "s3", "Path": "/nowhere"}) == 0x80070003

    lun = f"{DEVICES}Scsi/{CONTROLLER}/Attachments/"
    disk = {"Type": "VirtualDisk", "Path": vm.make_disk("a.vhdx", grant=False)}
    assert vm.modify(lun + "1", "Add", disk) == 0x80070005
    client.ok("HcsGrantVmAccess", "pod@vm", disk["Path"])
    assert vm.modify(lun + "1", "Add", disk) == 0
    assert vm.modify(lun + "1", "Add", disk) == EXISTS
    assert vm.modify(lun + "2", "Add", disk) == 0x80070020
    assert vm.modify(lun + "64", "Add", disk) == 0x80070057
    assert vm.modify(f"{DEVICES}Scsi/{uuid.uuid4()}/Attachments/1", "Add", disk) == NOT_FOUND
    assert vm.modify(lun + "1", "Remove") == 0
    assert vm.modify(lun + "1", "Remove") == NOT_FOUND

    assert vm.modify("VirtualMachine/ComputeTopology/Memory/SizeInMB", "Update", 2048) == 0
    assert vm.properties("Memory")["Memory"]["VirtualMachineMemory"]["AssignedMemory"] == 2048 * 256
    assert vm.modify("VirtualMachine/ComputeTopology/Processor/Limits", "Update", {"Limit": 50000}) == 0
    group = "VirtualMachine/ComputeTopology/Processor/CpuGroup"
    assert vm.modify(group, "Update", {"Id": str(uuid.uuid4())}) == NOT_FOUND
    assert vm.modify(group, "Update", {"Id": NULL}) == 0
    service = f"{DEVICES}HvSocket/HvSocketConfig/ServiceTable/{uuid.uuid4()}"
    assert vm.modify(service, "Update", {"AllowWildcardBinds": True}) == 0
    adapter = f"{DEVICES}NetworkAdapters/{uuid.uuid4()}"
    assert vm.modify(adapter, "Add", {"EndpointId": str(uuid.uuid4())}) == 0x803B0002
    assert vm.modify(DEVICES + "MappedPipes/\\\\.\\pipe\\agent", "Add") == 0
    assert vm.modify(DEVICES + "MappedPipes/\\\\.\\pipe\\agent", "Add") == EXISTS
    assert vm.modify(DEVICES + "Toaster", "Add", {}) == 0x8037010D
    answer = client.call("HcsModifyComputeSystem", {"GuestRequest": {}}, handle=vm.handle)
    assert answer.hresult == 0x80370108


@pytest.mark.parametrize("how", ["kill", "fault", "crash"])
def test_killed_worker_is_an_unexpected_exit_that_leaks_nothing(
    emulator: Emulator, client: WireClient, vm: Vm, how: str
) -> None:
    bridge = negotiated(vm.boot())
    pid = running_container(vm, bridge)
    waiting = bridge.begin(bridge_frames.WAIT_FOR_PROCESS, "app", ProcessId=pid, TimeoutInMs=0xFFFFFFFF)
    inside = emulator.descendants()
    assert pid in inside and len(inside) >= 3
    if how == "kill":
        os.kill(inside[0], signal.SIGKILL)
    elif how == "fault":
        emulator.fault("HcsGetComputeSystemProperties", nth=1, crash_vm=True)
        client.call("HcsGetComputeSystemProperties", None, handle=vm.handle)
    else:
        client.ok("HcsCrashComputeSystem", None, handle=vm.handle)
    assert client.wait_event(vm.handle, EXITED)["ExitType"] == "UnexpectedExit"
    assert [event[1] for event in client.events][-2:] == [GUEST_CONNECTION_CLOSED, EXITED]
    with pytest.raises(ConnectionError):
        bridge.finish(waiting)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside), "the end of all in the VM")


def test_last_handle_close_terminates_the_vm(emulator: Emulator, vm: Vm) -> None:
    with WireClient(emulator.directory) as dying:
        document = vm.document() | {"ShouldTerminateOnLastHandleClosed": True}
        handle = dying.ok("HcsCreateComputeSystem", "pod@vm", document).handle
        dying.ok("HcsStartComputeSystem", None, handle=handle)
    eventually(lambda: not emulator.descendants(), "the end of the VM")


def test_guest_shutdown_is_a_graceful_exit(client: WireClient, vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    bridge.ok(bridge_frames.SHUTDOWN_GRACEFUL, NULL)
    assert client.wait_event(vm.handle, EXITED)["ExitType"] == "GracefulExit"
    bridge.wait_closed()
