r"""Mounts of a Windows container in a VM: every source has to be added to the VM first.

| source | how |
| --- | --- |
| a directory or file of the host | a VSMB share |
| `\\.\pipe\x` | the host's pipe, mapped into the VM |
| `uvm://\\.\pipe\x` | a pipe of the VM's own |
| `sandbox://x` | a directory of the VM, for all containers of the pod |
| mount type `virtual-disk`, `physical-disk`, `extensible-virtual-disk` | a SCSI disk of the VM |
| `virtual-disk://x`, `physical-disk://x`, `evd://type/x` without a type | the same, for clients that give no type |

`MountPlan` reads and checks; `MountPlan.acquire` adds the sources to the VM.
"""

from __future__ import annotations

import os

from shim.container.mounts import PIPE, MappedMounts, is_drive, mapped_directory, source_and_destination
from shim.container.process_document import is_absolute_in_container, quote
from shim.hcs_bindings.errors import UNEXPECTED, ErrorContext, HcsError
from shim.oci.errors import InvalidSpec
from shim.uvm import scsi
from shim.uvm.windows import commands
from shim.uvm.windows.vsmb import shares_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.vm import Vm

    Document = dict[str, Any]
    Release = Callable[[], None]
    #: Adds the source of one mount to the VM, and its entry to the document's mounts.
    Step = Callable[[Vm, MappedMounts, list[Release]], None]

SANDBOX = "sandbox://"
# What comes before the reason, in the words of Microsoft's shim.
SHARE_FAILED = "failed to add VSMB share to utility VM for mount"
DISK_FAILED = "adding SCSI mount"
IN_VM = "uvm://"
SANDBOX_DIRECTORY = "C:\\SandboxMounts\\"

# Beside letters and digits. The path becomes part of a command line that cmd runs as SYSTEM of the VM, and cmd has many
# characters with a meaning, some even in quotes.
_IN_NAMES = " -_.~@+"

EXTENSIBLE = "evd://"
_DISKS = {
    "physical-disk": scsi.PHYSICAL_DISK,
    "virtual-disk": scsi.VIRTUAL_DISK,
    "extensible-virtual-disk": scsi.EXTENSIBLE_DISK,
}
# Clients that cannot set a mount's type write it before the source.
_DISK_PREFIXES = {f"{kind}://": kind for kind in ("physical-disk", "virtual-disk")}
_NOT_FOR_WINDOWS = ("hugepages://", "sandbox-tmp://")


class MountPlan:
    """Mounts that have been checked. `pod_id` names the pipes of the VM."""

    def __init__(self, spec: Spec, pod_id: str) -> None:
        self._pod_id = pod_id
        self._steps: list[Step] = []
        for mount in spec.mounts:
            self._steps.append(self._step(mount))

    def acquire(self, vm: Vm, releases: list[Release]) -> MappedMounts:
        """The mounts for the container's document. What undoes each step is in `releases`, also on failure."""
        mapped = MappedMounts()
        for step in self._steps:
            step(vm, mapped, releases)
        mapped.directories += mapped.disks
        return mapped

    def _step(self, mount: Section) -> Step:
        _, destination = source_and_destination(mount)
        kind, source = _disk_kind(mount)
        if not kind and (given := mount.text("type")):
            known = ", ".join(_DISKS)
            raise InvalidSpec(
                f"invalid OCI spec - Type '{given}' not supported: {mount.path} must have none or {known}"
            )
        to_pipe = destination.lower().startswith(PIPE)
        if not kind and source.lower().startswith((PIPE, IN_VM + PIPE)):
            if not to_pipe:
                raise InvalidSpec(
                    f"{SHARE_FAILED} {mount.path}: it shows the pipe {source} at {destination}: name a pipe there too, "
                    f"{PIPE}…"
                )
            return self._pipe(source, destination)
        if to_pipe:
            raise InvalidSpec(f"{mount.path} shows {source} as a pipe: its source must be one too")
        if not is_absolute_in_container(destination) and not is_drive(destination):
            raise InvalidSpec(f"{mount.path}.destination is {destination!r}: give an absolute path, such as C:\\data")
        if kind:
            return _disk(mount, kind, source, destination)
        if source.lower().startswith(SANDBOX):
            return _sandbox_directory(mount, source, destination)
        if source.lower().startswith((IN_VM, *_NOT_FOR_WINDOWS)):
            raise InvalidSpec(
                f"unsupported UVM mount source {source}: of a Windows VM only pipes ({IN_VM}{PIPE}…) and {SANDBOX} "
                f"can be mounted; correct {mount.path}.source"
            )
        # Checked as any mount; but shares take paths with a drive, not by volume, and resolve links themselves.
        entry = mapped_directory(mount, source, destination, f"{SHARE_FAILED} {mount.path}: ")
        return _share({**entry, "HostPath": os.path.normpath(source)})

    def _pipe(self, source: str, destination: str) -> Step:
        name = destination[len(PIPE) :]
        if source.lower().startswith(IN_VM):
            inside = f"{PIPE}{self._pod_id}\\{source[len(IN_VM + PIPE) :]}"
            return lambda vm, mapped, releases: mapped.pipes.append({"ContainerPipeName": name, "HostPath": inside})

        def acquire(vm: Vm, mapped: MappedMounts, releases: list[Release]) -> None:
            lease = shares_of(vm).add_pipe(source)
            releases.append(lease.release)
            mapped.pipes.append({"ContainerPipeName": name, "HostPath": lease.guest_path})

        return acquire


