"""Utility VMs through the bindings, on the emulator."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem
from tests.support.documents import virtual_machine
from tests.support.emulator import Emulator
from tests.support.eventually import eventually


@pytest.fixture
def vm(hcs: Emulator, tmp_path: Path) -> Iterator[ComputeSystem]:
    files = tmp_path / "UtilityVM" / "Files"
    files.mkdir(parents=True)
    shares = [{"Name": "os", "Path": str(files), "Options": {"ReadOnly": True}}]
    document = virtual_machine(VirtualSmb={"Shares": shares}) | {"ShouldTerminateOnLastHandleClosed": True}
    with ComputeSystem.create("pod1@vm", document) as system:
        system.start()
        yield system


def test_pause_resume_and_save(vm: ComputeSystem, tmp_path: Path) -> None:
    assert vm.properties()["SystemType"] == "VirtualMachine"
    with pytest.raises(HcsError) as caught:
        vm.save()
    assert errors.is_invalid_state(caught.value)
    vm.pause()
    assert vm.properties()["State"] == "Paused"
    vm.resume()
    assert vm.properties()["State"] == "Running"
    vm.pause()
    vm.save({"SaveType": "ToFile", "SaveStateFilePath": str(tmp_path / "vm.vmrs")})
    vm.wait_exit(60)
    assert vm.properties()["State"] in ("Stopped", "SavedAsTemplate")


def test_modify_memory_of_running_vm(vm: ComputeSystem) -> None:
    path = "VirtualMachine/ComputeTopology/Memory/SizeInMB"
    vm.modify({"ResourcePath": path, "RequestType": "Update", "Settings": 2048})
    memory = vm.properties("Memory")["Memory"]["VirtualMachineMemory"]
    assert memory["AssignedMemory"] == 2048 * 256


def test_crashed_vm_is_an_unexpected_exit(vm: ComputeSystem, hcs: Emulator) -> None:
    (worker,) = hcs.descendants()[:1]
    os.kill(worker, signal.SIGKILL)
    ended = vm.wait_exit(60)
    assert ended.type == "UnexpectedExit"
    assert ended.error is not None and ended.error.name == "HCS_E_UNEXPECTED_EXIT"
    eventually(lambda: ComputeSystem.enumerate() == [], "the end of the machine")
    with pytest.raises(HcsError) as caught:
        ComputeSystem.open("pod1@vm")
    assert errors.vm_not_available(caught.value)
