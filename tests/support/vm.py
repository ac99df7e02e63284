"""A utility VM created by HCS calls alone, and its guest driven by bridge frames."""

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
from tests.support.guest_host import GCS, NULL, Bridge, Listener
from tests.support.wire_client import EXITED, WireClient

CONTROLLER = "df6d0690-79e5-55b6-a5ec-c1e2f77f580a"
VSMB = "\\\\?\\VMSMB\\VSMB-{dcc079ae-60ba-4d07-847c-3493609c0870}\\"
DEVICES = "VirtualMachine/Devices/"
INVALID_STATE = 0x80370105
ALREADY_STOPPED = 0x80370110
EXISTS = 0x800700B7
NOT_FOUND = 0x80070490
NOT_SUPPORTED = 0x80070032
GUEST_CONNECTION_CLOSED = 6


class Vm:
    """A utility VM under test: image, disks, handle; `boot` starts it and accepts its bridge."""

    def __init__(self, emulator: Emulator, client: WireClient, directory: Path) -> None:
        self.emulator = emulator
        self.client = client
        self.directory = directory
        (directory / "base" / "Files").mkdir(parents=True)
        (directory / "base" / "Files" / "greeting").write_text("from the layer")
        (directory / "UtilityVM" / "Files").mkdir(parents=True)
        self.layer = str(directory / "base")
        self.scratch = self.make_disk("vm/sandbox.vhdx")
        self.handle = 0
        self.runtime_id = ""
        self._listener: Listener | None = None
        self._bridge: Bridge | None = None

    def make_disk(self, name: str, grant: bool = True) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("disk")
        if grant:
            self.client.ok("GrantVmAccess", "pod@vm", str(path))
        return str(path)

    def document(self) -> dict[str, Any]:
        shares = [{"Name": "os", "Path": str(self.directory / "UtilityVM" / "Files"), "Options": {"ReadOnly": True}}]
        disks = {"0": {"Type": "VirtualDisk", "Path": self.scratch}}
        return documents.virtual_machine(VirtualSmb={"Shares": shares}, Scsi={CONTROLLER: {"Attachments": disks}})

    def create(self, document: dict[str, Any] | None = None) -> None:
        self.handle = self.client.ok("HcsCreateComputeSystem", "pod@vm", document or self.document()).handle
        self.client.ok("HcsSetComputeSystemCallback", handle=self.handle)
        self.runtime_id = self.properties()["RuntimeId"]

    def start(self) -> None:
        self.client.ok("HcsStartComputeSystem", None, handle=self.handle)

    def boot(self) -> Bridge:
        self.create()
        self._listener = Listener(self.emulator.directory, self.runtime_id, GCS)
        self.start()
        self._bridge = Bridge(self._listener.accept())
        return self._bridge

    def properties(self, *types: str) -> dict[str, Any]:
        query = {"PropertyTypes": list(types)} if types else None
        document: dict[str, Any] = self.client.ok("HcsGetComputeSystemProperties", query, handle=self.handle).document
        return document

    def modify(self, path: str, request: str, settings: Any = None) -> int:
        document = {"ResourcePath": path, "RequestType": request} | ({} if settings is None else {"Settings": settings})
        return self.client.call("HcsModifyComputeSystem", document, handle=self.handle).hresult

    def terminate(self) -> None:
        self.client.ok("HcsTerminateComputeSystem", None, handle=self.handle)
        self.client.wait_event(self.handle, EXITED)

    def listen(self, service: str) -> Listener:
        return Listener(self.emulator.directory, self.runtime_id, service)

    def close(self) -> None:
        if self._bridge is not None:
            self._bridge.close()
        if self._listener is not None:
            self._listener.close()


