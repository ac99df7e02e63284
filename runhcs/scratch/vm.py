"""The utility VM that formats a scratch disk.

The VM is small and has no containers: its guest agent runs `mkfs.ext4` as a process of the VM itself. Each step has a
time limit: the boot (`shim.uvm.vm`), the calls of HCS and of the guest, and the format. The VM is terminated in every
case, also by HCS if this process is killed, and a disk that was not completed is removed. The counterpart is
https://github.com/microsoft/hcsshim/blob/main/internal/lcow/scratch.go.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from shim.container.ledger import Ledger
from shim.hcs_bindings import virtual_disk
from shim.hcs_bindings.errors import HcsError, is_already_exists
from shim.logs import Log
from shim.oci.annotations import linux, vm
from shim.oci.spec import Spec
from shim.uvm.gcs.connection import THE_VM
from shim.uvm.gcs.process import VmProcess
from shim.uvm.linux.guest import LinuxGuest
from shim.uvm.scsi import DiskMount
from shim.uvm.vm import Vm

VM_ID = "createscratch-uvm"
MEMORY_MB = 512
BLOCK_SIZE = 1 << 20
GB = 1 << 30
MKFS = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-O", "^has_journal,sparse_super2,^resize_inode"]
# A disk of 20 GB takes less than a second; the inode tables of one of several TB take minutes.
FORMAT_SECONDS = 600.0
MAX_OUTPUT = 1 << 16


class FormatError(OSError):
    """mkfs.ext4 failed; the message has its output."""


class ScratchGuest(LinuxGuest):
    """A Linux guest whose VM belongs to another owner than the shim."""

    owner = ""

    def document(self, vm_id: str) -> dict[str, Any]:
        return {**super().document(vm_id), "Owner": self.owner}


def create_formatted(path: str, size_gb: int, virtual_memory: bool, owner: str, log: Log) -> None:
    """Create `path`, which must not exist. On failure it does not exist."""
    with tempfile.TemporaryDirectory(prefix="create-scratch-") as directory:
        machine = _boot(directory, virtual_memory, owner, log)
        try:
            virtual_disk.create_vhdx(path, size_gb * GB, BLOCK_SIZE)
            try:
                _format(machine, path, log)
            except BaseException:
                machine.close()  # it has the disk open
                os.remove(path)
                raise
        finally:
            machine.close()


def _boot(directory: str, virtual_memory: bool, owner: str, log: Log) -> Vm:
    annotations = {vm.VM_MEMORY_SIZE_IN_MB: str(MEMORY_MB), linux.VPMEM_COUNT: "1" if virtual_memory else "0"}
    if not virtual_memory:
        annotations[vm.ALLOW_OVERCOMMIT] = "false"

    def boot(vm_id: str) -> Vm:
        spec = Spec({"linux": {}, "annotations": annotations})
        guest = ScratchGuest.from_spec(spec, [], directory, log)
        assert isinstance(guest, ScratchGuest)
        guest.owner = owner
        return Vm.boot(vm_id, guest, Ledger(directory), log)

    try:
        return boot(VM_ID)
    except HcsError as error:
        if not is_already_exists(error):
            raise
        # Another process creates a disk at the same time.
        return boot(f"{VM_ID}-{os.getpid()}")


def _format(machine: Vm, path: str, log: Log) -> None:
    disk = machine.disks.attach(path, mount=DiskMount(block_device=True))
    log.debug("lcow::CreateScratch device attached", dest=path, blockdev=disk.guest_path)
    try:
        code, output = _run(machine, [*MKFS, disk.guest_path])
    except BaseException:
        disk.release()
        raise
    disk.release()
    if code:
        raise FormatError(f"mkfs.ext4 failed with exit code {code} on {path}: {output.strip() or 'no output'}")


def _run(machine: Vm, arguments: list[str]) -> tuple[int, str]:
    """Run a program of the VM; its exit code, and what it wrote to stderr."""
    from _socket import socket

    process = VmProcess(
        machine, THE_VM, {**machine.guest.command_parameters(arguments, "/"), "CreateStdErrPipe": True}
    )
    assert process.stderr is not None
    stream, process.stderr = socket(fileno=process.stderr), None
    output = b""
    try:
        stream.settimeout(FORMAT_SECONDS)
        while len(output) < MAX_OUTPUT and (data := stream.recv(4096)):
            output += data
        stream.close()
        return process.wait(FORMAT_SECONDS).code, output.decode("utf-8", "replace")
    finally:
        stream.close()
        process.close()