def _share(entry: Document) -> Step:
    def acquire(vm: Vm, mapped: MappedMounts, releases: list[Release]) -> None:
        with ErrorContext(f"{SHARE_FAILED} {entry['ContainerPath']}"):
            lease = vm.shares.add(entry["HostPath"], read_only=bool(entry.get("ReadOnly")))
        releases.append(lease.release)
        mapped.directories.append({**entry, "HostPath": lease.guest_path})

    return acquire


def _sandbox_directory(mount: Section, source: str, destination: str) -> Step:
    inside = source[len(SANDBOX) :].replace("/", "\\").strip("\\")
    parts = inside.split("\\")
    if not all(part.strip(". ") and all(char.isalnum() or char in _IN_NAMES for char in part) for part in parts):
        raise InvalidSpec(
            f"{mount.path}.source is {source!r}: give a plain path below {SANDBOX}, of letters, digits, spaces and "
            f"{_IN_NAMES.strip()}"
        )
    path = SANDBOX_DIRECTORY + inside
    entry = _entry(mount, path, destination)

    def acquire(vm: Vm, mapped: MappedMounts, releases: list[Release]) -> None:
        # It may exist already, which is a failure to mkdir and not to dir.
        quoted = quote(path)
        code, output = commands.run_with_output(vm, f"cmd /c mkdir {quoted} & dir {quoted}", stderr=True)
        if code:
            what = f'failed to create sandbox mount directory in utility VM with exit code {code} "{output.strip()}"'
            raise HcsError(UNEXPECTED, f"{what}: {path} in {vm.id}")
        mapped.directories.append(entry)

    return acquire


def _disk_kind(mount: Section) -> tuple[str, str]:
    """The kind of disk that a mount is, "" if none, and its source without the prefix that named the kind."""
    kind, source = mount.text("type"), mount.text("source")
    for prefix, meant in _DISK_PREFIXES.items():
        if source.lower().startswith(prefix) and kind in ("", meant):
            return meant, source[len(prefix) :]
    if not kind and source.lower().startswith(EXTENSIBLE):
        return "extensible-virtual-disk", source
    return (kind if kind in _DISKS else ""), source


def _disk(mount: Section, kind: str, source: str, destination: str) -> Step:
    provider = ""
    if kind == "extensible-virtual-disk":
        scheme, (provider, _, source) = source[: len(EXTENSIBLE)], source[len(EXTENSIBLE) :].partition("/")
        if scheme.lower() != EXTENSIBLE or not provider or not source:
            raise InvalidSpec(
                f"{DISK_FAILED} {mount.path}: invalid extensible vhd path: {source or scheme}: give "
                f"{EXTENSIBLE}<type>/<path>"
            )
    elif not source:
        raise InvalidSpec(f"{mount.path}.source names no disk: give its path, such as C:\\disks\\data.vhdx")
    read_only = any(option.lower() == "ro" for option in mount.texts("options"))

    def acquire(vm: Vm, mapped: MappedMounts, releases: list[Release]) -> None:
        with ErrorContext(f"{DISK_FAILED} {mount.path}"):
            lease = vm.disks.attach(source, read_only=read_only, kind=_DISKS[kind], provider=provider)
        releases.append(lease.release)
        mapped.disks.append(_entry(mount, lease.guest_path, destination))

    return acquire


def _entry(mount: Section, path: str, destination: str) -> Document:
    entry: Document = {"HostPath": path, "ContainerPath": destination}
    if any(option.lower() == "ro" for option in mount.texts("options")):
        entry["ReadOnly"] = True
    return entry
