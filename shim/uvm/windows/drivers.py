"""Kernel drivers that a container requests for its VM: shared with it, and installed by Windows' own tool."""

from __future__ import annotations

from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec
from shim.platform import host
from shim.uvm.windows import commands
from shim.uvm.windows.vsmb import is_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.oci.spec import Spec
    from shim.uvm.vm import Vm

# pnputil's exit code when there was nothing to do: ERROR_NO_MORE_ITEMS.
NOTHING_TO_DO = 259


def from_spec(spec: Spec) -> list[str]:
    """Directories with drivers, all of which exist."""
    paths = spec.annotations.texts(names.KERNEL_DRIVERS)
    for path in paths:
        if not host.is_directory(path):
            problem = "is no directory" if host.exists(path) else "does not exist"
            raise InvalidSpec(
                f"failed to find path to drivers at {path}: it {problem}; correct annotation {names.KERNEL_DRIVERS}"
            )
    return paths


def install(vm: Vm, path: str, warn: Callable[[str], object]) -> Callable[[], None]:
    """Install what is in a directory. Returns the release of the directory's share; the driver stays installed."""
    lease = vm.shares.add(path, read_only=True)
    try:
        if not is_share(lease.guest_path):
            # A file in its place would bring its name into a command line, which SYSTEM of the VM runs.
            raise InvalidSpec(f"failed to find path to drivers at {path}: it is no directory any more; try again")
        tool = "C:\\Windows\\System32\\pnputil.exe"
        code = commands.run(vm, f"cmd /c {tool} /add-driver {lease.guest_path}/*.inf /subdirs /install")
        if code == NOTHING_TO_DO:
            warn(f"there was nothing to install from {path}")
        elif code:
            what = f"failed to install driver {lease.guest_path} in uvm with exit code {code}"
            raise HcsError(UNEXPECTED, f"{what}: {path} in {vm.id}", detail=f"pnputil exited with {code}")
    except BaseException:
        lease.release()
        raise
    return lease.release
