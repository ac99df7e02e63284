"""The interface between a utility VM and its kind of guest.

A VM has two sides to its guest. `shim.uvm.gcs` is the connection to the Guest Compute Service (GCS), whose messages are
the same for Windows and Linux. `Guest` is everything that depends on the guest's operating system:

| what | Windows (`shim.uvm.windows`) | Linux (`shim.uvm.linux`) |
| --- | --- | --- |
| the VM's document, its boot files | UEFI from the image's `UtilityVM`, a scratch disk | a kernel and a root |
| connections during boot | GCS | entropy, the log, GCS |
| the first messages to the guest | Create and Start of the VM itself, its HvSocket address, log forwarding | none |
| directories of the host | VSMB shares | Plan9 shares |
| disks, combined layers | one SCSI controller, `CombinedLayers` of VSMB layers | VPMem and SCSI disks, overlays |
| network | the namespace, then each adapter in two steps | each adapter in one step |
| containers and processes | the HCS document of a container, command lines | an OCI spec |

Each kind is a package with a `Guest` and a `ContainerPlan`, and has a line in `guest_kind`. What does not depend on the
kind stays in `shim.uvm`: the lifecycle of the VM and of its containers, SCSI slots, PCI devices, network adapters,
NUMA, resource settings. The sandbox of a Linux pod is itself a container, created by `VmContainer.create_alone` instead
of `SandboxVm`. Outside of `shim.uvm`, signals (`shim.task.signals`) and stats (`shim.task.stats`) depend on the kind.

Documents are dicts. Failures are HcsError, as of a compute system on the host. The counterpart in hcsshim are
`create_wcow.go` and `create_lcow.go` in https://github.com/microsoft/hcsshim/tree/main/internal/uvm.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from shim.api.types import Mount
    from shim.logs import Log
    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.uvm.container import VmContainer
    from shim.uvm.scsi import DiskMount
    from shim.uvm.settings import VmSettings
    from shim.uvm.vm import Vm

    Document = dict[str, Any]
    #: Where a disk is attached: the number of its SCSI controller, and its LUN.
    Slot = tuple[int, int]

    class Shares(Protocol):
        """Directories and files of the host that the VM sees."""

        def add(self, path: str, *, read_only: bool) -> Lease: ...

    class ContainerPlan(Protocol):
        """A container of a spec that has been checked. Nothing has been acquired for it."""

        def acquire(self, container: VmContainer, *, scale_limits: bool) -> Document:
            """Add to the VM what the container needs, and return the document for GCS's Create.

            Each step adds its undoing to `container.releases` or `container.layer_releases`, also if a later one fails.
            With `scale_limits`, processor limits are shares of the host and become shares of the VM.
            """

        def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None) -> Document:
            """The process document of the spec's own process, for GCS's ExecuteProcess."""

        def exec_parameters(
            self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None
        ) -> Document:
            """The process document of an exec."""

        def modify(self, container: VmContainer, request: Document, timeout: float | None) -> None:
            """An Update of the running container: limits, or one more mount."""


class Lease:
    """One use of something in the VM that is counted: a share, a disk. `guest_path` is its path in the guest."""

    __slots__ = ("_release", "guest_path")

    def __init__(self, guest_path: str, release: Callable[[], None]) -> None:
        self.guest_path = guest_path
        self._release = release

    def release(self) -> None:
        self._release()


class Guest:
    """The guest of one VM, from before its boot until after its exit.

    The order of calls: `from_spec`, `prepare`, `document`, `attach` (HCS has created the VM), `listen`, [the VM
    starts], `connect`, [GCS connects], `initialize`; then everything else from any thread; `close`.
    """

    #: What GCS must report as `RuntimeOsType`, in lower case.
    os_type: str
    #: The Hyper-V socket service to which GCS connects.
    gcs_service_id: str
    shares: Shares
    scsi_controllers = 1
    #: Slots that disks of containers must not take. The scratch disk of a Windows guest is in the first.
    reserved_slots: Sequence[Slot] = ((0, 0),)
    #: Whether the sandbox of a pod is a container in the VM, or only the VM itself.
    sandbox_is_container = False
    #: The options of GCS's SignalProcess that terminate a process; None: no options at all.
    terminate_options: Document | None = None

    def __init__(self, settings: VmSettings, log: Log) -> None:
        self.settings = settings
        #: Files of the host that every Linux container of the pod gets, by their path in the container.
        self.pod_files: dict[str, str] = {}
        self._log = log
        self.vm: Vm

    @classmethod
    def from_spec(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, log: Log) -> Guest:
        """Check everything about a new VM that can be checked before it exists."""
        raise NotImplementedError

    @classmethod
    def plan_container(cls, spec: Spec, rootfs: Sequence[Mount], bundle: str, pod_id: str) -> ContainerPlan:
        """Check everything about a container that can be checked without the VM."""
        raise NotImplementedError

    # Boot.

    def prepare(self, vm_id: str) -> None:
        """Create the files that the VM boots from, and let the VM open them."""
        raise NotImplementedError

    def document(self, vm_id: str) -> Document:
        """The VM's HCS document."""
        raise NotImplementedError

    def attach(self, vm: Vm) -> None:
        """HCS has created the VM; it has not started yet."""
        self.vm = vm

    def listen(self) -> None:
        """Listen where the guest connects while it boots, but for GCS itself. The VM has not started yet."""
        raise NotImplementedError

    def connect(self, deadline: float) -> None:
        """Accept the connections that the guest makes before that of GCS. The VM has started."""

    def interrupt(self) -> None:
        """The VM exits: end what waits for a connection. From any thread; must not block."""

    def initialize(self, timeout: float) -> None:
        """Send the guest what it needs before its first container. GCS is connected and negotiated."""
        raise NotImplementedError

    def memory_changed(self) -> None:
        """HCS has changed the size of the VM's memory."""

    def close(self) -> None:
        """The VM has exited: close what `listen` opened."""
        raise NotImplementedError

    # Containers and processes.

    def admit(self, spec: Spec) -> None:
        """Add to the spec of a container that joins the pod what it inherits from the pod's sandbox."""
        raise NotImplementedError

    def check_container(self, plan: ContainerPlan) -> None:
        """Refuse a container whose image cannot run in this guest."""
        raise NotImplementedError

    def stdio_settings(self, services: Mapping[str, str]) -> Document:
        """The member of ExecuteProcess's settings that says where `StdIn`, `StdOut`, `StdErr` connect to."""
        raise NotImplementedError

    def command_parameters(self, arguments: Sequence[str], directory: str) -> Document:
        """The process document of a program of the VM itself, without streams."""
        raise NotImplementedError

    # Storage.

    def disk_path(self, number: int) -> str:
        """Where the guest mounts a disk by default."""
        raise NotImplementedError

    def mount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        """HCS has attached a disk: have the guest mount it."""
        raise NotImplementedError

    def unmount_disk(self, slot: Slot, path: str, read_only: bool, mount: DiskMount) -> None:
        """The last user of a mount is gone."""
        raise NotImplementedError

    def unplug_disk(self, slot: Slot) -> None:
        """HCS is about to detach a disk."""
        raise NotImplementedError

    def map_directory(self, share: Lease, path: str, read_only: bool) -> None:
        """Show a share at a path of the guest."""
        raise NotImplementedError

    # Network.

    def add_namespace(self, namespace: Document) -> None:
        """A network namespace of the host comes into the VM; its adapters follow."""
        raise NotImplementedError

    def remove_namespace(self, id: str) -> None:
        """All adapters of the namespace have been removed."""
        raise NotImplementedError

    def announce_adapter(self, adapter: str, endpoint: Document) -> None:
        """HCS is about to add an adapter for an HCN endpoint."""
        raise NotImplementedError

    def add_adapter(self, adapter: str, namespace: str, endpoint: Document) -> None:
        """HCS has added the adapter: have the guest configure it."""
        raise NotImplementedError

    def remove_adapter(self, adapter: str, namespace: str) -> None:
        """HCS is about to remove the adapter."""
        raise NotImplementedError


def guest_kind(spec: Spec) -> type[Guest]:
    """The kind of guest in which the container of a spec runs."""
    if spec.has_linux:
        from shim.uvm.linux.guest import LinuxGuest

        return LinuxGuest
    from shim.uvm.windows.guest import WindowsGuest

    return WindowsGuest
