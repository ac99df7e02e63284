"""The boot files of a utility VM: files of the image itself, and a scratch disk that is copied for each VM.

The image's lowest layers have a `UtilityVM` directory with the files of the system (`Files`, shared with the VM) and an
empty disk (`SystemTemplate.vhdx`). The copy is `vm/sandbox.vhdx` in the container's scratch directory: beside, not
instead of, the container's own `sandbox.vhdx`.
"""

from __future__ import annotations

import os

from shim.container.layers import join
from shim.oci.errors import InvalidSpec
from shim.platform import files, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

UTILITY_VM = "UtilityVM"
FILES = "Files"
TEMPLATE = "SystemTemplate.vhdx"
COPY_SIZE = 1 << 20


class BootFiles:
    """`files` is shared with the VM; `scratch` is its disk, which exists once `prepare` has been called."""

    __slots__ = ("files", "scratch", "template")

    def __init__(self, files: str, template: str, scratch: str) -> None:
        self.files = files
        self.template = template
        self.scratch = scratch

    def prepare(self) -> None:
        """Copy the disk, unless it exists from an earlier boot. The copy is atomic."""
        if host.exists(self.scratch):
            return
        host.make_directories(os.path.dirname(self.scratch))
        scratch = files.native(self.scratch)
        partial = f"{scratch}.partial"
        # The image's: a link could lead to any file of the host, which the VM would then read as its disk.
        template = files.open_regular(self.template, follow=False)
        with open(template, "rb", buffering=0) as source, open(partial, "wb", buffering=0) as target:
            while data := source.read(COPY_SIZE):
                target.write(data)
        os.replace(partial, scratch)


def find(parents: Sequence[str], scratch: str) -> BootFiles:
    """The boot files of the topmost layer that has them. `parents` are given from top to base."""
    for parent in parents:
        directory = join(parent, UTILITY_VM)
        if host.is_directory(directory):
            files, template = join(directory, FILES), join(directory, TEMPLATE)
            for path in (files, template):
                if not host.exists(path):
                    raise InvalidSpec(f"{path} is missing: the image's {UTILITY_VM} is damaged, so pull it again")
            for path in (directory, files, template):
                if host.is_link(path):
                    raise InvalidSpec(f"{path} is a link, which may lead out of the image: do not use this image")
            return BootFiles(files, template, join(join(scratch, "vm"), "sandbox.vhdx"))
    raise InvalidSpec(
        "failed to locate utility VM folder from layer folders: utility VM folder could not be found in layers: none "
        f"of them has a {UTILITY_VM} to boot a VM from; use an image that supports hypervisor isolation, or a runtime "
        "with process isolation"
    )
