"""How a Linux VM boots: its boot files, its kernel command line, and the guest that stands for the image.

The boot files of the emulator are small text files, `{"hcs_emulator": {"linux_guest": "emulated"}}`. The content of the
initrd (or of the root file system's VHD) that a VM's document names selects the guest. Any other content, such as a
real initrd, selects the emulator's default guest.
"""

from __future__ import annotations

import json
import os
from typing import Any

import attrs

from hcs_emulator.service.errors import (
    ERROR_FILE_NOT_FOUND,
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_SUPPORTED,
    HcsError,
)
from hcs_emulator.service.virtual_machine import kernel_arguments

GUESTS = ("emulated", "gcs")
DEFAULT_GUEST = "emulated"
DIRECTORY = "LinuxBootFiles"
_FILES = ("vmlinux", "kernel", "initrd.img")
_LARGEST_DESCRIPTION = 4096
_CHIPSET = "$.VirtualMachine.Chipset"


def is_linux(document: dict[str, Any]) -> bool:
    """Whether the `VirtualMachine` part of a document boots Linux: a kernel, or a boot loader from a host directory."""
    chipset = document.get("Chipset") or {}
    boot = (chipset.get("Uefi") or {}).get("BootThis") or {}
    return "LinuxKernelDirect" in chipset or "VmbFsRootPath" in boot


def write_boot_files(directory: str, default: str) -> None:
    """Create the boot files of an instance: the default guest's, and those of each guest in a subdirectory."""
    root = os.path.join(directory, DIRECTORY)
    for place, guest in ((root, default), *((os.path.join(root, guest), guest) for guest in GUESTS)):
        os.makedirs(place, exist_ok=True)
        for name in _FILES:
            with open(os.path.join(place, name), "w") as file:
                json.dump({"hcs_emulator": {"linux_guest": guest}}, file)
                file.write("\n")


@attrs.frozen
class Boot:
    """What a VM boots. `image` is the file that selects the guest."""

    command: kernel_arguments.BootCommand
    image: str

    def guest(self, default: str) -> str:
        try:
            with open(self.image, "rb") as file:
                content = file.read(_LARGEST_DESCRIPTION)
            described = json.loads(content.rstrip(b"\0"))["hcs_emulator"]["linux_guest"]
        except (OSError, ValueError, KeyError, TypeError):
            return default
        if described not in GUESTS:
            raise HcsError(
                ERROR_INVALID_PARAMETER,
                f"{self.image} names the guest {described!r}; there are {' and '.join(GUESTS)}",
                data=self.image,
            )
        return str(described)


def boot_of(document: dict[str, Any]) -> Boot:
    """Check the files and the command line as the firmware and the kernel would; raises HcsError."""
    chipset = document["Chipset"]
    devices = document.get("Devices") or {}
    if "LinuxKernelDirect" in chipset:
        if "Uefi" in chipset:
            raise _refuse("a VM boots a kernel directly or by UEFI, not both", _CHIPSET)
        direct = chipset["LinuxKernelDirect"]
        place = f"{_CHIPSET}.LinuxKernelDirect.KernelCmdLine"
        _require_file("kernel", direct["KernelFilePath"])
        command = _parse(direct.get("KernelCmdLine", ""), place)
        initrd = direct.get("InitRdPath", "")
    else:
        entry = chipset["Uefi"]["BootThis"]
        if entry["DeviceType"] != "VmbFs":
            raise _refuse(f"the emulator does not boot Linux from {entry['DeviceType']}", f"{_CHIPSET}.Uefi.BootThis")
        place = f"{_CHIPSET}.Uefi.BootThis.OptionalData"
        root = entry["VmbFsRootPath"]
        _require_file("kernel", _below(root, entry.get("DevicePath", "")))
        command = _parse(entry.get("OptionalData", ""), place)
        name = command.kernel.pop("initrd", None)
        initrd = _below(root, name) if name else ""
    if initrd:
        _require_file("initrd", initrd)
        return Boot(command, initrd)
    return Boot(command, _root_disk(command, devices, place))


def _root_disk(command: kernel_arguments.BootCommand, devices: dict[str, Any], place: str) -> str:
    """The disk with the root file system, for a VM without initrd."""
    root = command.kernel.get("root")
    if root is None:
        raise _refuse("the kernel has neither an initrd nor a root device", place)
    if command.kernel.get("init") != "/init":
        raise _refuse("the image's init is /init: the command line does not name it", place)
    memory = (devices.get("VirtualPMem") or {}).get("Devices") or {}
    if root == "/dev/pmem0" and "0" in memory:
        return str(memory["0"]["HostPath"])
    if root == "/dev/sda":
        for controller in (devices.get("Scsi") or {}).values():
            attachment = (controller.get("Attachments") or {}).get("0")
            if attachment is not None:
                return str(attachment["Path"])
    raise _refuse(f"the root device {root} is no disk of the VM", place)


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.replace("\\", "/").lstrip("/"))


def _require_file(what: str, path: str) -> None:
    if not os.path.isfile(path):
        raise HcsError(ERROR_FILE_NOT_FOUND, f"the {what} {path} does not exist", data=path)


def _parse(line: str, place: str) -> kernel_arguments.BootCommand:
    try:
        return kernel_arguments.parse(line)
    except kernel_arguments.CommandLineError as error:
        raise HcsError(ERROR_INVALID_PARAMETER, str(error), data=place) from None


def _refuse(problem: str, place: str) -> HcsError:
    return HcsError(ERROR_NOT_SUPPORTED, problem, data=place)
