"""A Windows container in a utility VM: what is checked before there is a VM, and what it is made of.

Its layers are VSMB shares, its scratch a SCSI disk, and the guest combines both. Its document is the `Container` part
of a document for HCS on the host.
"""

from __future__ import annotations

from shim.container import credentials, document, layers, process_document, resources
from shim.container.mounts import MappedMounts
from shim.hcs_bindings.errors import ErrorContext
from shim.oci.errors import InvalidSpec
from shim.spans import span
from shim.uvm.windows import devices, drivers, hostprocess, mounts
from shim.uvm.windows.vsmb import shares_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.container import VmContainer
    from shim.uvm.settings import VmSettings

    Document = dict[str, Any]

SERVICE_TABLE = "VirtualMachine/Devices/HvSocket/HvSocketConfig/ServiceTable/"
MAPPED_DIRECTORIES = "Container/MappedDirectories"


class WindowsContainerPlan:
    def __init__(self, spec: Spec, rootfs: Sequence[Mount], bundle: str, pod_id: str) -> None:
        self._spec = spec
        self.layers = windows_layers(spec, rootfs, bundle)
        self._mounts = mounts.MountPlan(spec, pod_id)
        self._credential_spec = credentials.from_spec(spec)
        self._drivers = drivers.from_spec(spec)
        self._devices = devices.from_spec(spec)
        process_document.parameters(spec.process, stdin=False, stdout=False, stderr=False)

    # Creation.

    def acquire(self, container: VmContainer, *, scale_limits: bool) -> Document:
        spec, vm, log, releases = self._spec, container.vm, container.log, container.releases
        hostprocess.validate(spec, vm)
        # What is wrong with the document shows before anything is acquired for it.
        settings = vm.settings
        with span("document"):
            draft = document.draft(
                container.id, spec, MappedMounts(), settings.processors, log.warning, settings.process_dumps,
                assign_devices=False,
            )  # fmt: skip
        if scale_limits:
            _scale(draft["Processor"], settings)
        for warning in spec.annotations.warnings:
            log.warning(warning)
        self._install_drivers(container)  # the network may need them
        with span("network"):
            container.join_network()
        with span("layers"), ErrorContext("failed to mount container storage"):
            root = self._mount_layers(container)
        mapped = self._mounts.acquire(vm, releases)
        if mapped.directories:
            draft["MappedDirectories"] = mapped.directories
        if mapped.pipes:
            draft["MappedPipes"] = mapped.pipes
        if not container.namespace:
            draft.pop("Networking", None)
        guard = self._add_credentials(container) if self._credential_spec else None
        if assigned := devices.assign(vm, self._devices, releases):
            draft["AssignedDevices"] = assigned
            self._install_drivers(container)  # once more: when this is done, the devices are ready
        whole = document.complete(draft, root, container.namespace, guard)
        hostprocess.set_isolation(spec, whole["Container"])
        return {name: whole[name] for name in ("SchemaVersion", "Container")}

    def _install_drivers(self, container: VmContainer) -> None:
        for path in self._drivers:
            container.releases.append(drivers.install(container.vm, path, container.log.warning))

    def _mount_layers(self, container: VmContainer) -> layers.Root:
        vm, releases = container.vm, container.layer_releases
        parents = self.layers.with_ids()
        disk = self.layers.create_scratch()
        shared = []
        for layer_id, path in parents:
            with ErrorContext("failed to add VSMB layer"):
                lease = shares_of(vm).add(path, read_only=True, backup=True)
            releases.insert(0, lease.release)  # released in the order of creation, the topmost first
            shared.append((layer_id, lease.guest_path))
        with ErrorContext("failed to add SCSI scratch VHD"):
            attached = vm.disks.attach(disk)
        releases.append(attached.release)
        combined: Document = {
            "ContainerRootPath": attached.guest_path,
            "Layers": [{"Id": layer_id, "Path": path} for layer_id, path in shared],
        }
        vm.gcs.modify_vm("CombinedLayers", "Add", combined)
        root = {"ContainerRootPath": attached.guest_path}
        releases.append(lambda: vm.gcs.modify_vm("CombinedLayers", "Remove", root))
        return layers.Root(attached.guest_path, shared)

    def _add_credentials(self, container: VmContainer) -> Document | None:
        vm = container.vm
        instance = credentials.add(container.ledger, container.id, self._credential_spec, "HvSocket")
        container.releases.append(lambda: _remove_credentials(container))
        socket = instance.get("HvSocketConfig") or {}
        if service := socket.get("ServiceId"):
            path = f"{SERVICE_TABLE}{service}"
            settings = socket.get("ServiceConfig") or {}
            vm.modify({"ResourcePath": path, "RequestType": "Update", "Settings": settings})
            if not container.owns_vm:  # a pod's VM goes on without this container
                off = {"ResourcePath": path, "RequestType": "Update", "Settings": {"Disabled": True}}
                container.releases.append(lambda: vm.modify(off))
        guard: Document | None = instance.get("CredentialGuard")
        return guard

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None) -> Document:
        parameters = process_document.parameters(
            self._spec.process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal
        )
        return hostprocess.wrap_command(self._spec, parameters)

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None
    ) -> Document:
        parameters = process_document.parameters(
            process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal, container=self._spec.process
        )
        return hostprocess.wrap_command(self._spec, parameters)

    # Update.

    def modify(self, container: VmContainer, request: Document, timeout: float | None) -> None:
        if request.get("ResourcePath") == MAPPED_DIRECTORIES and request.get("RequestType") == "Add":
            self._add_directory(container, request["Settings"], timeout)
        else:
            container.vm.gcs.modify(container.id, request, timeout)

    def _add_directory(self, container: VmContainer, settings: Document, timeout: float | None) -> None:
        """Mount one more directory of the host in the running container."""
        lease = container.vm.shares.add(settings["HostPath"], read_only=bool(settings.get("ReadOnly")))
        entry = {**settings, "HostPath": lease.guest_path}
        request = {"ResourcePath": MAPPED_DIRECTORIES, "RequestType": "Add", "Settings": entry}
        try:
            container.vm.gcs.modify(container.id, request, timeout)
        except BaseException:
            lease.release()
            raise
        container.releases.append(lease.release)


def _remove_credentials(container: VmContainer) -> None:
    """While the VM runs; if it has exited, the ledger's release does it."""
    credentials.remove(container.id)
    for entry in container.ledger.entries():
        if entry.kind == "credentials":
            container.ledger.mark_released(entry)


def _scale(processor: dict[str, int], vm: VmSettings) -> None:
    """Turn a limit that is a share of the host into a share of the VM."""
    if "Maximum" in processor:
        scaled = processor["Maximum"] * vm.host_processors // vm.processors
        processor["Maximum"] = max(1, min(scaled, resources.WHOLE_MACHINE))


def windows_layers(spec: Spec, rootfs: Sequence[Mount], bundle: str) -> layers.WindowsLayers:
    """The layers of the image, in the one form that a VM can use."""
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
