"""The utility VM of Linux containers, through a real shim: boot, size, log, updates, stats, failures."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.runhcs_stats import Statistics
from shim.oci.annotations import container as container_names
from shim.oci.annotations import linux as names
from shim.oci.annotations import vm as vm_names
from shim.ttrpc import status
from shim.uvm.scsi import CONTROLLERS
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.linux_shims import SLEEP, LinuxShims, options
from tests.support.shims import Shim, Shims, refused

MEMORY = "VirtualMachine/ComputeTopology/Memory/SizeInMB"


def document(lcow: LinuxShims) -> dict[str, Any]:
    """`VirtualMachine` of the last VM's document."""
    (*_, entry) = lcow.emulator.journal("HcsCreateComputeSystem")
    whole = entry["arguments"]["configuration"]
    found: dict[str, Any] = (json.loads(whole) if isinstance(whole, str) else whole)["VirtualMachine"]
    return found


def boot_files(lcow: LinuxShims) -> Path:
    return lcow.emulator.directory / "LinuxBootFiles" / lcow.guest


def own_boot_files(lcow: LinuxShims, *others: str) -> Path:
    """A copy of the guest's boot files, and more files with the same content."""
    target = lcow.directory / "boot"
    shutil.copytree(boot_files(lcow), target)
    for name in others:
        shutil.copy(target / "initrd.img", target / name)
    return target


def test_default_vm_boots_kernel_and_initrd(lcow: LinuxShims) -> None:
    assert lcow.output_of("c1", "echo", "hello") == "hello\n"
    machine = document(lcow)
    direct = machine["Chipset"]["LinuxKernelDirect"]
    assert direct["KernelFilePath"] == str(boot_files(lcow) / "vmlinux")
    assert direct["InitRdPath"] == str(boot_files(lcow) / "initrd.img")
    assert direct["KernelCmdLine"].endswith("/bin/gcs -v4 -log-format json -loglevel info")
    assert machine["Devices"]["VirtualPMem"] == {"MaximumCount": 64, "MaximumSizeBytes": 4 << 30}


def test_sized_vm(lcow: LinuxShims) -> None:
    annotations = {
        str(container_names.VM_MEMORY_SIZE_IN_MB): "511",
        str(container_names.VM_PROCESSOR_COUNT): "1",
        str(vm_names.STORAGE_IOPS): "300",
    }
    assert lcow.output_of("c1", "echo", "x", annotations=annotations) == "x\n"
    machine = document(lcow)
    assert machine["ComputeTopology"]["Memory"]["SizeInMB"] == 512
    assert machine["ComputeTopology"]["Processor"]["Count"] == 1
    assert machine["StorageQoS"] == {"IopsMaximum": 300}


@pytest.mark.parametrize("row", [{str(names.VPMEM_COUNT): "0"}, {str(vm_names.PHYSICALLY_BACKED): "true"}])
def test_vm_without_vpmem_has_four_scsi_controllers(lcow: LinuxShims, row: dict[str, str]) -> None:
    assert lcow.output_of("c1", "echo", "x", annotations=row) == "x\n"
    devices = document(lcow)["Devices"]
    assert list(devices["Scsi"]) == list(CONTROLLERS) and "VirtualPMem" not in devices


