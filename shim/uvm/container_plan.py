"""Everything about the spec of a container in a VM that can be checked before there is a VM to put it in."""

from __future__ import annotations

from shim.container import credentials, layers, process_document
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.uvm import container_mounts, devices
from shim.uvm.windows import drivers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.api.types import Mount
    from shim.oci.spec import Spec


class ContainerPlan:
    """What a container in a VM will be made of."""

    def __init__(self, spec: Spec, rootfs: Sequence[Mount], bundle: str, pod_id: str) -> None:
        check(spec)
        self.layers = windows_layers(spec, rootfs, bundle)
        self.mounts = container_mounts.Plan(spec, pod_id)
        self.credential_spec = credentials.from_spec(spec)
        self.drivers = drivers.from_spec(spec)
        self.devices = devices.from_spec(spec)
        process_document.parameters(spec.process, stdin=False, stdout=False, stderr=False)


def check(spec: Spec) -> None:
    """Refuse what a container in a VM cannot be."""
    if not spec.is_wcow:
        raise InvalidSpec(
            "Linux containers in a utility VM are not supported by this version of the shim: use a Windows image, or "
            "a runtime with process isolation",
            UNIMPLEMENTED,
        )


def windows_layers(spec: Spec, rootfs: Sequence[Mount], bundle: str) -> layers.WindowsLayers:
    """The layers that the VM's shares and disk are made of."""
    for mount in rootfs:
        if mount.type in ("CimFS", "BlockCIM"):
            raise InvalidSpec(
                f"unsupported layer format for UVM boot: {mount.type}: give a rootfs mount of type "
                f"{layers.WINDOWS_LAYER!r}, or use process isolation"
            )
    plan = layers.plan(spec, rootfs, bundle)
    if not isinstance(plan, layers.WindowsLayers):
        raise InvalidSpec(
            f"invalid windows mount type for a container in a utility VM: give a rootfs mount of type "
            f"{layers.WINDOWS_LAYER!r}, or windows.layerFolders"
        )
    return plan
