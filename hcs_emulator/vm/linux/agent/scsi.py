"""SCSI disks: finding, formatting, mounting and unplugging them."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from typing import Any

from hcs_emulator.vm.linux.agent import log, mounts, syscalls, waiting
from hcs_emulator.vm.linux.agent.errors import GuestError, failed, panic, reason

CONTROLLERS = (
    "df6d0690-79e5-55b6-a5ec-c1e2f77f580a",
    "0110f83b-de10-5172-a266-78bca56bf50a",
    "b5d2d8d4-3a75-51bf-945b-3444dc6b8579",
    "305891a9-b251-5dfe-91a2-c25d9212275b",
)
DEVICES = "/sys/bus/scsi/devices"
DEVICE_TIMEOUT = 5.0
_SUPERBLOCK, _MAGIC_OFFSET, _MAGIC = 1024, 56, b"\x53\xef"


def controller_number(controller: int) -> int:
    """The number that the kernel gave the host's controller, which may differ from the host's own."""
    if controller >= len(CONTROLLERS):
        panic(f"runtime error: index out of range [{controller}] with length {len(CONTROLLERS)}")
    directory = f"{waiting.VMBUS}/{CONTROLLERS[controller]}"
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise failed(f"open {directory}", error) from error
    for name in names:
        if name.startswith("host") and name[4:].isdecimal():
            return int(name[4:])
    raise GuestError(f"host<N> directory not found inside {directory}")


def device_path(controller: int, lun: int, partition: int) -> str:
    """The path of a disk, or of a partition, once it can be opened. `controller` is the kernel's number."""
    address = f"{controller}:0:0:{lun}"
    block = f"{DEVICES}/{address}/block"
    timed_out = "context deadline exceeded"

    def name() -> str | None:
        try:
            names = os.listdir(block)
        except FileNotFoundError:
            return None
        if len(names) > 1:
            raise GuestError(f'more than one block device could match SCSI ID "{address}"')
        return names[0] if names else None

    device = waiting.until(name, DEVICE_TIMEOUT, timed_out)
    if partition:
        entry = f"{block}/{device}/{device}{partition}"
        waiting.until(lambda: entry if os.path.exists(entry) else None, DEVICE_TIMEOUT, timed_out)
        device = f"{device}{partition}"
    path = f"/dev/{device}"
    waiting.until(lambda: _opened(path), DEVICE_TIMEOUT, f"open {path}: no such file or directory")
    return path


def _opened(path: str) -> str | None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            return None
        raise failed(f"open {path}", error) from error
    return path


def is_ext4(path: str) -> bool:
    try:
        with open(path, "rb") as device:
            device.seek(_SUPERBLOCK + _MAGIC_OFFSET)
            return device.read(2) == _MAGIC
    except OSError:
        return False


def mount(device: str, settings: dict[str, Any]) -> None:
    target = settings["MountPath"]
    if settings["BlockDev"]:
        mounts.make_directory(os.path.dirname(target), 0o700)
        try:
            os.symlink(device, target)
        except OSError as error:
            raise failed(f"symlink {device} {target}", error) from error
        return
    mounts.make_directory(target, 0o700)
    try:
        _mount(device, target, settings)
    except BaseException:
        mounts.try_remove_tree(target)
        raise


def _mount(device: str, target: str, settings: dict[str, Any]) -> None:
    present = _file_system(device, settings["Filesystem"])
    wanted = settings["Filesystem"] or present
    if settings["EnsureFilesystem"] and present != settings["Filesystem"]:
        _format(device, settings["Filesystem"])
    read_only = settings["ReadOnly"]
    try:
        syscalls.mount(device, target, wanted, syscalls.MS_RDONLY if read_only else 0, "noload" if read_only else "")
    except OSError as error:
        raise failed("mounting", error) from error
    mounts.set_propagation(target, settings["Options"])


def _file_system(device: str, requested: str) -> str:
    """gcs tries an unknown file system again after 500 ms. A disk of the emulator is ready when it can be opened."""
    if is_ext4(device):
        return "ext4"
    if not requested:
        raise GuestError("getting device's filesystem: could not get device filesystem type")
    return ""


def _format(device: str, kind: str) -> None:
    if kind not in ("ext4", "xfs"):
        raise GuestError(f"unsupported filesystem {kind} requested for device")
    program = f"mkfs.{kind}"
    started = time.monotonic()
    # Without discards and lazy tables the result is the same, and a large sparse disk is ready at once.
    options = ["-q", "-F", "-E", "nodiscard"] if kind == "ext4" else ["-f"]
    try:
        result = subprocess.run(
            [program, *options, device], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise GuestError(f"{kind} format: failed to execute {program}: {reason(error)}") from error
    if result.returncode:
        text = result.stdout.decode(errors="replace")
        raise GuestError(
            f"{kind} format: {program} failed to format {device}: failed to execute {program}: {text}: "
            f"exit status {result.returncode}"
        )
    log.debug("formatted", device=device, filesystem=kind, seconds=round(time.monotonic() - started, 3))


def unplug(controller: int, lun: int) -> None:
    """Remove a disk from the guest before the host detaches it. A disk that is not attached is no error."""
    path = f"{DEVICES}/{controller}:0:0:{lun}/delete"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed(f"open {path}", error) from error
    try:
        os.write(descriptor, b"1\n")
    finally:
        os.close(descriptor)
