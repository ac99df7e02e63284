"""The kernel's command line, for each combination of settings: exact texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.oci.annotations import container as container_names
from shim.oci.annotations import linux as names
from shim.oci.annotations import vm as vm_names
from shim.oci.spec import Spec
from shim.uvm.linux import kernel_arguments
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.settings import LinuxVmSettings

AGENT = "/bin/vsockexec -e 109 /bin/gcs -v4 -log-format json -loglevel info"
COMMON = " initcall_blacklist=virtio_vsock_init"
QUIET = f"{COMMON} 8250_core.nr_uarts=0 panic=-1 quiet"
END = "nr_cpus=4 brd.rd_nr=0 pmtmr=0 -- -e 1"
DEFAULT = f"{QUIET} pci=off {END} {AGENT}"


@pytest.fixture
def boot_directory(tmp_path: Path) -> Path:
    for name in ("vmlinux", "kernel", "initrd.img"):
        (tmp_path / name).touch()
    return tmp_path


def settings(directory: Path, annotations: dict[str, str] | None = None, *, kernel_direct: bool = True) -> Any:
    given = {
        container_names.VM_BOOT_FILES: str(directory),
        container_names.VM_PROCESSOR_COUNT: "4",
        **(annotations or {}),
    }
    spec = Spec({"linux": {}, "annotations": given})
    boot = BootFiles(spec.annotations, kernel_direct=kernel_direct)
    return LinuxVmSettings(spec, boot, 8, 20348, lambda sentence: None)


def line(directory: Path, annotations: dict[str, str] | None = None, *, kernel_direct: bool = True) -> str:
    return kernel_arguments.build(settings(directory, annotations, kernel_direct=kernel_direct))


def test_initrd_with_direct_boot_begins_with_blank(boot_directory: Path) -> None:
    assert line(boot_directory) == DEFAULT


def test_initrd_with_uefi_names_the_initrd(boot_directory: Path) -> None:
    assert line(boot_directory, kernel_direct=False) == f"initrd=/initrd.img{DEFAULT}"
    assert line(boot_directory, {names.KERNEL_DIRECT: "false"}) == f"initrd=/initrd.img{DEFAULT}"


def test_vhd_is_root_on_vpmem_or_scsi(boot_directory: Path) -> None:
    (boot_directory / "rootfs.vhd").touch()
    assert line(boot_directory) == f"root=/dev/pmem0 ro rootwait init=/init{DEFAULT}"
    assert line(boot_directory, {names.VPMEM_COUNT: "0"}) == f"root=/dev/sda ro rootwait init=/init{DEFAULT}"
    assert line(boot_directory, {vm_names.PHYSICALLY_BACKED: "true"}).startswith("root=/dev/sda ")
    assert line(boot_directory, {names.ROOTFS_TYPE: "initrd"}) == DEFAULT


def test_writable_overlays_need_vhd(boot_directory: Path) -> None:
    wanted = {names.WRITABLE_OVERLAYS: "true"}
    assert line(boot_directory, wanted) == DEFAULT
    (boot_directory / "rootfs.vhd").touch()
    assert line(boot_directory, wanted).endswith(f"-- -e 1 -w {AGENT}")


def test_console_runs_shell_and_keeps_panics(boot_directory: Path) -> None:
    serial = "8250_core.nr_uarts=1 8250_core.skip_txen_test=1 console=ttyS0,115200"
    expected = f'{COMMON} {serial} pci=off {END} sh -c "{AGENT} & exec sh"'
    assert line(boot_directory, {vm_names.CONSOLE_PIPE: "\\\\.\\pipe\\console"}) == expected


@pytest.mark.parametrize(("console", "expected"), [("", ""), ("\\\\.\\pipe\\c", " console=ttyAMA0,115200")])
def test_arm64_has_other_serial_port(boot_directory: Path, console: str, expected: str) -> None:
    given = {vm_names.CONSOLE_PIPE: console} if console else {}
    built = kernel_arguments.build(settings(boot_directory, given), "arm64")
    assert built.startswith(f"{COMMON}{expected} p")
    assert "8250" not in built


def test_kernel_options_stand_before_pci(boot_directory: Path) -> None:
    given = {names.KERNEL_OPTIONS: "a=1 b"}
    assert line(boot_directory, given) == f"{QUIET} a=1 b pci=off {END} {AGENT}"


def test_pci_is_on_with_annotation(boot_directory: Path) -> None:
    assert line(boot_directory, {names.VPCI_ENABLED: "true"}) == f"{QUIET} {END} {AGENT}"


def test_agent_arguments_are_in_order(boot_directory: Path) -> None:
    found = settings(
        boot_directory,
        {
            names.GUEST_ARGUMENTS: "-x 1",
            names.NO_TIME_SYNC: "true",
            container_names.DUMP_LOCATION: "/dumps/core",
        },
    )
    found.log_level, found.scrub_logs = "debug", False
    assert kernel_arguments.build(found).endswith(
        "/bin/gcs -v4 -log-format json -loglevel debug -x 1 -disable-time-sync -scrub-logs=false "
        "-core-dump-location /dumps/core"
    )


def test_kernel_is_told_requested_processors(boot_directory: Path) -> None:
    given = {container_names.VM_PROCESSOR_COUNT: "64"}
    assert " nr_cpus=64 " in line(boot_directory, given)
    assert settings(boot_directory, given).processors == 8
