"""Guest requests (ModifySettings): disks, layers, directories, networks and sockets of the VM, and changes of its
containers.
"""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.errors import ERROR_ALREADY_EXISTS, ERROR_NOT_FOUND, HCS_E_INVALID_JSON, HcsError
from hcs_emulator.service.schema.common import LAYER, LTSC2025, MAPPED_DIRECTORY
from hcs_emulator.service.schema.modify import check_modification
from hcs_emulator.service.schema.network import ENDPOINT, NAMESPACE
from hcs_emulator.service.schema.shapes import Anything, Enum, Guid, Int, ListOf, Record, Shape, Str, check, since
from hcs_emulator.service.silo.namespaces import LaunchError
from hcs_emulator.vm.windows.container import GuestContainer
from hcs_emulator.vm.windows.resources import Resources

OPERATION = "Modify settings"
ADAPTER_MISSING = 0x803B0026

REQUEST = Record(
    {
        "ResourceType": Str(empty=False),
        "RequestType": Enum("Add", "Remove", "Update", "PreAdd"),
        "Settings": Anything(),
    },
    required=("ResourceType",),
)

SETTINGS: dict[str, Shape] = {
    "HvSocket": Record({"LocalAddress": Guid(), "ParentAddress": Guid()}, required=("LocalAddress", "ParentAddress")),
    "MappedVirtualDisk": Record({"ContainerPath": Str(empty=False), "Lun": Int(0, 63)}, required=("ContainerPath",)),
    "CombinedLayers": Record(
        {
            "ContainerRootPath": Str(empty=False),
            "Layers": ListOf(LAYER),
            "FilterType": since(LTSC2025, Enum("WCIFS", "UnionFS")),
        },
        required=("ContainerRootPath",),
    ),
    "MappedDirectory": MAPPED_DIRECTORY,
    "NetworkNamespace": NAMESPACE,
    "Network": Record(
        {"AdapterId": Guid(), "RequestType": Enum("PreAdd", "Add", "Remove"), "Settings": ENDPOINT},
        required=("AdapterId", "RequestType"),
    ),
}


class GuestSettings:
    """Settings of guest requests, except those that `Resources` holds."""

    def __init__(self, resources: Resources, build: int) -> None:
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.adapters: dict[str, dict[str, Any]] = {}
        self.hvsocket: dict[str, Any] = {}
        self._resources = resources
        self._build = build

    def modify(self, request: Any) -> None:
        check(REQUEST, request, OPERATION, self._build, path="$.Request")
        kind, change, settings = request["ResourceType"], request.get("RequestType", "Add"), request.get("Settings")
        shape = SETTINGS.get(kind)
        if shape is None:
            place = "$.Request.ResourceType"
            raise HcsError(HCS_E_INVALID_JSON, f"[{OPERATION}] the guest has no resource {kind} at {place}", data=place)
        check(shape, settings, OPERATION, self._build, path="$.Request.Settings")
        {
            "HvSocket": self._change_sockets,
            "MappedVirtualDisk": self._change_disk,
            "CombinedLayers": self._change_layers,
            "MappedDirectory": self._change_directory,
            "NetworkNamespace": self._change_namespace,
            "Network": self._change_adapter,
        }[kind](change, settings)

    async def modify_container(self, container: GuestContainer, request: Any) -> None:
        """Requests for a container have a resource path, as on the host; a mapped directory may also be a guest
        resource.
        """
        if isinstance(request, dict) and request.get("ResourceType") == "MappedDirectory":
            check(REQUEST, request, OPERATION, self._build, path="$.Request")
            check(MAPPED_DIRECTORY, request.get("Settings"), OPERATION, self._build, path="$.Request.Settings")
            try:
                await container.map_directory(request["Settings"], request.get("RequestType", "Add"))
            except LaunchError as error:
                raise HcsError(error.hresult, error.message, data=container.id) from error
            return
        await container.modify(check_modification(request, "Container", self._build))

    def _change_sockets(self, change: str, settings: dict[str, Any]) -> None:
        self.hvsocket = settings

    def _change_disk(self, change: str, settings: dict[str, Any]) -> None:
        if change == "Remove":
            self._resources.unmount_disk(settings["ContainerPath"])
        else:
            self._resources.mount_disk(settings["ContainerPath"], settings.get("Lun", 0))

    def _change_layers(self, change: str, settings: dict[str, Any]) -> None:
        if change == "Remove":
            self._resources.separate_layers(settings["ContainerRootPath"])
        else:
            layers = [layer["Path"] for layer in settings.get("Layers", ())]
            self._resources.combine_layers(settings["ContainerRootPath"], layers)

    def _change_directory(self, change: str, settings: dict[str, Any]) -> None:
        if change == "Remove":
            self._resources.unmap_directory(settings["ContainerPath"])
        else:
            read_only = bool(settings.get("ReadOnly"))
            self._resources.map_directory(settings["HostPath"], settings["ContainerPath"], read_only)

    def _change_namespace(self, change: str, settings: dict[str, Any]) -> None:
        identifier = str(settings.get("ID") or settings.get("Id") or "").lower()
        if change == "Remove":
            if self.namespaces.pop(identifier, None) is None:
                raise HcsError(ERROR_NOT_FOUND, f"the guest has no network namespace {identifier}", data=identifier)
        elif identifier in self.namespaces:
            raise HcsError(ERROR_ALREADY_EXISTS, f"the guest has a network namespace {identifier}", data=identifier)
        else:
            self.namespaces[identifier] = settings

    def _change_adapter(self, change: str, settings: dict[str, Any]) -> None:
        adapter, step = settings["AdapterId"].lower(), settings["RequestType"]
        if step == "PreAdd":
            self.adapters[adapter] = settings.get("Settings", {})
        elif adapter not in self.adapters:
            raise HcsError(ERROR_NOT_FOUND, f"network adapter {adapter} was not announced by PreAdd", data=adapter)
        elif step == "Remove":
            del self.adapters[adapter]
        elif adapter not in self._resources.granted["adapters"]:
            raise HcsError(ADAPTER_MISSING, f"the VM has no network adapter {adapter}", data=adapter)

    def require_namespace(self, identifier: str) -> None:
        if identifier.lower() not in self.namespaces:
            raise HcsError(ERROR_NOT_FOUND, f"the guest has no network namespace {identifier}", data=identifier)