@pytest.mark.parametrize("count", ["64", "0"])
def test_vm_boots_from_vhd(lcow: LinuxShims, count: str) -> None:
    boot = own_boot_files(lcow, "rootfs.vhd")
    annotations = {str(container_names.VM_BOOT_FILES): str(boot), str(names.VPMEM_COUNT): count}
    assert lcow.output_of("c1", "echo", "x", annotations=annotations) == "x\n"
    machine = document(lcow)
    command = machine["Chipset"]["LinuxKernelDirect"]["KernelCmdLine"]
    assert command.startswith("root=/dev/pmem0 " if count == "64" else "root=/dev/sda ")
    if count == "0":
        # The scratch disk gets another slot than the root's.
        paths = [entry["arguments"] for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
        assert not any(f"{CONTROLLERS[0]}/Attachments/0" in str(path) for path in paths)


def test_vm_boots_by_uefi(lcow: LinuxShims) -> None:
    annotations = {str(names.KERNEL_DIRECT): "false"}
    assert lcow.output_of("c1", "echo", "x", annotations=annotations) == "x\n"
    entry = document(lcow)["Chipset"]["Uefi"]["BootThis"]
    assert entry["DevicePath"] == "\\kernel" and entry["VmbFsRootPath"] == str(boot_files(lcow))
    assert entry["OptionalData"].startswith("initrd=/initrd.img initcall_blacklist=")


class TestBuilds:
    def test_old_build_boots_by_uefi(self, start_emulator: Callable[..., Emulator], base_layer: Path) -> None:
        emulator = start_emulator("--build", "17763")
        shims = Shims(emulator.env)
        try:
            lcow = LinuxShims(emulator, shims, "emulated", base_layer)
            assert lcow.output_of("c1", "echo", "x") == "x\n"
            assert "Uefi" in document(lcow)["Chipset"]
            direct = lcow.start("c2", *SLEEP, annotations={str(names.KERNEL_DIRECT): "true"})
            words = "UVM options incorrect: KernelDirectBoot is not supported on builds older than 18286"
            assert words in refused(status.UNKNOWN, lcow.create, direct)
        finally:
            shims.close()


class TestRefusals:
    """Before HCS is asked for anything."""

    def refuse(self, lcow: LinuxShims, annotations: dict[str, str], code: int = status.UNKNOWN) -> str:
        shim = lcow.start("c1", *SLEEP, annotations=annotations)
        message = refused(code, lcow.create, shim)
        assert lcow.emulator.journal("HcsCreateComputeSystem") == []
        return message

    def test_missing_boot_files(self, lcow: LinuxShims) -> None:
        boot = lcow.directory / "no-boot-files"
        message = self.refuse(lcow, {str(container_names.VM_BOOT_FILES): str(boot)})
        assert message.startswith(f"kernel: '{boot}/kernel' not found")

    def test_missing_initrd(self, lcow: LinuxShims) -> None:
        boot = own_boot_files(lcow)
        (boot / "initrd.img").unlink()
        message = self.refuse(lcow, {str(container_names.VM_BOOT_FILES): str(boot)})
        assert message.startswith(f"boot file: '{boot}/initrd.img' not found")

    def test_confidential_vm(self, lcow: LinuxShims) -> None:
        key = "io.microsoft.virtualmachine.lcow.securitypolicy"
        assert f"annotation {key} cannot be followed" in self.refuse(lcow, {key: "cA=="}, status.UNIMPLEMENTED)

    def test_too_many_memory_devices(self, lcow: LinuxShims) -> None:
        assert "VPMem device count cannot be greater than 128" in self.refuse(lcow, {str(names.VPMEM_COUNT): "129"})

    def test_process_isolation(self, lcow: LinuxShims) -> None:
        shim = lcow.start("c1", *SLEEP)
        process = pack(Options(debug=True))
        message = refused(status.UNKNOWN, lcow.create, shim, options=process)
        assert message.startswith("invalid runtime sandbox isolation (PROCESS) for hypervisor isolated OCI spec")


def running(lcow: LinuxShims, **members: Any) -> Shim:
    return lcow.run("c1", *SLEEP, members=members)


def test_log_of_the_guest_is_forwarded(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", *SLEEP, with_log=True)
    lcow.create(shim, options=options(debug=True))
    shim.start()
    line = eventually(
        lambda: next((line for line in shim.log.lines() if "vm.time" in line.fields), None), "an entry of the guest"
    )
    assert line.fields["uvm-id"] == "c1@vm"


def test_update_changes_the_vm(lcow: LinuxShims) -> None:
    shim = running(lcow)
    resources = {"memory": {"limit": 2047 << 20}, "cpu": {"quota": 50000, "shares": 500}}
    shim.update(resources, "LinuxResources")
    requests = [entry["arguments"] for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
    assert any(MEMORY in str(request) and "2048" in str(request) for request in requests)
    assert any("Processor/Limits" in str(request) and "50000" in str(request) for request in requests)
    assert shim.state().status == 2


def test_stats_have_vm_and_container(lcow: LinuxShims) -> None:
    shim = running(lcow)
    found = Statistics.decode(shim.stats().value)
    assert found.vm is not None and found.vm.memory is not None and found.vm.memory.working_set_bytes > 0
    assert found.linux is not None


def test_guest_agent_that_dies_ends_the_vm(lcow: LinuxShims) -> None:
    shim = running(lcow)
    (system,) = lcow.emulator.control("status")["systems"]
    os.kill(system["Worker"], signal.SIGKILL)
    assert shim.wait().exit_status == 0xFFFFFFFF
    shim.delete()
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")


def test_vm_whose_guest_does_not_answer_is_terminated(lcow: LinuxShims) -> None:
    lcow.shims.env["HCSSHIM_TIMEOUT_GCSCONNECTION"] = "2"
    lcow.emulator.fault("guest:NegotiateProtocol", no_answer=True)
    shim = lcow.start("c1", *SLEEP)
    refused(status.UNKNOWN, lcow.create, shim)
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")
