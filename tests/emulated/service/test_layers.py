"""Layers, disks and networks: what is refused, what is mounted, and that nothing is leaked."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.wire_client import EXITED, WireClient

NOT_FOUND = 0x80070490
NOT_READY = 0x80070015
NO_FILTER = 0x801F0015
PATH_NOT_FOUND = 0x80070003
EXISTS = 0x800700B7
FILE_EXISTS = 0x80070050
SHARING_VIOLATION = 0x80070020
BUSY = 0x800700AA
INVALID_PARAMETER = 0x80070057
ACCESS_DENIED = 0x80070005


@pytest.fixture
def layers(tmp_path: Path) -> list[str]:
    """Two layers, topmost first, as pairs of id and path; both have `shared`, the top one wins."""
    for name, content in (("top", "from top"), ("base", "from base")):
        (tmp_path / name / "Files").mkdir(parents=True)
        (tmp_path / name / "Files" / "shared").write_text(content)
    (tmp_path / "base" / "Files" / "only-base").write_text("base")
    guid = str(uuid.uuid4())
    return [guid, str(tmp_path / "top"), guid, str(tmp_path / "base")]


def volume_directory(emulator: Emulator, path: str) -> Path:
    assert path.startswith("\\\\?\\Volume{") and path.endswith("}")
    return emulator.directory / "volumes" / path[11:-1]


def test_scratch_layer_lifecycle(
    emulator: Emulator, client: WireClient, layers: list[str], tmp_path: Path
) -> None:
    scratch = str(tmp_path / "scratch")
    client.ok("CreateSandboxLayer", scratch, None, *layers)
    assert (tmp_path / "scratch" / "sandbox.vhdx").is_file()
    assert client.call("CreateSandboxLayer", scratch, None, *layers).hresult == FILE_EXISTS
    client.ok("ActivateLayer", scratch)
    assert client.call("ActivateLayer", scratch).hresult == EXISTS
    path = client.ok("GetLayerMountPath", scratch).text
    assert path is not None
    client.ok("PrepareLayer", scratch, *layers)
    assert client.call("PrepareLayer", scratch, *layers).hresult == EXISTS
    merged = volume_directory(emulator, path)
    assert ((merged / "shared").read_text(), (merged / "only-base").read_text()) == ("from top", "base")
    (merged / "written").write_text("kept")
    assert client.call("DeactivateLayer", scratch).hresult == BUSY
    assert client.call("DestroyLayer", scratch).hresult == SHARING_VIOLATION
    client.ok("UnprepareLayer", scratch)
    assert emulator.mounts() == []
    assert client.call("UnprepareLayer", scratch).hresult == NO_FILTER
    client.ok("DeactivateLayer", scratch)
    assert client.call("DeactivateLayer", scratch).hresult == NOT_READY
    assert list((emulator.directory / "volumes").iterdir()) == []
    assert not (tmp_path / "top" / "Files" / "written").exists()
    # What was written is on the disk and shows again when the layer is prepared again.
    client.ok("ActivateLayer", scratch)
    client.ok("PrepareLayer", scratch, *layers)
    again = client.ok("GetLayerMountPath", scratch).text
    assert again is not None
    assert (volume_directory(emulator, again) / "written").read_text() == "kept"
    client.ok("UnprepareLayer", scratch)
    client.ok("DeactivateLayer", scratch)
    client.ok("DestroyLayer", scratch)
    assert not Path(scratch).exists()
    assert client.call("DestroyLayer", scratch).hresult == PATH_NOT_FOUND


def test_container_uses_its_volume_as_root_and_locks_it(
    emulator: Emulator, client: WireClient, layers: list[str], tmp_path: Path
) -> None:
    scratch = str(tmp_path / "scratch")
    client.ok("CreateSandboxLayer", scratch, None, *layers)
    client.ok("ActivateLayer", scratch)
    path = client.ok("GetLayerMountPath", scratch).text
    storage = {"Layers": [{"Id": layers[0], "Path": layers[1]}], "Path": f"{path}\\"}
    unprepared = client.call("HcsCreateComputeSystem", "rooted", documents.container(Storage=storage))
    assert unprepared.hresult == 0x80070002
    client.ok("PrepareLayer", scratch, *layers)
    assert path is not None
    for wrong in (storage | {"Path": path[:-1]}, {"Path": path}, storage | {"Layers": [{"Path": layers[1]}]}):
        refused = client.call("HcsCreateComputeSystem", "rooted", documents.container(Storage=wrong))
        assert refused.hresult == 0x8037010D
    handle = client.ok("HcsCreateComputeSystem", "rooted", documents.container(Storage=storage)).handle
    client.ok("HcsSetComputeSystemCallback", handle=handle)
    client.ok("HcsStartComputeSystem", None, handle=handle)
    parameters = {"CommandLine": "cmd /c type C:\\shared", "CreateStdOutPipe": True}
    assert client.ok("HcsCreateProcess", parameters, handle=handle).read() == b"from top"
    for call in ("UnprepareLayer", "DeactivateLayer"):
        answer = client.call(call, scratch)
        assert (answer.hresult, "rooted" in (answer.text or "")) == (SHARING_VIOLATION, True)
    client.ok("HcsTerminateComputeSystem", None, handle=handle)
    client.wait_event(handle, EXITED)
    client.ok("UnprepareLayer", scratch)
    client.ok("DeactivateLayer", scratch)


def test_mapped_directories_and_pipes_are_visible_in_the_container(
    emulator: Emulator, client: WireClient, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("mapped")
    (emulator.directory / "pipe").mkdir()
    pipe = emulator.directory / "pipe" / "agent"
    pipe.write_text("stands for a pipe")
    document = documents.container(
        MappedDirectories=[{"HostPath": str(tmp_path / "data"), "ContainerPath": "C:\\data", "ReadOnly": True}],
        MappedPipes=[
            {"ContainerPipeName": "agent", "HostPath": "\\\\.\\pipe\\agent"},
            {"ContainerPipeName": "later", "HostPath": "\\\\.\\pipe\\later"},
        ],
    )
    handle = client.ok("HcsCreateComputeSystem", "mapped", document).handle
    client.ok("HcsStartComputeSystem", None, handle=handle)
    assert emulator.journal(event="MappedPipeMissing")[0]["document"]["HostPath"] == "\\\\.\\pipe\\later"

    def output(command: str) -> bytes:
        parameters = {"CommandLine": command, "CreateStdOutPipe": True}
        return client.ok("HcsCreateProcess", parameters, handle=handle).read()

    assert output("cat /data/file /pipe/agent") == b"mappedstands for a pipe"
    assert output('sh -c "echo x > /data/file || echo refused"') == b"refused\n"
    change = {"ResourcePath": "Container/MappedDirectories", "RequestType": "Add"}
    more = {"HostPath": str(tmp_path), "ContainerPath": "C:\\more"}
    client.ok("HcsModifyComputeSystem", change | {"Settings": more}, handle=handle)
    assert client.call("HcsModifyComputeSystem", change | {"Settings": more}, handle=handle).hresult == EXISTS
    assert output("cat /more/data/file") == b"mapped"
    client.ok("HcsModifyComputeSystem", change | {"RequestType": "Remove", "Settings": more}, handle=handle)
    assert output("ls /more") == b""
    missing = documents.container(MappedDirectories=[{"HostPath": "/nowhere", "ContainerPath": "C:\\x"}])
    assert client.call("HcsCreateComputeSystem", "missing", missing).hresult == 0x80070002


def test_directories_that_are_no_layers_are_not_destroyed(client: WireClient, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    assert client.call("DestroyLayer", str(tmp_path / "precious")).hresult == ACCESS_DENIED
    assert client.call("HcsDestroyLayer", "/").hresult == ACCESS_DENIED
    assert (tmp_path / "precious" / "file").exists()
    for path in (None, "", "relative", "C:\\layers\\1"):
        assert client.call("ActivateLayer", path).hresult == INVALID_PARAMETER
    assert client.call("ActivateLayer", str(tmp_path / "missing")).hresult == PATH_NOT_FOUND
    assert client.call("CreateSandboxLayer", str(tmp_path / "new"), None).hresult == INVALID_PARAMETER
    missing = [str(uuid.uuid4()), str(tmp_path / "missing")]
    assert client.call("CreateSandboxLayer", str(tmp_path / "new"), None, *missing).hresult == PATH_NOT_FOUND


def test_read_only_layer_has_no_volume(client: WireClient, layers: list[str]) -> None:
    client.ok("ActivateLayer", layers[1])
    assert client.ok("GetLayerMountPath", layers[1]).text == layers[1]
    client.ok("DeactivateLayer", layers[1])
    assert client.ok("LayerExists", layers[1]).pid == 1
    assert client.ok("LayerExists", layers[1] + "x").pid == 0
    first, second = (client.ok("NameToGuid", name).text for name in ("1", "1"))
    assert first == second and uuid.UUID(first)


def test_storage_filters_attach_and_detach(
    emulator: Emulator, client: WireClient, layers: list[str], tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    data = {
        "SchemaVersion": {"Major": 2, "Minor": 1},
        "Layers": [{"Id": layers[0], "Path": layers[1]}, {"Id": layers[2], "Path": layers[3]}],
    }
    client.ok("HcsInitializeWritableLayer", str(scratch), data, None)
    for attach, detach, extra in (
        ("HcsAttachLayerStorageFilter", "HcsDetachLayerStorageFilter", ()),
        ("HcsAttachOverlayFilter", "HcsDetachOverlayFilter", ({"SchemaVersion": {}, "FilterType": "UnionFS"},)),
    ):
        client.ok(attach, str(scratch), data)
        assert client.call(attach, str(scratch), data).hresult == EXISTS
        assert (scratch / "only-base").read_text() == "base"
        client.ok(detach, str(scratch), *extra)
        assert not (scratch / "only-base").exists()
        assert client.call(detach, str(scratch), *extra).hresult == NOT_FOUND
    assert client.call("HcsAttachOverlayFilter", str(scratch), {"Layerz": []}).hresult == 0x8037010D


def test_layer_import_export_and_virtual_disks(client: WireClient, layers: list[str], tmp_path: Path) -> None:
    client.ok("ImportLayer", str(tmp_path / "imported"), layers[3])
    assert (tmp_path / "imported" / "Files" / "only-base").exists()
    client.ok("ExportLayer", str(tmp_path / "imported"), str(tmp_path / "exported"))
    assert (tmp_path / "exported" / "Files" / "only-base").exists()
    disk = client.ok("CreateVirtualDisk", str(tmp_path / "x.vhdx"), None, number=1 << 30).handle
    client.ok("AttachVirtualDisk", handle=disk)
    assert client.ok("GetVirtualDiskPhysicalPath", handle=disk).text == "\\\\.\\PhysicalDrive1"
    client.ok("CloseHandle", handle=disk)
    again = client.ok("OpenVirtualDisk", str(tmp_path / "x.vhdx")).handle
    assert client.call("DetachVirtualDisk", handle=again).hresult == 0x80070015
    client.ok("HcsFormatWritableLayerVhd", handle=again)


# networks


def create_network(client: WireClient) -> tuple[str, str, int]:
    """A namespace with an endpoint in it: both ids and the namespace's handle."""
    version = {"SchemaVersion": {"Major": 2, "Minor": 0}}
    network = client.ok("HcnCreateNetwork", str(uuid.uuid4()), version | {"Type": "NAT", "Name": "nat"}).handle
    endpoint, namespace = str(uuid.uuid4()), str(uuid.uuid4())
    client.ok("HcnCreateEndpoint", endpoint, version | {"Name": "eth0"}, handle=network)
    handle = client.ok("HcnCreateNamespace", namespace, version).handle
    change = {"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint}}
    client.ok("HcnModifyNamespace", change, handle=handle)
    assert client.call("HcnModifyNamespace", change, handle=handle).hresult == 0x803B002B
    return namespace, endpoint, handle


def properties(client: WireClient, handle: int) -> dict[str, Any]:
    document: dict[str, Any] = client.ok("HcnQueryNamespaceProperties", None, handle=handle).document
    return document


def test_namespace_and_endpoint_lifecycle(client: WireClient) -> None:
    namespace, endpoint, handle = create_network(client)
    assert properties(client, handle)["Resources"] == [{"Type": "Endpoint", "Data": {"Id": endpoint}}]
    query = {"SchemaVersion": {"Major": 2, "Minor": 0}, "Filter": json.dumps({"ID": namespace.upper()})}
    assert client.ok("HcnEnumerateNamespaces", query).document == [namespace]
    assert client.ok("HcnEnumerateNamespaces", query | {"Filter": '{"ID":"x"}'}).document == []
    found = client.ok("HcnOpenEndpoint", endpoint).handle
    assert client.ok("HcnQueryEndpointProperties", query, handle=found).document["HostComputeNamespace"] == namespace
    client.ok(
        "HcnModifyNamespace",
        {"ResourceType": "Endpoint", "RequestType": "Remove", "Settings": {"EndpointId": endpoint}},
        handle=handle,
    )
    assert properties(client, handle)["Resources"] == []
    client.ok("HcnDeleteNamespace", namespace)
    assert client.call("HcnOpenNamespace", namespace).hresult == NOT_FOUND
    assert client.call("HcnQueryNamespaceProperties", None, handle=handle).hresult == NOT_FOUND
    assert client.call("HcnCreateNamespace", namespace, {"Colour": 1}).hresult == 0x803B001B
    assert client.call("HcnOpenNamespace", "no guid").hresult == INVALID_PARAMETER


def test_running_container_is_a_resource_of_its_namespace(client: WireClient) -> None:
    namespace, endpoint, handle = create_network(client)
    missing = client.ok(
        "HcsCreateComputeSystem", "m", documents.container(Networking={"Namespace": str(uuid.uuid4())})
    ).handle
    assert client.call("HcsStartComputeSystem", None, handle=missing).hresult == NOT_FOUND
    system = client.ok("HcsCreateComputeSystem", "n", documents.container(Networking={"Namespace": namespace})).handle
    client.ok("HcsStartComputeSystem", None, handle=system)
    assert {"Type": "Container", "Data": {"Id": "n"}} in properties(client, handle)["Resources"]
    client.ok("HcsTerminateComputeSystem", None, handle=system)
    assert properties(client, handle)["Resources"] == [{"Type": "Endpoint", "Data": {"Id": endpoint}}]


def test_hns_calls_of_a_teardown_succeed(client: WireClient) -> None:
    namespace, endpoint, _ = create_network(client)
    resource = {"Type": "Endpoint", "Data": {"Id": endpoint}}

    def hns(method: str, path: str, body: Any = "") -> Any:
        return client.ok("HNSCall", method, path, body).document

    assert hns("GET", "/globals/version")["Output"]["Major"] >= 13
    assert hns("POST", f"/namespaces/{namespace}/removeresource", resource)["Success"]
    again = hns("POST", f"/namespaces/{namespace}/removeresource", resource)
    assert not again["Success"] and "Element not found." in again["Error"]
    assert hns("DELETE", f"/namespaces/{namespace}")["Success"]
    assert "Element not found." in hns("DELETE", f"/namespaces/{namespace}")["Error"]


# the service


def test_credential_guard_and_cpu_group_settings(client: WireClient) -> None:
    def modify(kind: str, operation: str, **details: Any) -> int:
        settings = {"PropertyType": kind, "Settings": {"Operation": operation, "OperationDetails": details}}
        return client.call("HcsModifyServiceSettings", settings).hresult

    def query(kind: str) -> Any:
        (answer,) = client.ok("HcsGetServiceProperties", {"PropertyTypes": [kind]}).document["Properties"]
        return answer

    guard = {"Id": "app", "CredentialSpec": "{}", "Transport": "LRPC"}
    assert modify("ContainerCredentialGuard", "AddInstance", **guard) == 0
    assert modify("ContainerCredentialGuard", "AddInstance", **guard) == EXISTS
    (instance,) = query("ContainerCredentialGuard")["Instances"]
    assert (instance["Id"], instance["CredentialGuard"]["Transport"]) == ("app", "LRPC")
    assert modify("ContainerCredentialGuard", "RemoveInstance", Id="app") == 0
    assert modify("ContainerCredentialGuard", "RemoveInstance", Id="app") == NOT_FOUND
    group = str(uuid.uuid4())
    assert modify("CpuGroup", "CreateGroup", GroupId=group, LogicalProcessors=[0]) == 0
    assert [entry["GroupId"] for entry in query("CpuGroup")["CpuGroups"]] == [group]
    assert modify("CpuGroup", "DeleteGroup", GroupId=group) == 0
    assert query("ProcessorTopology")["LogicalProcessorCount"] == len(query("ProcessorTopology")["LogicalProcessors"])
