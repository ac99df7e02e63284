"""Read-only layers of a Linux VM as virtual persistent memory devices (VPMem), refcounted.

By default one device holds one layer. With multi-mapping, which needs build 18362, the layers of a VM share devices:
each is mapped at an offset (`shim.uvm.linux.vpmem_pool`), and the guest makes a linear device of the range. `add`
returns None for a layer that does not fit; it becomes a SCSI disk. The counterparts are vpmem.go and vpmem_mapped.go
in https://github.com/microsoft/hcsshim/tree/main/internal/uvm.
"""

from __future__ import annotations

import os
from threading import Lock

from shim.hcs_bindings.errors import ErrorContext
from shim.oci.errors import InvalidSpec
from shim.platform import files, host
from shim.uvm.guest import Lease
from shim.uvm.linux.vpmem_pool import RegionPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]
    ModifyGuest = Callable[[str, str, Document], None]

PATH = "VirtualMachine/Devices/VirtualPMem/Devices/"
IMAGE_FORMAT = "Vhd1"
PAGE = 4096
MAX_MAPPINGS = 1024
LAYERS = "/run/layers/p"


class _Layer:
    """One layer on a device. `size` is 0 if it has the device for itself."""

    __slots__ = ("device", "guest_path", "offset", "refcount", "size")

    def __init__(self, device: int, offset: int, size: int) -> None:
        self.device = device
        self.offset = offset
        self.size = size
        self.refcount = 0
        self.guest_path = f"{LAYERS}{device}-{offset}-{size}" if size else f"{LAYERS}{device}"

    @property
    def resource_path(self) -> str:
        return f"{PATH}{self.device}/Mappings/{self.offset}" if self.size else f"{PATH}{self.device}"

    def add_settings(self, host_path: str) -> Document:
        if self.size:
            return {"HostPath": host_path, "ImageFormat": IMAGE_FORMAT}
        return {"HostPath": host_path, "ReadOnly": True, "ImageFormat": IMAGE_FORMAT}

    def guest_settings(self) -> Document:
        settings: Document = {"MountPath": self.guest_path}
        if self.device:
            settings["DeviceNumber"] = self.device
        if self.size:
            mapping = {"DeviceSizeInBytes": self.size}
            if self.offset:
                mapping["DeviceOffsetInBytes"] = self.offset
            settings["MappingInfo"] = mapping
        return settings


class VpmemDevices:
    """`modify` is HCS's modify of the VM, `modify_guest` GCS's (`GcsConnection.modify_vm`)."""

    def __init__(
        self,
        modify: Callable[[Document], None],
        modify_guest: ModifyGuest,
        *,
        count: int,
        device_size: int,
        multi_mapping: bool,
        reserved: int = 0,
    ) -> None:
        """The first `reserved` devices are taken: the VM boots from them."""
        self._modify = modify
        self._modify_guest = modify_guest
        self._numbers = range(reserved, count)
        self._device_size = device_size
        self._multi_mapping = multi_mapping
        self._lock = Lock()
        self._layers: dict[str, _Layer] = {}
        self._taken: set[int] = set()  # devices with one layer
        self._pools: dict[int, RegionPool] = {}

    def add(self, path: str) -> Lease | None:
        """None: there is no room for it."""
        with self._lock:
            layer = self._layers.get(path)
            if layer is None:
                layer = self._place(file_size(path))
                if layer is None:
                    return None
                self._add(path, layer)
            layer.refcount += 1
        return Lease(layer.guest_path, lambda: self._release(path))

    def _place(self, size: int) -> _Layer | None:
        if self._multi_mapping:
            return self._place_mapping(-size // PAGE * -PAGE)
        number = next((number for number in self._numbers if number not in self._taken), None)
        if number is None or size > self._device_size:
            return None
        self._taken.add(number)
        return _Layer(number, 0, 0)

    def _place_mapping(self, size: int) -> _Layer | None:
        for number in self._numbers:
            if sum(layer.device == number for layer in self._layers.values()) >= MAX_MAPPINGS:
                continue
            offset = self._pools.setdefault(number, RegionPool()).allocate(size)
            if offset is not None:
                return _Layer(number, offset, size)
        return None

    def _add(self, path: str, layer: _Layer) -> None:
        request = {"ResourcePath": layer.resource_path, "RequestType": "Add", "Settings": layer.add_settings(path)}
        function = "addVPMemMappedDevice" if layer.size else "addVPMemDefault"
        try:
            with ErrorContext(f"uvm::{function}: failed to modify utility VM configuration"):
                with ErrorContext("adding VM resources"):
                    self._modify(request)
                try:
                    with ErrorContext("guest modify"):
                        self._modify_guest("VPMemDevice", "Add", layer.guest_settings())
                except BaseException:
                    self._modify({**request, "RequestType": "Remove"})
                    raise
        except BaseException:
            self._free(layer)
            raise
        self._layers[path] = layer

    def _release(self, path: str) -> None:
        with self._lock:
            layer = self._layers[path]
            layer.refcount -= 1
            if layer.refcount:
                return
            # If the guest does not unmount it, the layer stays where it is, and the next container may use it. If HCS
            # does not remove it, its place on the device is lost, not more.
            self._modify_guest("VPMemDevice", "Remove", layer.guest_settings())
            del self._layers[path]
            self._modify({"ResourcePath": layer.resource_path, "RequestType": "Remove"})
            self._free(layer)

    def _free(self, layer: _Layer) -> None:
        if layer.size:
            self._pools[layer.device].release(layer.offset, layer.size)
        else:
            self._taken.discard(layer.device)


def file_size(path: str) -> int:
    try:
        return os.stat(files.native(path)).st_size
    except OSError as error:
        raise InvalidSpec(
            f"failed to mount container storage: failed to add LCOW layer: failed to add VPMEM layer: {path}: "
            f"{host.reason(error)}: a layer of the image is missing; pull the image again"
        ) from None
