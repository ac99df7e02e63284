r"""Host-process containers in a VM: processes of the VM itself, with the container's files in a directory of the VM.

The guest implements them; this module sets the container's document and its process documents. The command line is run
by `cmd`, since the program has to be looked up in the guest. A container of a pod inherits two of the pod's annotations
(`WindowsGuest.admit`): its user, and its root path.
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
# Directories that the VM needs.
_RESERVED = ("c:\\windows", "c:\\mounts", "c:\\efi", "c:\\sandboxmounts")


def validate(spec: Spec, vm: Vm) -> None:
    """Refuse a host-process container that this VM cannot run."""
    if not spec.is_host_process:
        return
    if not vm.gcs.supports(CAPABILITY):
        detail = "the VM's image is too old for host-process containers; use process isolation or a newer image"
        raise HcsError(NOT_SUPPORTED, f"host-process container in {vm.id}", detail=detail)
    root(spec)


def root(spec: Spec) -> str:
    """The root path of the container; "" leaves it to the guest."""
    path = spec.annotations.text(names.HOST_PROCESS_ROOT)
    plain = path.replace("/", "\\").rstrip("\\").lower()
    if path and (plain[1:3] != ":\\" or ".." in plain.split("\\")):
        raise InvalidSpec(f"annotation {names.HOST_PROCESS_ROOT} is {path!r}: give an absolute path, such as C:\\hpc")
    if any(plain == reserved or plain.startswith(reserved + "\\") for reserved in _RESERVED):
        raise InvalidSpec(f"annotation {names.HOST_PROCESS_ROOT} is {path!r}, which the VM needs itself: give another")
    return path


def set_isolation(spec: Spec, container: Document) -> None:
    """Set the isolation type and the root path in the container's document."""
    if not spec.is_host_process:
        return
    container["IsolationType"] = "HostProcess"
    if path := root(spec):
        container["Storage"]["PrivilegedContainerRootPath"] = path


def wrap_command(spec: Spec, parameters: Document) -> Document:
    """Adapt the process document of one of its processes."""
    if not spec.is_host_process:
        return parameters
    line = parameters["CommandLine"]
    program = line.lstrip().partition(" ")[0].strip('"').lower()
    if program not in ("cmd", "cmd.exe"):
        parameters["CommandLine"] = f"cmd /c {line}"
    if spec.annotations.is_exactly_true(names.HOST_PROCESS_INHERIT_USER):
        parameters["User"] = SYSTEM_USER
    return parameters
