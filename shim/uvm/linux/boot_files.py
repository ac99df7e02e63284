"""The boot files of a Linux utility VM: a kernel, and the VM's own root file system.

They belong to the host, not to an image, and VMs only read them. `vmlinux` is preferred to `kernel` where the kernel
boots directly, `rootfs.vhd` to `initrd.img` where it exists.
"""

from __future__ import annotations

import os

from shim.container.layers import join
from shim.oci.annotations import linux as names
from shim.oci.annotations.container import VM_BOOT_FILES, VM_BOOT_FILES_OLD
from shim.oci.errors import InvalidSpec
from shim.platform import boot_directory, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.annotations.container import Annotations

KERNEL = "kernel"
UNCOMPRESSED_KERNEL = "vmlinux"
INITRD = "initrd.img"
VHD = "rootfs.vhd"


class BootFiles:
    """Names of files in `directory`. They have not been checked: `check` does that."""

    __slots__ = ("directory", "is_vhd", "kernel_direct", "kernel_name", "rootfs_name")

    def __init__(self, annotations: Annotations, *, kernel_direct: bool) -> None:
        """`kernel_direct` is whether the host boots kernels directly by default."""
        given = annotations.text(VM_BOOT_FILES) or annotations.text(VM_BOOT_FILES_OLD)
        self.directory = os.path.abspath(given or boot_directory.default())
        self.kernel_direct = annotations.flag(names.KERNEL_DIRECT, kernel_direct)
        uncompressed = self.kernel_direct and kernel_direct and host.exists(join(self.directory, UNCOMPRESSED_KERNEL))
        self.kernel_name = UNCOMPRESSED_KERNEL if uncompressed else KERNEL
        self.is_vhd = _is_vhd(annotations, host.exists(join(self.directory, VHD)))
        self.rootfs_name = VHD if self.is_vhd else INITRD

    @property
    def kernel(self) -> str:
        return join(self.directory, self.kernel_name)

    @property
    def rootfs(self) -> str:
        return join(self.directory, self.rootfs_name)

    def check(self) -> None:
        """Refuse to create a VM that could not boot."""
        step = f"install the boot files of Linux VMs in {self.directory}, or name their directory in {VM_BOOT_FILES}"
        if not host.exists(self.kernel):
            raise InvalidSpec(f"kernel: '{self.kernel}' not found: {step}")
        if not host.exists(self.rootfs):
            raise InvalidSpec(f"boot file: '{self.rootfs}' not found: {step}")


def _is_vhd(annotations: Annotations, has_vhd: bool) -> bool:
    given = annotations.text(names.ROOTFS_TYPE)
    if given in ("initrd", "vhd"):
        return given == "vhd"
    if names.ROOTFS_TYPE in annotations:
        annotations.warn(f"annotation {names.ROOTFS_TYPE} is ignored: its value is not 'initrd' or 'vhd'")
    return has_vhd
