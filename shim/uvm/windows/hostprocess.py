r"""Host-process containers in a VM: processes of the VM itself, with the container's files at a place among the VM's.

The guest does it; here is what it has to be told. The command line goes through `cmd`, since the program is to be
looked for inside. A container of a pod takes two of the pod's annotations for its own: whose rights it gets, and where
its files are.
"""

from __future__ import annotations

from shim.hcs_bindings.errors import NOT_SUPPORTED, HcsError
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec
from shim.uvm.windows.commands import SYSTEM_USER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.oci.spec import Spec
    from shim.uvm.vm import Vm

    Document = dict[str, Any]

CAPABILITY = "HostProcessContainerSupported"
# Directories of the VM that are no place for a container's files.
_TAKEN = ("c:\\windows", "c:\\mounts", "c:\\efi", "c:\\sandboxmounts")


def validate(spec: Spec, vm: Vm) -> None:
    """Before a container is made in the VM: may it be one, and with whose annotations?"""
    if not spec.is_host_process:
        return
    if not vm.gcs.supports(CAPABILITY):
        detail = "the VM's image is too old for host-process containers; use process isolation or a newer image"
        raise HcsError(NOT_SUPPORTED, f"host-process container in {vm.id}", detail=detail)
    root(spec)


def root(spec: Spec) -> str:
    """Where its files are to be; "" leaves it to the guest."""
    path = spec.annotations.text(names.HOST_PROCESS_ROOT)
    plain = path.replace("/", "\\").rstrip("\\").lower()
    if path and (plain[1:3] != ":\\" or ".." in plain.split("\\")):
        raise InvalidSpec(f"annotation {names.HOST_PROCESS_ROOT} is {path!r}: give an absolute path, such as C:\\hpc")
    if any(plain == taken or plain.startswith(taken + "\\") for taken in _TAKEN):
        raise InvalidSpec(f"annotation {names.HOST_PROCESS_ROOT} is {path!r}, which the VM needs itself: give another")
    return path


def set_isolation(spec: Spec, container: Document) -> None:
    """Say it in the container's document."""
    if not spec.is_host_process:
        return
    container["IsolationType"] = "HostProcess"
    if path := root(spec):
        container["Storage"]["PrivilegedContainerRootPath"] = path


def wrap_command(spec: Spec, parameters: Document) -> Document:
    """A process of it."""
    if not spec.is_host_process:
        return parameters
    line = parameters["CommandLine"]
    program = line.lstrip().partition(" ")[0].strip('"').lower()
    if program not in ("cmd", "cmd.exe"):
        parameters["CommandLine"] = f"cmd /c {line}"
    if spec.annotations.is_exactly_true(names.HOST_PROCESS_INHERIT_USER):
        parameters["User"] = SYSTEM_USER
    return parameters
