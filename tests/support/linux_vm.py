"""A Linux utility VM created by HCS calls alone, and its guest driven by bridge frames."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from hcs_emulator.vm import bridge_frames
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.guest_host import NULL, Bridge, Listener
from tests.support.linux_image import make_layer, make_root, make_scratch
from tests.support.wire_client import EXITED, WireClient

CONTROLLERS = (
    "df6d0690-79e5-55b6-a5ec-c1e2f77f580a",
    "0110f83b-de10-5172-a266-78bca56bf50a",
    "b5d2d8d4-3a75-51bf-945b-3444dc6b8579",
    "305891a9-b251-5dfe-91a2-c25d9212275b",
)
DEVICES = "VirtualMachine/Devices/"
ENTROPY, LOG, BRIDGE = 1, 109, 0x40000000
LOG_TIMEOUT = 30.0
ID = "pod@vm"
COMMAND_LINE = (
    " initcall_blacklist=virtio_vsock_init 8250_core.nr_uarts=0 panic=-1 quiet pci=off nr_cpus=2 brd.rd_nr=0 pmtmr=0 "
    "-- -e 1 /bin/vsockexec -e 109 /bin/gcs -v4 -log-format json -loglevel debug"
)


def service(port: int) -> str:
    return f"{port:08x}-facb-11e6-bd58-64006a7986d3"


class LinuxVm:
    """A Linux VM under test. `boot` starts it and accepts what a shim accepts: entropy, log, bridge."""

    listener: type[Listener] = Listener

    def __init__(self, emulator: Emulator, client: WireClient, directory: Path, guest: str) -> None:
        self.emulator = emulator
        self.client = client
        self.directory = directory
        self.guest = guest
        self.handle = 0
        self.runtime_id = ""
        self.log = bytearray()
        self._listeners: dict[int, Listener] = {}
        self._bridge: Bridge | None = None
        self._threads: list[threading.Thread] = []
        self._next_port = BRIDGE + 1

    @property
    def boot_files(self) -> Path:
        return self.emulator.directory / "LinuxBootFiles" / self.guest

    def document(self, **devices: Any) -> dict[str, Any]:
        document = documents.virtual_machine(
            Scsi={CONTROLLERS[0]: {}},
            VirtualPMem={"MaximumCount": 64, "MaximumSizeBytes": 4 << 30},
            HvSocket={"HvSocketConfig": {"DefaultBindSecurityDescriptor": "D:P(A;;FA;;;SY)(A;;FA;;;BA)"}},
            Plan9={},
        )
        machine = document["VirtualMachine"]
        machine["Devices"] |= devices
        machine["Chipset"] = {
            "LinuxKernelDirect": {
                "KernelFilePath": str(self.boot_files / "vmlinux"),
                "InitRdPath": str(self.boot_files / "initrd.img"),
                "KernelCmdLine": COMMAND_LINE,
            }
        }
        return document

    def create(self, document: dict[str, Any] | None = None) -> None:
        self.handle = self.client.ok("HcsCreateComputeSystem", ID, document or self.document()).handle
        self.client.ok("HcsSetComputeSystemCallback", handle=self.handle)
        self.runtime_id = self.properties()["RuntimeId"]

    def listen(self, port: int) -> Listener:
        self._listeners[port] = self.listener(self.emulator.directory, self.runtime_id, service(port))
        return self._listeners[port]

    def start(self) -> None:
        self.client.ok("HcsStartComputeSystem", None, handle=self.handle)

    def boot(self, document: dict[str, Any] | None = None) -> Bridge:
        self.create(document)
        for port in (ENTROPY, LOG, BRIDGE):
            self.listen(port)
        self.serve_boot()
        self.start()
        return self.accept_bridge()

    def serve_boot(self, *, log: bool = True) -> None:
        """Answer what init connects to."""
        for serve in (self._serve_entropy, self._serve_log) if log else (self._serve_entropy,):
            self._threads.append(threading.Thread(target=serve, daemon=True))
            self._threads[-1].start()

    def accept_bridge(self) -> Bridge:
        if self._bridge is not None:
            self._bridge.close()
        self._bridge = Bridge(self._listeners[BRIDGE].accept())
        return self._bridge

    def booted(self, document: dict[str, Any] | None = None) -> Bridge:
        """The same, with the protocol negotiated."""
        bridge = self.boot(document)
        bridge.ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
        return bridge

    def _serve_entropy(self) -> None:
        with self._listeners[ENTROPY].accept() as connection:
            connection.sendall(bytes(range(256)) * 2)

    def _serve_log(self) -> None:
        with self._listeners[LOG].accept() as connection:
            connection.settimeout(None)
            try:
                while data := connection.recv(1 << 16):
                    self.log += data
            except OSError:
                pass

    def log_entries(self) -> list[dict[str, Any]]:
        """The complete lines of the log so far."""
        return [json.loads(line) for line in self.log.split(b"\n")[:-1] if line.startswith(b"{")]

    def properties(self, *types: str) -> dict[str, Any]:
        query = {"PropertyTypes": list(types)} if types else None
        document: dict[str, Any] = self.client.ok("HcsGetComputeSystemProperties", query, handle=self.handle).document
        return document

    def modify(self, path: str, request: str, settings: Any = None) -> int:
        document = {"ResourcePath": path, "RequestType": request} | ({} if settings is None else {"Settings": settings})
        return self.client.call("HcsModifyComputeSystem", document, handle=self.handle).hresult

    def add(self, path: str, settings: Any) -> None:
        assert self.modify(DEVICES + path, "Add", settings) == 0

    def remove(self, path: str, settings: Any = None) -> None:
        assert self.modify(DEVICES + path, "Remove", settings) == 0

    def attach(self, lun: int, disk: Path, *, read_only: bool = False, controller: int = 0) -> None:
        self.client.ok("GrantVmAccess", ID, str(disk))
        settings = {"Type": "VirtualDisk", "Path": str(disk), "ReadOnly": read_only}
        self.add(f"Scsi/{CONTROLLERS[controller]}/Attachments/{lun}", settings)

    def add_adapter(self, adapter: str, mac: str = "00-15-5D-00-00-01") -> None:
        """An adapter with an endpoint of a new HCN network."""
        network, endpoint = str(uuid.uuid4()), str(uuid.uuid4())
        version = {"SchemaVersion": {"Major": 2, "Minor": 0}}
        handle = self.client.ok("HcnCreateNetwork", network, version).handle
        self.client.ok("HcnCreateEndpoint", endpoint, version, handle=handle)
        self.add(f"NetworkAdapters/{adapter}", {"EndpointId": endpoint, "MacAddress": mac})

    def worker(self) -> int:
        status = self.emulator.control("status")
        return int(next(system["Worker"] for system in status["systems"] if system["Id"] == ID))

    def terminate(self) -> None:
        self.client.ok("HcsTerminateComputeSystem", None, handle=self.handle)
        self.wait_exited()

    def wait_exited(self) -> dict[str, Any]:
        """The event. Then `log` is complete."""
        event: dict[str, Any] = self.client.wait_event(self.handle, EXITED)
        for thread in self._threads:
            thread.join(LOG_TIMEOUT)
            assert not thread.is_alive(), "the guest has exited, and its connections stay open"
        return event

    def close(self) -> None:
        if self._bridge is not None:
            self._bridge.close()
        for listener in self._listeners.values():
            listener.close()

    # containers

    def prepare(self, bridge: Bridge, container: str, *, device: int = 0, lun: int = 0) -> str:
        """Layer, scratch disk and root file system of a container. Returns its root in the guest."""
        layer = self.directory / "layer" / "layer.vhd"
        if not layer.exists():
            make_layer(make_root(self.directory / "root"), layer)
        pmem = f"VirtualPMem/Devices/{device}"
        self.add(pmem, {"HostPath": str(layer), "ReadOnly": True, "ImageFormat": "Vhd1"})
        mounted = f"/run/layers/p{device}"
        ok(bridge.modify("VPMemDevice", "Add", {"DeviceNumber": device, "MountPath": mounted}))
        root = f"/run/gcs/c/{container}"
        self.attach(lun, make_scratch(self.directory / container / "sandbox.vhdx"))
        scratch = {"Lun": lun, "MountPath": root, "EnsureFilesystem": True, "Filesystem": "ext4"}
        ok(bridge.modify("MappedVirtualDisk", "Add", scratch))
        layers = {
            "ContainerID": container,
            "ContainerRootPath": f"{root}/rootfs",
            "Layers": [{"Path": mounted}],
            "ScratchPath": f"{root}/scratch/{container}",
        }
        ok(bridge.modify("CombinedLayers", "Add", layers))
        return root

    def release(self, bridge: Bridge, container: str, *, device: int = 0, lun: int = 0) -> None:
        """What `prepare` has made, in the order of a shim."""
        root = f"/run/gcs/c/{container}"
        ok(bridge.modify("CombinedLayers", "Remove", {"ContainerRootPath": f"{root}/rootfs"}))
        ok(bridge.modify("MappedVirtualDisk", "Remove", {"Lun": lun, "MountPath": root}))
        ok(bridge.modify("SCSIDevice", "Remove", {"Lun": lun}))
        self.remove(f"Scsi/{CONTROLLERS[0]}/Attachments/{lun}")
        layer = {"DeviceNumber": device, "MountPath": f"/run/layers/p{device}"}
        ok(bridge.modify("VPMemDevice", "Remove", layer))
        self.remove(f"VirtualPMem/Devices/{device}")

    def create_container(self, bridge: Bridge, container: str, spec: dict[str, Any]) -> None:
        root = f"/run/gcs/c/{container}"
        config = {
            "SchemaVersion": documents.VERSION,
            "OciBundlePath": root,
            "OciSpecification": spec,
            "ScratchDirPath": f"{root}/scratch/{container}",
        }
        bridge.ok(bridge_frames.CREATE, container, ContainerConfig=json.dumps(config))
        bridge.ok(bridge_frames.START, container)

    def execute(
        self, bridge: Bridge, container: str, process: dict[str, Any] | None = None, **streams: bool
    ) -> Process:
        """Start a process (init when `process` is None) with these streams, StdIn, StdOut and StdErr."""
        return Process(self, bridge, container, process, [name for name, wanted in streams.items() if wanted])

    def next_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1


class Process:
    """A process in the guest and the host's ends of its streams."""

    def __init__(
        self, vm: LinuxVm, bridge: Bridge, container: str, process: dict[str, Any] | None, streams: list[str]
    ) -> None:
        self.bridge = bridge
        self.container = container
        self.ports = ports = {name: vm.next_port() for name in streams}
        listeners = {name: vm.listen(port) for name, port in ports.items()}
        parameters: dict[str, Any] = {f"Create{name}Pipe": True for name in streams}
        if process is not None:
            parameters |= process
        settings = {"ProcessParameters": json.dumps(parameters), "VsockStdioRelaySettings": ports}
        self.pid: int = bridge.ok(bridge_frames.EXECUTE_PROCESS, container, Settings=settings)["ProcessId"]
        self.streams: dict[str, socket.socket] = {name: listener.accept() for name, listener in listeners.items()}
        self._waiting = bridge.begin(
            bridge_frames.WAIT_FOR_PROCESS, container, ProcessId=self.pid, TimeoutInMs=0xFFFFFFFF
        )

    def read(self, name: str = "StdOut") -> bytes:
        """Everything until the end of the stream, which is then closed, as a shim does."""
        output = b""
        with self.streams[name] as stream:
            while piece := stream.recv(1 << 16):
                output += piece
        return output

    def wait(self) -> int:
        return int(ok(self.bridge.finish(self._waiting)).get("ExitCode", 0))


def ok(response: dict[str, Any]) -> dict[str, Any]:
    assert response["Result"] == 0, response
    return response


def spec(root: str, *args: str, **members: Any) -> dict[str, Any]:
    """An OCI spec as a shim sends it to a guest."""
    capabilities = ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID", "CAP_SETGID"]
    return {
        "ociVersion": "1.1.0",
        "root": {"path": f"{root}/rootfs"},
        "process": {
            "args": list(args),
            "cwd": "/",
            "env": ["PATH=/bin"],
            "user": {"uid": 0, "gid": 0},
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "gid=5"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
        ],
        "linux": {
            "resources": {},
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
        },
    } | members


def oci_process(*args: str) -> dict[str, Any]:
    """An exec of a container."""
    return {"OciProcess": {"args": list(args), "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}}}


def vm_process(*args: str) -> dict[str, Any]:
    """A process of the VM itself."""
    environment = {"PATH": "/sbin:/usr/sbin:/bin:/usr/bin"}
    return {"CommandArgs": list(args), "WorkingDirectory": "/", "Environment": environment}


__all__ = ["NULL", "LinuxVm", "Process", "oci_process", "ok", "spec", "vm_process"]
