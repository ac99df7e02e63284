"""Document, settings and boot files of a Linux VM, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.oci.annotations import container as container_names
from shim.oci.annotations import linux as names
from shim.oci.annotations import vm as vm_names
from shim.oci.errors import InvalidSpec
from shim.oci.spec import Spec
from shim.platform import host
from shim.uvm.linux import document, kernel_arguments
from shim.uvm.linux import settings as vm_settings
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.settings import LinuxVmSettings
from shim.uvm.scsi import CONTROLLERS

BUILD = 20348
FIRST = "df6d0690-79e5-55b6-a5ec-c1e2f77f580a"
GUID = "a8b1c9d0-1111-4222-8333-444455556666"
DEVICE = "PCIP\\VEN_10DE&DEV_1234"


class Case:
    def __init__(
        self, directory: Path, annotations: dict[str, str] | None = None, windows: dict[str, Any] | None = None, *,
        build: int = BUILD,
    ) -> None:  # fmt: skip
        given = {container_names.VM_BOOT_FILES: str(directory), **(annotations or {})}
        sections: dict[str, Any] = {"linux": {}, "annotations": given}
        if windows is not None:
            sections["windows"] = windows
        self.spec = Spec(sections)
        self.warnings: list[str] = []
        boot = BootFiles(self.spec.annotations, kernel_direct=build >= 18286)
        vm_settings.check(self.spec.annotations, boot, build)
        boot.check()
        self.settings = LinuxVmSettings(self.spec, boot, 8, build, self.warnings.append)
        self.document = document.build(self.settings)
        self.machine: dict[str, Any] = self.document["VirtualMachine"]
        self.devices: dict[str, Any] = self.machine["Devices"]
        self.memory: dict[str, Any] = self.machine["ComputeTopology"]["Memory"]
        self.processor: dict[str, Any] = self.machine["ComputeTopology"]["Processor"]


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    for name in ("vmlinux", "kernel", "initrd.img"):
        (tmp_path / name).touch()
    return tmp_path


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(InvalidSpec) as caught:
        Case(*arguments, **options)
    return str(caught.value)


class TestDocument:
    def test_default_document_is_complete(self, boot: Path) -> None:
        case = Case(boot, {container_names.VM_PROCESSOR_COUNT: "2"})
        assert case.document == {
            "Owner": case.document["Owner"],
            "SchemaVersion": {"Major": 2, "Minor": 1},
            "ShouldTerminateOnLastHandleClosed": True,
            "VirtualMachine": {
                "StopOnReset": True,
                "Chipset": {
                    "LinuxKernelDirect": {
                        "KernelFilePath": str(boot / "vmlinux"),
                        "InitRdPath": str(boot / "initrd.img"),
                        "KernelCmdLine": kernel_arguments.build(case.settings),
                    }
                },
                "ComputeTopology": {
                    "Memory": {"SizeInMB": 1024, "AllowOvercommit": True},
                    "Processor": {"Count": 2},
                },
                "Devices": {
                    "Scsi": {FIRST: {}},
                    "VirtualPMem": {"MaximumCount": 64, "MaximumSizeBytes": 4 << 30},
                    "HvSocket": {"HvSocketConfig": {"DefaultBindSecurityDescriptor": "D:P(A;;FA;;;SY)(A;;FA;;;BA)"}},
                    "Plan9": {},
                },
            },
        }

    def test_vhd_on_vpmem_takes_device_0(self, boot: Path) -> None:
        (boot / "rootfs.vhd").touch()
        case = Case(boot)
        assert case.devices["VirtualPMem"]["Devices"] == {
            "0": {"HostPath": str(boot / "rootfs.vhd"), "ReadOnly": True, "ImageFormat": "Vhd1"}
        }
        assert "InitRdPath" not in case.machine["Chipset"]["LinuxKernelDirect"]

    def test_vhd_without_vpmem_is_a_disk_of_the_first_of_four_controllers(self, boot: Path) -> None:
        (boot / "rootfs.vhd").touch()
        case = Case(boot, {names.VPMEM_COUNT: "0"})
        disk = {"Type": "VirtualDisk", "Path": str(boot / "rootfs.vhd"), "ReadOnly": True}
        assert case.devices["Scsi"][FIRST] == {"Attachments": {"0": disk}}
        assert list(case.devices["Scsi"]) == list(CONTROLLERS)
        assert "VirtualPMem" not in case.devices

    def test_uefi_boots_kernel_on_old_builds(self, boot: Path) -> None:
        case = Case(boot, build=17763)
        assert case.machine["Chipset"] == {
            "Uefi": {
                "BootThis": {
                    "DeviceType": "VmbFs",
                    "DevicePath": "\\kernel",
                    "VmbFsRootPath": str(boot),
                    "OptionalData": kernel_arguments.build(case.settings),
                }
            }
        }
        assert not case.settings.vpmem_multi_mapping
        assert Case(boot, {names.KERNEL_DIRECT: "false"}).machine["Chipset"]["Uefi"]

    def test_kernel_is_used_where_no_vmlinux_is(self, boot: Path) -> None:
        (boot / "vmlinux").unlink()
        assert Case(boot).machine["Chipset"]["LinuxKernelDirect"]["KernelFilePath"] == str(boot / "kernel")

    def test_preferred_root_file_system_overrides_files(self, boot: Path) -> None:
        (boot / "rootfs.vhd").touch()
        assert Case(boot, {names.ROOTFS_TYPE: "initrd"}).settings.boot.rootfs_name == "initrd.img"
        case = Case(boot, {names.ROOTFS_TYPE: "squashfs"})
        assert case.settings.boot.is_vhd
        assert "'initrd' or 'vhd'" in case.spec.annotations.warnings[0]

    def test_physically_backed_vm_has_no_vpmem(self, boot: Path) -> None:
        case = Case(boot, {vm_names.PHYSICALLY_BACKED: "true"})
        assert case.memory == {"SizeInMB": 1024}
        assert "VirtualPMem" not in case.devices and len(case.devices["Scsi"]) == 4
        assert case.settings.devices_physically_backed

    def test_memory_and_processor_come_from_windows_resources(self, boot: Path) -> None:
        resources = {
            "memory": {"limit": 2049 << 20},
            "cpu": {"count": 3, "maximum": 5000, "shares": 7},
            "storage": {"iops": 9, "bps": 10},
        }
        case = Case(boot, windows={"resources": resources})
        assert case.memory["SizeInMB"] == 2050
        assert case.processor == {"Count": 3, "Limit": 5000, "Weight": 7}
        assert case.machine["StorageQoS"] == {"IopsMaximum": 9, "BandwidthMaximum": 10}

    def test_options_of_the_document(self, boot: Path) -> None:
        case = Case(
            boot,
            {
                names.COLD_DISCARD_HINT: "true",
                vm_names.CONSOLE_PIPE: "\\\\.\\pipe\\c",
                vm_names.RESOURCE_PARTITION: GUID,
                f"{vm_names.HVSOCKET_SERVICE}{GUID}": '{"AllowWildcardBinds": true}',
                names.VPMEM_COUNT: "12",
                names.VPMEM_SIZE: "8192",
            },
        )
        assert case.memory["EnableColdDiscardHint"] is True
        assert case.devices["ComPorts"] == {"0": {"NamedPipe": "\\\\.\\pipe\\c"}}
        assert case.machine["ResourcePartitionId"] == GUID
        assert case.devices["HvSocket"]["HvSocketConfig"]["ServiceTable"] == {GUID: {"AllowWildcardBinds": True}}
        assert case.devices["VirtualPMem"] == {"MaximumCount": 12, "MaximumSizeBytes": 8192}

    def test_numa_nodes_propagate_their_affinity_to_devices(self, boot: Path) -> None:
        numa = {
            vm_names.NUMA_PROCESSORS_PER_NODE: "2",
            vm_names.NUMA_MEMORY_PER_NODE: "512",
            vm_names.ALLOW_OVERCOMMIT: "false",
        }
        devices = {"devices": [{"idType": "gpu", "id": f"{DEVICE}\\3"}, {"idType": "class", "id": "x"}]}
        case = Case(boot, numa, devices, build=26100)
        (assigned,) = case.devices["VirtualPci"].values()
        assert assigned == {
            "Functions": [{"DeviceInstancePath": DEVICE, "VirtualFunction": 3}],
            "PropagateNumaAffinity": True,
        }
        assert case.memory["SlitType"] == "FirmwareFallbackMeasured"
        assert case.machine["ComputeTopology"]["Numa"] == {"MaxSizePerNode": 512}
        assert case.warnings and "device type class invalid" in case.warnings[0]
        assert not case.spec.windows.has("devices")

    def test_network_namespace_of_the_host_is_an_adapter(self, boot: Path) -> None:
        case = Case(boot)
        case.settings.netns = "/run/netns/cni-1"
        devices = document.build(case.settings)["VirtualMachine"]["Devices"]
        assert list(devices["NetworkAdapters"].values()) == [{"EndpointId": "/run/netns/cni-1"}]

    def test_bad_numbers_count_as_absent(self, boot: Path) -> None:
        case = Case(boot, {names.VPMEM_COUNT: "many", names.VPMEM_SIZE: "-1"})
        assert case.devices["VirtualPMem"] == {"MaximumCount": 64, "MaximumSizeBytes": 4 << 30}
        assert len(case.spec.annotations.warnings) == 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("annotations", "build", "words"),
        [
            ({names.VPMEM_COUNT: "129"}, BUILD, "VPMem device count cannot be greater than 128"),
            ({names.VPMEM_SIZE: "4097"}, BUILD, "VPMemSizeBytes must be a multiple of 4096"),
            ({names.KERNEL_DIRECT: "true"}, 17763, "KernelDirectBoot is not supported on builds older than 18286"),
            (
                {names.COLD_DISCARD_HINT: "true"},
                18362,
                "EnableColdDiscardHint is not supported on builds older than 18967",
            ),
            (
                {vm_names.DEFERRED_COMMIT: "true", vm_names.ALLOW_OVERCOMMIT: "false"},
                BUILD,
                "EnableDeferredCommit is not supported on physically backed VMs",
            ),
            (
                {vm_names.CPU_GROUP: GUID, vm_names.RESOURCE_PARTITION: GUID},
                BUILD,
                "resource partition ID and CPU group ID cannot be set at the same time",
            ),
        ],
    )
    def test_bad_options_begin_with_microsofts_words(
        self, boot: Path, annotations: dict[str, str], build: int, words: str
    ) -> None:
        assert refusal(boot, annotations, build=build).startswith(f"UVM options incorrect: {words}: ")

    def test_size_of_no_vpmem_devices_is_not_checked(self, boot: Path) -> None:
        assert "VirtualPMem" not in Case(boot, {names.VPMEM_COUNT: "0", names.VPMEM_SIZE: "4097"}).devices

    def test_memory_devices_on_arm64_are_refused(self, boot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(host, "architecture", lambda: "arm64")
        words = "UVM options incorrect: VPMem devices are not supported on ARM64: "
        assert refusal(boot, {names.VPMEM_COUNT: "1"}).startswith(words)
        assert "VirtualPMem" not in Case(boot).devices, "there are none by default"

    def test_errors_of_the_document_have_no_prefix(self, boot: Path) -> None:
        assert refusal(boot, {vm_names.CPU_GROUP: GUID}, build=18362).startswith("cpu group assignment on create")
        numa = {vm_names.NUMA_PROCESSORS_PER_NODE: "2", vm_names.NUMA_MEMORY_PER_NODE: "512"}
        assert refusal(boot, numa).startswith("vNUMA topology is not supported on 20348")
        assert refusal(boot, numa, build=26100).startswith("vNUMA supports only Physical memory backing type")

    def test_missing_boot_files_are_named(self, boot: Path) -> None:
        (boot / "initrd.img").unlink()
        assert refusal(boot).startswith(f"boot file: '{boot / 'initrd.img'}' not found")
        (boot / "vmlinux").unlink()
        (boot / "kernel").unlink()
        assert refusal(boot).startswith(f"kernel: '{boot / 'kernel'}' not found")
        assert str(boot) in refusal(boot) and container_names.VM_BOOT_FILES in refusal(boot)

    def test_device_twice_is_refused(self, boot: Path) -> None:
        devices = [{"idType": "vpci", "id": DEVICE}, {"idType": "gpu", "id": DEVICE}]
        assert refusal(boot, windows={"devices": devices}).startswith(
            f"device {DEVICE} with index 0 is specified multiple times"
        )


def test_default_directory_is_the_emulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCS_EMULATOR_DIR", str(tmp_path))
    assert BootFiles(Spec({"linux": {}}).annotations, kernel_direct=True).directory == f"{tmp_path}/LinuxBootFiles"
