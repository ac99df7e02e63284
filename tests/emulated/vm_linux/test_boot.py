"""How Linux VMs boot: documents of each kind of boot, the selected guest, and what is refused."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm import bridge_frames
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.linux_vm import COMMAND_LINE, CONTROLLERS, DEVICES, ID, LinuxVm
from tests.support.wire_client import WireClient

FILE_NOT_FOUND, PATH_NOT_FOUND = 0x80070002, 0x80070003
INVALID_PARAMETER, NOT_SUPPORTED, EXISTS, NOT_FOUND = 0x80070057, 0x80070032, 0x800700B7, 0x80070490
INVALID_JSON, E_FAIL = 0x8037010D, 0x80004005
ACCESS_DENIED = 0x80070005


@pytest.fixture
def emulated_vm(emulator: Emulator, client: WireClient, tmp_path: Path) -> Any:
    """A VM with the emulator's guest, for what is the same with every guest."""
    vm = LinuxVm(emulator, client, tmp_path, "emulated")
    yield vm
    vm.close()


def negotiate(vm: LinuxVm, document: dict[str, Any]) -> None:
    answer = vm.boot(document).ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    assert answer["Capabilities"]["RuntimeOsType"] == "Linux"
    vm.terminate()


def boot_files(vm: LinuxVm, tmp_path: Path, *names: str) -> Path:
    """Boot files of the VM's guest under other names."""
    directory = tmp_path / "boot"
    directory.mkdir()
    for name in names:
        shutil.copy(vm.boot_files / "initrd.img", directory / name)
    return directory


def test_vm_boots_by_uefi(linux_vm: LinuxVm, tmp_path: Path) -> None:
    directory = boot_files(linux_vm, tmp_path, "kernel", "initrd.img")
    document = linux_vm.document()
    entry = {"DeviceType": "VmbFs", "DevicePath": "\\kernel", "VmbFsRootPath": str(directory)}
    entry["OptionalData"] = "initrd=/initrd.img" + COMMAND_LINE
    document["VirtualMachine"]["Chipset"] = {"Uefi": {"BootThis": entry}}
    negotiate(linux_vm, document)


def test_vm_boots_from_persistent_memory(linux_vm: LinuxVm, tmp_path: Path) -> None:
    directory = boot_files(linux_vm, tmp_path, "vmlinux", "rootfs.vhd")
    device = {"HostPath": str(directory / "rootfs.vhd"), "ReadOnly": True, "ImageFormat": "Vhd1"}
    memory = {"MaximumCount": 64, "MaximumSizeBytes": 4 << 30, "Devices": {"0": device}}
    document = linux_vm.document(VirtualPMem=memory)
    root = "root=/dev/pmem0 ro rootwait init=/init"
    direct = {"KernelFilePath": str(directory / "vmlinux"), "KernelCmdLine": root + COMMAND_LINE}
    document["VirtualMachine"]["Chipset"] = {"LinuxKernelDirect": direct}
    negotiate(linux_vm, document)


def test_vm_boots_from_scsi_without_persistent_memory(linux_vm: LinuxVm, tmp_path: Path) -> None:
    directory = boot_files(linux_vm, tmp_path, "vmlinux", "rootfs.vhd")
    attachment = {"Type": "VirtualDisk", "Path": str(directory / "rootfs.vhd"), "ReadOnly": True}
    controllers: dict[str, Any] = {guid: {} for guid in CONTROLLERS}
    controllers[CONTROLLERS[0]] = {"Attachments": {"0": attachment}}
    document = linux_vm.document(Scsi=controllers)
    del document["VirtualMachine"]["Devices"]["VirtualPMem"]
    root = "root=/dev/sda ro rootwait init=/init"
    direct = {"KernelFilePath": str(directory / "vmlinux"), "KernelCmdLine": root + COMMAND_LINE}
    document["VirtualMachine"]["Chipset"] = {"LinuxKernelDirect": direct}
    negotiate(linux_vm, document)


def test_default_boot_files_name_the_default_guest(start_emulator: Callable[..., Emulator]) -> None:
    for guest in ("emulated", "gcs"):
        directory = start_emulator("--linux-guest", guest).directory / "LinuxBootFiles"
        assert json.loads((directory / "initrd.img").read_text()) == {"hcs_emulator": {"linux_guest": guest}}
        for name in ("emulated", "gcs"):
            for file in ("vmlinux", "initrd.img"):
                assert json.loads((directory / name / file).read_text())["hcs_emulator"]["linux_guest"] == name


