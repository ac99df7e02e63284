"""A Linux container in a utility VM: what is checked before there is a VM, and what it is made of.

Its layers are VPMem devices or SCSI disks, its scratch is a SCSI disk, and the guest makes an overlay of them. Its
document is its OCI spec, as `shim.uvm.linux.guest_spec` changes it.
"""

from __future__ import annotations

from shim.oci.spec import CONTAINER
from shim.spans import span
from shim.uvm.linux import client_devices, devices, layers, mounts, process_parameters, users
from shim.uvm.linux.guest_spec import guest_spec, ineffective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.container import VmContainer
    from shim.uvm.linux.guest import LinuxGuest

    Document = dict[str, Any]

CONTAINERS = "/run/gcs/c/"
SCHEMA = {"Major": 2, "Minor": 1}


class LinuxContainerPlan:
    def __init__(self, spec: Spec, rootfs: Sequence[Mount], bundle: str) -> None:
        self._spec = spec
        self._layers = layers.plan(spec, rootfs, bundle)
        self._mounts = mounts.MountPlan(spec)
        self._drivers = devices.drivers(spec)
        if spec.pod_role == CONTAINER:  # those of a spec that creates a VM are the VM's, which skips others
            devices.check(spec)
        self._ineffective = [*ineffective(spec), *client_devices.adapt(spec)]
        _ = spec.process  # raises if there is none

    def acquire(self, container: VmContainer, *, scale_limits: bool) -> Document:
        """Limits of a Linux container are the guest's: `scale_limits` has no effect."""
        from shim.uvm.linux.guest import LinuxGuest

        spec, guest, releases = self._spec, container.vm.guest, container.releases
        assert isinstance(guest, LinuxGuest)
        for warning in (*spec.annotations.warnings, *self._ineffective):
            container.log.warning(warning)
        self._install_drivers(container, guest)  # the network may need them
        with span("network"):
            container.join_network()
        root = f"{CONTAINERS}{container.id}"
        with span("layers"):
            mounted = self._layers.acquire(container, guest, root)
        with span("mounts"):
            mounted_at = self._mounts.acquire(guest, container.id, releases)
        assigned = devices.assign(guest, spec, releases)
        oci = guest_spec(spec, mounted.path, mounted_at, namespace=self._namespace(container), devices=assigned)
        if not spec.pod_role:
            oci["process"]["user"] = users.resolved(guest, mounted.path, oci["process"].get("user") or {})
        return {
            "SchemaVersion": SCHEMA,
            "OciBundlePath": root,
            "OciSpecification": oci,
            "ScratchDirPath": mounted.scratch,
        }

    def _namespace(self, container: VmContainer) -> str:
        """A namespace that the shim has made for a standalone container has no name in the guest."""
        given = self._spec.windows.section("network").text("networkNamespace")
        return given if container.owns_vm else container.namespace

    def _install_drivers(self, container: VmContainer, guest: LinuxGuest) -> None:
        for path in self._drivers:
            container.releases.append(devices.install(guest, path))

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None) -> Document:
        return process_parameters.pipes(stdin=stdin, stdout=stdout, stderr=stderr)

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None
    ) -> Document:
        return process_parameters.exec_parameters(process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)

    # Update.

    def modify(self, container: VmContainer, request: Document, timeout: float | None) -> None:
        container.vm.gcs.modify(container.id, request, timeout)
