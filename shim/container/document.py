"""The HCS document of a process-isolated container, a plain dict. Empty members are left out, as upstream does."""

from __future__ import annotations

from shim.container import registry_changes, resources
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.container.layers import Root
    from shim.container.mounts import MappedMounts
    from shim.oci.spec import Spec

    Document = dict[str, Any]

OWNER = "containerd-shim-runhcs-v1.exe"
SCHEMA_VERSION = {"Major": 2, "Minor": 1}


def draft(
    id: str,
    spec: Spec,
    mapped: MappedMounts,
    processors: int,
    warn: Callable[[str], object],
    dump_location: str = "",
    assign_devices: bool = True,
) -> Document:
    """The `Container` part, as far as the spec alone decides it, so that errors show before anything is acquired.

    `processors` is the number of processors of the host or the VM; `dump_location` is the VM's. Devices of the host are
    named here; those of a VM have to be assigned to it first.
    """
    container: Document = {}
    if spec.hostname:
        container["GuestOs"] = {"HostName": spec.hostname}
    container["Storage"] = {}
    if quality := resources.storage(spec):
        container["Storage"]["QoS"] = quality
    if mapped.directories:
        container["MappedDirectories"] = mapped.directories
    if mapped.pipes:
        container["MappedPipes"] = mapped.pipes
    if memory := resources.memory(spec):
        container["Memory"] = memory
    container["Processor"] = resources.processor(spec, processors, warn)
    if spec.windows.has("network"):
        container["Networking"] = _networking(spec)
    container["RegistryChanges"] = registry_changes.changes(spec, id, warn, dump_location)
    if assign_devices and (devices := _devices(spec)):
        container["AssignedDevices"] = devices
    if spec.annotations.texts(names.DEVICE_EXTENSIONS):
        from shim.container import device_extensions

        container["AdditionalDeviceNamespace"] = device_extensions.read(spec.annotations)
    return container


def complete(container: Document, root: Root, namespace: str, credential_guard: Document | None = None) -> Document:
    """The whole document, with the acquired resources."""
    layers = [{"Id": layer, "Path": path} for layer, path in root.layers]
    storage = {"Layers": layers, "Path": root.path} if layers else {"Path": root.path}
    container["Storage"] = {**storage, **container["Storage"]}
    if "Networking" in container:
        container["Networking"]["Namespace"] = namespace
    if credential_guard:
        container["ContainerCredentialGuard"] = credential_guard
        for name in ("RegistryChanges", "AssignedDevices", "AdditionalDeviceNamespace"):  # in Microsoft's order
            if name in container:
                container[name] = container.pop(name)
    return {
        "Owner": OWNER,
        "SchemaVersion": SCHEMA_VERSION,
        "Container": container,
        # When the shim dies, HCS terminates the container.
        "ShouldTerminateOnLastHandleClosed": True,
    }


def _networking(spec: Spec) -> Document:
    network = spec.windows.section("network")
    networking: Document = {}
    if network.flag("allowUnqualifiedDNSQuery"):
        networking["AllowUnqualifiedDnsQuery"] = True
    if search := network.texts("DNSSearchList") or network.texts("dnsSearchList"):
        networking["DnsSearchList"] = ",".join(search)
    if shared := network.text("networkSharedContainerName"):
        networking["NetworkSharedContainerName"] = shared
    return networking


def _devices(spec: Spec) -> list[Document]:
    devices = []
    for device in spec.windows.sections("devices"):
        kind, device_id = device.text("idType"), device.text("id")
        if kind == "vpci-location-path":
            devices.append({"Type": "DeviceInstance", "LocationPath": device_id})
        elif kind in ("class", "vpci-class-guid"):
            # Without a Type, which Server 2019 would refuse.
            devices.append({"InterfaceClassGuid": device_id} if device_id else {})
        else:
            known = "class, vpci-class-guid or vpci-location-path"
            raise InvalidSpec(
                f"specified device {device_id} has unsupported type {kind}: without a utility VM it must be {known}"
            )
    return devices
