"""The GCS bridge of a utility VM's guest, and the containers in the VM."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

from hcs_emulator.vm import bridge_frames
from shim.uvm.gcs.bridge import Bridge as ShimBridge
from shim.uvm.gcs.bridge import GuestError
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.guest_host import GCS, NULL, Bridge
from tests.support.vm import (
    CONTROLLER,
    DEVICES,
    NOT_FOUND,
    VSMB,
    Vm,
    config,
    execute,
    negotiated,
    prepared,
    running_container,
    wait_for_exit,
)
from tests.support.wire_client import WireClient


def test_guest_container_lifecycle(emulator: Emulator, client: WireClient, vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    addresses = {"LocalAddress": vm.runtime_id, "ParentAddress": "894cc2d6-9d79-424f-93fe-42969ae6d8d1"}
    assert bridge.modify("HvSocket", "Update", addresses)["Result"] == 0
    mount = prepared(vm, bridge)
    bridge.ok(bridge_frames.CREATE, "app", ContainerConfig=config(mount))
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=config(mount)) == "C037010F"
    query = json.dumps({"PropertyTypes": ["SystemGUID"]})
    properties = bridge.ok(bridge_frames.GET_PROPERTIES, "app", Query=query)["Properties"]
    assert uuid.UUID(json.loads(properties)["SystemGUID"])
    assert (
        bridge.refused(bridge_frames.EXECUTE_PROCESS, "app", Settings={"ProcessParameters": '{"CommandLine": "x"}'})
        == "80370105"
    )
    bridge.ok(bridge_frames.START, "app")
    assert execute(vm, bridge, "app", "cmd /c type C:\\greeting") == (0, b"from the layer")
    assert execute(vm, bridge, "app", "cmd /c exit 7")[0] == 7
    properties = bridge.ok(bridge_frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["Statistics","ProcessList"]}')[
        "Properties"
    ]
    assert json.loads(properties)["Statistics"]["Uptime100ns"] > 0
    # HCS on the host knows only the VM.
    assert [system["Id"] for system in client.ok("HcsEnumerateComputeSystems", None).document] == ["pod@vm"]
    assert bridge.modify("CombinedLayers", "Remove", {"ContainerRootPath": mount})["Result"] != 0
    bridge.ok(bridge_frames.SHUTDOWN_GRACEFUL, "app")
    assert bridge.wait_notification("app")["Type"] == "GracefulExit"
    assert bridge.refused(bridge_frames.SHUTDOWN_GRACEFUL, "app") == "C0370110"
    assert bridge.modify("CombinedLayers", "Remove", {"ContainerRootPath": mount})["Result"] == 0
    assert bridge.modify("MappedVirtualDisk", "Remove", {"ContainerPath": mount, "Lun": 1})["Result"] == 0
    assert vm.modify(f"{DEVICES}Scsi/{CONTROLLER}/Attachments/1", "Remove") == 0
    bridge.ok(bridge_frames.DELETE_CONTAINER_STATE, "app")
    assert bridge.refused(bridge_frames.START, "app") == "C037010E"
    assert emulator.mounts() == []
    vm.terminate()
    # The journal has the requests of the bridge, too, with documents as JSON. An entry may follow the answer.
    eventually(lambda: len(emulator.journal("guest:DeleteContainerState")) == 1, "the journal of all requests")
    created = emulator.journal("guest:Create")[1]
    assert created["arguments"]["ContainerConfig"]["Container"]["Storage"] == {"Path": mount}
    assert created["result"] == "0x00000000"
    assert emulator.journal("guest:Create")[2]["result"] == "0xC037010F"
    assert emulator.journal("guest:ExecuteProcess")[1]["answer"]["ProcessId"] > 0


def test_guest_process_stdin_signals_and_kill(vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    pid = running_container(vm, bridge)
    bridge.ok(bridge_frames.SIGNAL_PROCESS, "app", ProcessId=pid, Options={"Signal": "CtrlShutdown"})
    assert wait_for_exit(bridge, "app", pid) == 0xC000013A
    assert bridge.refused(bridge_frames.SIGNAL_PROCESS, "app", ProcessId=pid) == "80070490"
    assert bridge.refused(bridge_frames.WAIT_FOR_PROCESS, "app", ProcessId=1) == "80070490"
    settings = {"ProcessParameters": json.dumps({"CommandLine": "cmd /c ping -t localhost"})}
    second = bridge.ok(bridge_frames.EXECUTE_PROCESS, "app", Settings=settings)["ProcessId"]
    assert bridge.refused(bridge_frames.WAIT_FOR_PROCESS, "app", ProcessId=second, TimeoutInMs=50) == "C0370109"
    bridge.ok(bridge_frames.SIGNAL_PROCESS, "app", ProcessId=second)
    assert wait_for_exit(bridge, "app", second) == 0xFFFFFFFF
    missing = {"ProcessParameters": json.dumps({"CommandLine": "no-such-program"})}
    assert bridge.refused(bridge_frames.EXECUTE_PROCESS, "app", Settings=missing) == "80070002"
    deaf = {
        "ProcessParameters": json.dumps({"CommandLine": "cmd /c echo x", "CreateStdOutPipe": True}),
        "StdioRelaySettings": {"StdOut": str(uuid.uuid4())},
    }
    assert bridge.refused(bridge_frames.EXECUTE_PROCESS, "app", Settings=deaf) == "C0370108"
    bridge.ok(bridge_frames.SHUTDOWN_FORCED, "app")
    assert bridge.wait_notification("app")["Type"] == "ForcedExit"
    vm.terminate()


def test_guest_process_output_is_relayed_completely(vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    # The VM itself runs processes, too; `cat` is a program of the host that its system silo shows.
    data = os.urandom(3 << 20)
    assert execute(vm, bridge, NULL, "cat", data) == (0, data)
    vm.terminate()


def test_guest_accesses_only_granted_resources(vm: Vm, tmp_path: Path) -> None:
    bridge = negotiated(vm.boot())
    mount = prepared(vm, bridge)
    (tmp_path / "secret").write_text("x")
    places = [VSMB + "s9", VSMB + "s1\\..\\..\\secret", str(tmp_path), "C:\\Windows\\..\\..\\..\\etc"]
    for place in places:
        directories = [{"HostPath": place, "ContainerPath": "C:\\x"}]
        assert (
            bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=config(mount, MappedDirectories=directories))
            == "80070002"
        )
    assert (
        bridge.modify("MappedVirtualDisk", "Add", {"ContainerPath": "c:\\m9", "Lun": 9})["Result"] & 0xFFFFFFFF
        == NOT_FOUND
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.ini").write_text("a")
    (tmp_path / "data" / "b.ini").write_text("b")
    options = {"ReadOnly": True, "RestrictFileAccess": True, "SingleFileMapping": True}
    share = {"Name": "s4", "Path": str(tmp_path / "data"), "AllowedFiles": [str(tmp_path / "data" / "a.ini")]}
    assert vm.modify(DEVICES + "VirtualSmb/Shares", "Add", share | {"Options": options}) == 0
    denied = [{"HostPath": VSMB + "s4\\b.ini", "ContainerPath": "C:\\b.ini"}]
    refusal = bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=config(mount, MappedDirectories=denied))
    assert refusal == "80070002"
    allowed = [{"HostPath": VSMB + "s4\\a.ini", "ContainerPath": "C:\\a.ini"}]
    bridge.ok(bridge_frames.CREATE, "app", ContainerConfig=config(mount, MappedDirectories=allowed))
    bridge.ok(bridge_frames.START, "app")
    assert execute(vm, bridge, "app", "cmd /c type C:\\a.ini") == (0, b"a")
    vm.terminate()


def test_guest_network_namespace_and_adapters(client: WireClient, vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    version = {"SchemaVersion": {"Major": 2, "Minor": 0}}
    network = client.ok("HcnCreateNetwork", str(uuid.uuid4()), version | {"Type": "NAT"}).handle
    endpoint, adapter, namespace = (str(uuid.uuid4()) for _ in range(3))
    client.ok("HcnCreateEndpoint", endpoint, version, handle=network)
    mount = prepared(vm, bridge)
    networking = config(mount, Networking={"Namespace": namespace})
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=networking) == "80070490"
    assert bridge.modify("NetworkNamespace", "Add", version | {"ID": namespace, "NamespaceId": 7})["Result"] == 0
    add = {"AdapterId": adapter, "RequestType": "Add"}
    assert bridge.modify("Network", "Add", add)["Result"] & 0xFFFFFFFF == NOT_FOUND
    assert (
        bridge.modify("Network", "Add", add | {"RequestType": "PreAdd", "Settings": version | {"ID": endpoint}})[
            "Result"
        ]
        == 0
    )
    assert bridge.modify("Network", "Add", add)["Result"] & 0xFFFFFFFF == 0x803B0026
    assert vm.modify(f"{DEVICES}NetworkAdapters/{adapter}", "Add", {"EndpointId": endpoint}) == 0
    assert bridge.modify("Network", "Add", add)["Result"] == 0
    bridge.ok(bridge_frames.CREATE, "app", ContainerConfig=networking)
    assert bridge.modify("Network", "Remove", add | {"RequestType": "Remove"})["Result"] == 0
    assert vm.modify(f"{DEVICES}NetworkAdapters/{adapter}", "Remove") == 0
    assert bridge.modify("NetworkNamespace", "Remove", version | {"ID": namespace})["Result"] == 0
    vm.terminate()


def test_bridge_refuses_invalid_requests(vm: Vm) -> None:
    bridge = vm.boot()
    assert bridge.refused(bridge_frames.START, NULL) == "C0370111"
    assert bridge.refused(bridge_frames.NEGOTIATE, "", MinimumVersion=5, MaximumVersion=6) == "C037010C"
    negotiated(bridge)
    assert bridge.refused(0x00100999, NULL) == "C037010B"
    assert bridge.refused(bridge_frames.START, "nobody") == "C037010E"
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig="{") == "C037010D"
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=json.dumps({"Container": {}})) == "C037010D"
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=config("c:\\m", Colour=1)) == "C037010D"
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig=config("c:\\nothing")) == "80070490"
    assert bridge.refused(bridge_frames.CREATE, "app", ContainerConfig="{}", Colour=1) == "C037010D"
    assert bridge.modify("Toaster", "Add", {})["Result"] & 0xFFFFFFFF == 0xC037010D
    newer = {"ContainerRootPath": "c:\\m", "Layers": [], "FilterType": "WCIFS"}
    assert bridge.modify("CombinedLayers", "Add", newer)["Result"] & 0xFFFFFFFF == 0xC037010D
    assert bridge.ok(bridge_frames.DUMP_STACKS, NULL)["GuestStacks"]
    vm.terminate()


def test_log_forwarding_and_reconnect_after_a_lost_bridge(vm: Vm) -> None:
    bridge = negotiated(vm.boot())
    logs = vm.listen("172dad59-976d-45f2-8b6c-6d1b13f2ac4d")
    service = {"PropertyType": "LogForwardService"}
    bridge.ok(
        bridge_frames.MODIFY_SERVICE_SETTINGS,
        NULL,
        **service,
        Settings={"RPCType": "ModifyServiceSettings", "Settings": "e30="},
    )
    bridge.ok(bridge_frames.MODIFY_SERVICE_SETTINGS, NULL, **service, Settings={"RPCType": "StartLogForwarding"})
    connection = logs.accept()
    assert b"log forwarding started" in connection.recv(4096)
    connection.close()
    logs.close()
    # The guest connects again when the bridge is lost, and its containers still run.
    running_container(vm, bridge)
    bridge.close()
    assert vm._listener is not None
    again = Bridge(vm._listener.accept())
    again.ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    assert json.loads(again.ok(bridge_frames.GET_PROPERTIES, "app", Query="")["Properties"])["State"] == "Running"
    again.close()
    vm.terminate()


def test_shim_bridge_connects_to_the_guest(vm: Vm) -> None:
    vm.create()
    listener = vm.listen(GCS)
    vm.start()
    bridge = ShimBridge(listener.accept(), lambda message: None, lambda error: None)
    bridge.start()
    try:
        body = {"ContainerId": "", "ActivityId": NULL, "MinimumVersion": 4, "MaximumVersion": 4}
        assert bridge.call(bridge_frames.NEGOTIATE, body)["Version"] == 4
        with pytest.raises(GuestError) as refused:
            bridge.call(bridge_frames.START, {"ContainerId": "nobody", "ActivityId": NULL})
        assert refused.value.code == 0xC037010E
    finally:
        bridge.close()
        listener.close()
    vm.terminate()