def test_other_initrd_boots_the_default_guest(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    (tmp_path / "initrd.img").write_bytes(b"\x1f\x8b" + bytes(10000))
    document = emulated_vm.document()
    document["VirtualMachine"]["Chipset"]["LinuxKernelDirect"]["InitRdPath"] = str(tmp_path / "initrd.img")
    negotiate(emulated_vm, document)


def start_refused(vm: LinuxVm, document: dict[str, Any]) -> tuple[int, str]:
    vm.create(document)
    response = vm.client.call("HcsStartComputeSystem", None, handle=vm.handle)
    assert vm.emulator.descendants() == []
    return response.hresult, response.text or ""


def direct(vm: LinuxVm, **members: str) -> dict[str, Any]:
    document = vm.document()
    document["VirtualMachine"]["Chipset"]["LinuxKernelDirect"] |= members
    return document


def test_missing_boot_file_is_refused(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    code, text = start_refused(emulated_vm, direct(emulated_vm, KernelFilePath=missing))
    assert code == FILE_NOT_FOUND and missing in text


def test_missing_initrd_is_refused(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    code, text = start_refused(emulated_vm, direct(emulated_vm, InitRdPath=missing))
    assert code == FILE_NOT_FOUND and missing in text


def test_initrd_of_an_unknown_guest_is_refused(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    (tmp_path / "initrd.img").write_text('{"hcs_emulator": {"linux_guest": "other"}}')
    code, text = start_refused(emulated_vm, direct(emulated_vm, InitRdPath=str(tmp_path / "initrd.img")))
    assert code == INVALID_PARAMETER and "other" in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("quiet", "no arguments for init"),
        ("=1 -- -e 1 /bin/vsockexec -e 109 /bin/gcs", "form of a kernel argument"),
        ("quiet -- /bin/vsockexec -e 109 /bin/gcs", "entropy"),
        ("quiet -- -x -e 1 /bin/vsockexec -e 109 /bin/gcs", "no option -x"),
        ("quiet -- -e one /bin/vsockexec -e 109 /bin/gcs", "needs a port"),
        ("quiet -- -e 1 /bin/gcs", "/bin/vsockexec"),
        ("quiet -- -e 1 /bin/vsockexec -e 109 /bin/other", "/bin/gcs"),
    ],
)
def test_command_line_that_init_does_not_understand_is_refused(emulated_vm: LinuxVm, line: str, problem: str) -> None:
    code, text = start_refused(emulated_vm, direct(emulated_vm, KernelCmdLine=line))
    assert code == INVALID_PARAMETER and problem in text


def test_kernel_without_root_is_refused(emulated_vm: LinuxVm) -> None:
    code, text = start_refused(emulated_vm, direct(emulated_vm, InitRdPath=""))
    assert code == NOT_SUPPORTED and "root device" in text


def create_refused(vm: LinuxVm, document: dict[str, Any]) -> int:
    return vm.client.call("HcsCreateComputeSystem", ID, document).hresult


def test_devices_that_a_linux_vm_cannot_have_are_refused(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    vm = emulated_vm
    share = {"Name": "os", "Path": str(tmp_path)}
    assert create_refused(vm, vm.document(VirtualSmb={"Shares": [share]})) == INVALID_JSON
    five = {guid: {} for guid in (*CONTROLLERS, "11111111-2222-3333-4444-555555555555")}
    assert create_refused(vm, vm.document(Scsi=five)) == INVALID_JSON
    assert create_refused(vm, vm.document(VirtualPMem={"MaximumCount": 129})) == INVALID_JSON
    assert create_refused(vm, vm.document(VirtualPMem={"MaximumSizeBytes": 4095})) == INVALID_PARAMETER
    missing = {"MaximumCount": 1, "Devices": {"0": {"HostPath": "/missing"}}}
    assert create_refused(vm, vm.document(VirtualPMem=missing)) == FILE_NOT_FOUND
    adapter = {"11111111-2222-3333-4444-555555555555": {"EndpointId": str(tmp_path / "missing")}}
    assert create_refused(vm, vm.document(NetworkAdapters=adapter)) == PATH_NOT_FOUND
    assert create_refused(vm, vm.document(Plan9={"Shares": [{"Name": "1", "Path": "/missing"}]})) == PATH_NOT_FOUND


def test_persistent_memory_is_checked_as_hcs_does(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    vm = emulated_vm
    vm.booted(vm.document(VirtualPMem={"MaximumCount": 2, "MaximumSizeBytes": 1 << 20}))
    layer, large = tmp_path / "layer.vhd", tmp_path / "large.vhd"
    layer.write_bytes(bytes(8192))
    large.write_bytes(bytes((1 << 20) + 512))
    device, mapping = f"{DEVICES}VirtualPMem/Devices/", {"HostPath": str(layer), "ImageFormat": "Vhd1"}
    settings = mapping | {"ReadOnly": True}
    assert vm.modify(f"{device}2", "Add", settings) == INVALID_PARAMETER
    assert vm.modify(f"{device}0", "Add", {"HostPath": str(large)}) == INVALID_PARAMETER
    assert vm.modify(f"{device}0", "Add", {"HostPath": "/missing"}) == FILE_NOT_FOUND
    assert vm.modify(f"{device}0", "Add", settings) == 0
    assert vm.modify(f"{device}0", "Add", settings) == EXISTS
    assert vm.modify(f"{device}0/Mappings/0", "Add", mapping) == INVALID_PARAMETER
    assert vm.modify(f"{device}1", "Remove") == NOT_FOUND
    assert vm.modify(f"{device}1/Mappings/100", "Add", mapping) == INVALID_PARAMETER
    assert vm.modify(f"{device}1/Mappings/4096", "Add", mapping) == 0
    assert vm.modify(f"{device}1/Mappings/8192", "Add", mapping) == INVALID_PARAMETER  # overlaps
    assert vm.modify(f"{device}1/Mappings/{(1 << 20) - 4096}", "Add", mapping) == INVALID_PARAMETER  # too far
    assert vm.modify(f"{device}1/Mappings/12288", "Add", mapping) == 0
    assert vm.modify(f"{device}1/Mappings/4096", "Remove") == 0
    assert vm.modify(f"{device}1/Mappings/4096", "Remove") == NOT_FOUND
    assert vm.modify(f"{device}0", "Remove") == 0
    vm.terminate()


def test_scsi_disk_needs_access_and_a_file(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    vm = emulated_vm
    vm.booted()
    disk = tmp_path / "disk.vhdx"
    disk.write_bytes(bytes(4096))
    place = f"{DEVICES}Scsi/{CONTROLLERS[0]}/Attachments/"
    attachment = {"Type": "VirtualDisk", "Path": str(disk)}
    assert vm.modify(f"{place}0", "Add", attachment) == ACCESS_DENIED
    vm.client.ok("GrantVmAccess", ID, str(disk))
    assert vm.modify(f"{place}64", "Add", attachment) == INVALID_PARAMETER
    assert vm.modify(f"{DEVICES}Scsi/{CONTROLLERS[1]}/Attachments/0", "Add", attachment) == NOT_FOUND
    assert vm.modify(f"{place}0", "Add", attachment) == 0
    assert vm.modify(f"{place}0", "Remove") == 0
    vm.terminate()


def test_plan9_shares_are_checked_as_hcs_does(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    vm = emulated_vm
    vm.booted()
    place, share = f"{DEVICES}Plan9/Shares", {"Name": "1", "AccessName": "1", "Path": str(tmp_path), "Port": 564}
    assert vm.modify(place, "Add", share | {"Path": "/missing"}) == PATH_NOT_FOUND
    assert vm.modify(place, "Add", share | {"Flags": 0x1000}) == INVALID_PARAMETER
    assert vm.modify(place, "Add", share | {"AllowedFiles": ["a"]}) == INVALID_PARAMETER
    assert vm.modify(place, "Add", share | {"Flags": 4}) == 0
    assert vm.modify(place, "Add", share | {"Flags": 4}) == EXISTS
    assert vm.modify(place, "Remove", {"Name": "1", "AccessName": "1", "Port": 564}) == 0
    assert vm.modify(place, "Remove", {"Name": "1", "AccessName": "1", "Port": 564}) == NOT_FOUND
    vm.terminate()


def test_memory_and_processor_limits_reach_the_cgroup(emulated_vm: LinuxVm, emulator: Emulator) -> None:
    vm = emulated_vm
    vm.booted()
    limits = [path for path in emulator.vm_cgroups() if (path / "memory.limit_in_bytes").exists()]
    limit = limits[0] / "memory.limit_in_bytes" if limits else emulator.vm_cgroups()[0] / "memory.max"
    assert int(limit.read_text()) == 1024 << 20
    topology = "VirtualMachine/ComputeTopology/"
    assert vm.modify(f"{topology}Memory/SizeInMB", "Update", 2048) == 0
    assert int(limit.read_text()) == 2048 << 20
    assert vm.modify(f"{topology}Memory/SizeInMB", "Update", 2047) == INVALID_JSON
    assert vm.modify(f"{topology}Processor/Limits", "Update", {"Limit": 50000, "Weight": 200}) == 0
    assert vm.properties("Memory")["Memory"]["VirtualMachineMemory"]["AssignedMemory"] == 2048 * 256
    vm.terminate()


def test_disk_that_cannot_be_attached_is_refused_and_its_slot_stays_free(emulated_vm: LinuxVm, tmp_path: Path) -> None:
    vm = emulated_vm
    vm.booted()
    directory = tmp_path / "read-only"
    directory.mkdir()
    disk = directory / "disk.vhdx"
    disk.write_bytes(bytes(4096))
    vm.client.ok("GrantVmAccess", ID, str(disk))
    place = f"{DEVICES}Scsi/{CONTROLLERS[0]}/Attachments/0"
    attachment = {"Type": "VirtualDisk", "Path": str(disk)}
    subprocess.run(["mount", "--bind", "-o", "ro", str(directory), str(directory)], check=True)
    try:
        assert vm.modify(place, "Add", attachment) == E_FAIL
        assert vm.modify(place, "Add", attachment | {"ReadOnly": True}) == 0
    finally:
        vm.terminate()
        subprocess.run(["umount", str(directory)], check=True)


def without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("RUNHCS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_vm_with_an_agent_that_cannot_be_built_names_the_next_step(
    tmp_path: Path, start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_go(tmp_path, monkeypatch)
    emulator = start_emulator()
    with WireClient(emulator.directory) as client:
        vm = LinuxVm(emulator, client, tmp_path, "gcs")
        code, text = start_refused(vm, vm.document())
        assert code == E_FAIL and "install Go" in text
        vm.close()


def test_emulator_is_not_started_with_an_agent_that_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_go(tmp_path, monkeypatch)
    directory = tmp_path / "instance"
    command = [sys.executable, "-m", "runhcs", "emulator", "--directory", str(directory)]
    result = subprocess.run([*command, "start", "--linux-guest", "gcs"], capture_output=True, text=True)
    assert result.returncode == 1 and "install Go" in result.stderr
    assert not directory.exists()


def test_emulator_started_with_microsofts_agent_boots_it(
    gcs: Path, tmp_path: Path, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator("--linux-guest", "gcs")
    with WireClient(emulator.directory) as client:
        vm = LinuxVm(emulator, client, tmp_path, "")  # the default boot files
        vm.booted()
        assert [system["Guest"] for system in emulator.control("status")["systems"]] == ["gcs"]
        eventually(lambda: b"GCS started" in vm.log, "the agent's first line in the log")
        vm.terminate()
        vm.close()


def test_server_2019_has_neither_kernel_boot_nor_mappings(
    tmp_path: Path, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator("--build", "17763")
    with WireClient(emulator.directory) as client:
        vm = LinuxVm(emulator, client, tmp_path, "emulated")
        document = vm.document()
        assert create_refused(vm, document) == INVALID_JSON
        entry = {"DeviceType": "VmbFs", "DevicePath": "\\kernel", "VmbFsRootPath": str(vm.boot_files)}
        entry["OptionalData"] = "initrd=/initrd.img" + COMMAND_LINE
        document["VirtualMachine"]["Chipset"] = {"Uefi": {"BootThis": entry}}
        vm.booted(document)
        layer = tmp_path / "layer.vhd"
        layer.write_bytes(bytes(8192))
        device = f"{DEVICES}VirtualPMem/Devices/0"
        assert vm.modify(f"{device}/Mappings/0", "Add", {"HostPath": str(layer)}) == INVALID_JSON
        share = {"Name": "1", "Path": str(tmp_path), "Flags": 0x84, "AllowedFiles": ["layer.vhd"]}
        assert vm.modify(f"{DEVICES}Plan9/Shares", "Add", share) == INVALID_JSON
        assert vm.modify(device, "Add", {"HostPath": str(layer), "ReadOnly": True}) == 0
        vm.terminate()
        vm.close()


def test_console_pipe_has_a_shell_whose_end_is_the_end_of_the_vm(linux_vm: LinuxVm, emulator: Emulator) -> None:
    document = linux_vm.document(ComPorts={"0": {"NamedPipe": "\\\\.\\pipe\\console"}})
    command = '-- -e 1 sh -c "/bin/vsockexec -e 109 /bin/gcs -v4 -log-format json -loglevel debug & exec sh"'
    line = f" 8250_core.nr_uarts=1 8250_core.skip_txen_test=1 console=ttyS0,115200 nr_cpus=2 {command}"
    document["VirtualMachine"]["Chipset"]["LinuxKernelDirect"]["KernelCmdLine"] = line
    linux_vm.booted(document)
    with socket.socket(socket.AF_UNIX) as console:
        console.settimeout(60)
        console.connect(str(emulator.directory / "pipe" / "console"))
        console.sendall(b"echo $((6 * 7)) from $(hostname)\n")
        received = b""
        while b"42 from utilityvm" not in received:
            received += console.recv(4096)
        console.sendall(b"exit 0\n")
        assert linux_vm.wait_exited()["ExitType"] == "GracefulExit"
    assert not (emulator.directory / "pipe" / "console").exists()