def negotiated(bridge: Bridge) -> Bridge:
    answer = bridge.ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    assert answer["Version"] == 4
    assert answer["Capabilities"]["RuntimeOsType"] == "Windows"
    config = json.dumps({"SystemType": "Container", "TimeZoneInformation": {"StandardName": "UTC", "StandardDate": {}}})
    bridge.ok(bridge_frames.CREATE, NULL, ContainerConfig=config)
    bridge.ok(bridge_frames.START, NULL)
    return bridge


def prepared(vm: Vm, bridge: Bridge, lun: str = "1", mount: str = "c:\\mounts\\scsi\\m0") -> str:
    """Prepare the storage of a container in the guest: layer share, scratch disk, combined layers. Returns its path."""
    vm.modify(DEVICES + "VirtualSmb/Shares", "Add", {"Name": "s1", "Path": vm.layer, "Options": {"ReadOnly": True}})
    disk = vm.make_disk(f"scratch{lun}/sandbox.vhdx")
    attachment = {"Type": "VirtualDisk", "Path": disk}
    assert vm.modify(f"{DEVICES}Scsi/{CONTROLLER}/Attachments/{lun}", "Add", attachment) == 0
    assert bridge.modify("MappedVirtualDisk", "Add", {"ContainerPath": mount, "Lun": int(lun)})["Result"] == 0
    layers = {"ContainerRootPath": mount, "Layers": [{"Id": str(uuid.uuid4()), "Path": VSMB + "s1"}]}
    assert bridge.modify("CombinedLayers", "Add", layers)["Result"] == 0
    return mount


def config(mount: str, **members: Any) -> str:
    return json.dumps({"SchemaVersion": documents.VERSION, "Container": {"Storage": {"Path": mount}} | members})


def send(stream: socket.socket | None, data: bytes | None) -> None:
    """Send all input, then half-close: a guest takes a full close for lost input."""
    if stream is not None and data is not None:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)


def wait_for_exit(bridge: Bridge, container: str, pid: int) -> int:
    """The exit code. A process that exited before the request arrived is not found, and 0 is left out then."""
    response = bridge.call(bridge_frames.WAIT_FOR_PROCESS, container, ProcessId=pid, TimeoutInMs=20000)
    if response["Result"] == 0:
        return int(response["ExitCode"])
    assert response["Result"] & 0xFFFFFFFF == NOT_FOUND, response
    return int(response.get("ExitCode", 0))


def execute(vm: Vm, bridge: Bridge, container: str, command: str, data: bytes | None = None) -> tuple[int, bytes]:
    """Run a command in the guest, and return its exit code and output."""
    services = {"StdOut": str(uuid.uuid4())} | ({"StdIn": str(uuid.uuid4())} if data is not None else {})
    listeners = {name: vm.listen(service) for name, service in services.items()}
    parameters = {"CommandLine": command, "CreateStdOutPipe": True, "CreateStdInPipe": data is not None}
    settings = {"ProcessParameters": json.dumps(parameters), "StdioRelaySettings": services}
    pid = bridge.ok(bridge_frames.EXECUTE_PROCESS, container, Settings=settings)["ProcessId"]
    streams = {name: listener.accept() for name, listener in listeners.items()}
    sender = threading.Thread(target=send, args=(streams.get("StdIn"), data))
    sender.start()
    output = b""
    while piece := streams["StdOut"].recv(1 << 16):
        output += piece
    sender.join()
    for end in (*streams.values(), *listeners.values()):
        end.close()
    return wait_for_exit(bridge, container, pid), output


def running_container(vm: Vm, bridge: Bridge) -> int:
    """Start a container with a sleeping process, and return the pid of that process."""
    bridge.ok(bridge_frames.CREATE, "app", ContainerConfig=config(prepared(vm, bridge)))
    bridge.ok(bridge_frames.START, "app")
    settings = {"ProcessParameters": json.dumps({"CommandLine": "cmd /c ping -t localhost"})}
    pid: int = bridge.ok(bridge_frames.EXECUTE_PROCESS, "app", Settings=settings)["ProcessId"]
    return pid
