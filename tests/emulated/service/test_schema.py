"""Documents that the service refuses: every error names the place in the document."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.wire_client import WireClient

INVALID_JSON = 0x8037010D
GUID = "8e3a1b0c-7d5e-4f10-9a11-2c4b6d8e0f12"


@pytest.fixture(scope="module")
def client() -> Iterator[WireClient]:
    emulator = Emulator()
    with WireClient(emulator.directory) as client:
        yield client
    emulator.stop()


def change(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with the member at `path` (dots between names) set, or removed when the value is ...."""
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    place = changed
    for name in parents:
        place = place.setdefault(name, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


# path to change in a container document, value, place named in the error
CONTAINER_CASES = [
    ("SchemaVersion", ..., "$.SchemaVersion"),
    ("SchemaVersion", {"Major": 2}, "$.SchemaVersion.Minor"),
    ("SchemaVersion", {"Major": 1, "Minor": 0}, "$.SchemaVersion"),
    ("SchemaVersion", {"Major": 2, "Minor": 99}, "$.SchemaVersion"),
    ("SchemaVersion", "2.1", "$.SchemaVersion"),
    ("FooBar", 1, "$.FooBar"),
    ("owner", "lower case is another name", "$.owner"),
    ("Owner", 7, "$.Owner"),
    ("ShouldTerminateOnLastHandleClosed", "yes", "$.ShouldTerminateOnLastHandleClosed"),
    ("Container", [], "$.Container"),
    ("Container", ..., "$"),
    ("HostingSystemId", "vm", "$.HostingSystemId"),
    ("Container.FooBar", {}, "$.Container.FooBar"),
    ("Container.Memory.SizeInMB", "512", "$.Container.Memory.SizeInMB"),
    ("Container.Memory.SizeInMB", 0, "$.Container.Memory.SizeInMB"),
    ("Container.Memory.SizeInMb", 512, "$.Container.Memory.SizeInMb"),
    ("Container.Processor.Maximum", 10001, "$.Container.Processor.Maximum"),
    ("Container.Processor.Weight", -1, "$.Container.Processor.Weight"),
    ("Container.Processor", {"Count": 1, "Maximum": 100}, "$.Container.Processor"),
    ("Container.MappedDirectories", {"HostPath": "/"}, "$.Container.MappedDirectories"),
    ("Container.MappedDirectories", [{"HostPath": "/tmp"}], "$.Container.MappedDirectories[0].ContainerPath"),
    (
        "Container.MappedDirectories",
        [{"HostPath": "/tmp", "ContainerPath": "C:\\x", "Readonly": True}],
        "$.Container.MappedDirectories[0].Readonly",
    ),
    ("Container.Storage.Layers", [{"Id": "no guid", "Path": "/"}], "$.Container.Storage.Layers[0].Id"),
    ("Container.Storage.QoS.IopsMaximum", 2**31, "$.Container.Storage.QoS.IopsMaximum"),
    ("Container.RegistryChanges.AddValues", [{}], "$.Container.RegistryChanges.AddValues[0].Key"),
    (
        "Container.RegistryChanges.AddValues",
        [{"Key": {"Hive": "Users", "Name": "x"}, "Name": "n", "Type": "String"}],
        "$.Container.RegistryChanges.AddValues[0].Key.Hive",
    ),
    ("Container.AssignedDevices", [{"Type": "Toaster"}], "$.Container.AssignedDevices[0].Type"),
    ("Container.IsolationType", "Total", "$.Container.IsolationType"),
    ("Container.ContainerCredentialGuard.Transport", "Pigeon", "$.Container.ContainerCredentialGuard.Transport"),
    ("Container.GuestOs", None, "$.Container.GuestOs"),
    ("VirtualMachine", documents.virtual_machine()["VirtualMachine"], "$"),
]


@pytest.mark.parametrize(
    ("path", "value", "place"), CONTAINER_CASES, ids=[case[2] + "/" + case[0] for case in CONTAINER_CASES]
)
def test_invalid_container_documents_are_refused(client: WireClient, path: str, value: Any, place: str) -> None:
    answer = client.call("HcsCreateComputeSystem", "bad", change(documents.container(), path, value))
    assert (f"{answer.hresult:08X}", answer.places) == (f"{INVALID_JSON:08X}", [place])
    assert place in answer.document["ErrorEvents"][0]["Message"]
    assert answer.document["Error"] == INVALID_JSON - (1 << 32)


VM = "VirtualMachine."
VM_CASES = [
    (VM + "Chipset", ..., "$.VirtualMachine.Chipset"),
    (VM + "ComputeTopology.Memory", {}, "$.VirtualMachine.ComputeTopology.Memory.SizeInMB"),
    (VM + "ComputeTopology.Processor.Count", 0, "$.VirtualMachine.ComputeTopology.Processor.Count"),
    (VM + "ComputeTopology.Processor.Limit", 100001, "$.VirtualMachine.ComputeTopology.Processor.Limit"),
    (VM + "ComputeTopology.Numa", {}, "$.VirtualMachine.ComputeTopology.Numa"),
    (VM + "ComputeTopology.Memory.LowMMIOGapInMB", 1, "$.VirtualMachine.ComputeTopology.Memory.LowMMIOGapInMB"),
    (VM + "Devices.Scsi", {"0": {}}, "$.VirtualMachine.Devices.Scsi.0"),
    (VM + "Devices.Scsi", {GUID: {"Attachments": {"64": {}}}}, f"$.VirtualMachine.Devices.Scsi.{GUID}.Attachments.64"),
    (
        VM + "Devices.Scsi",
        {GUID: {"Attachments": {"1": {"Type": "Floppy", "Path": "x"}}}},
        f"$.VirtualMachine.Devices.Scsi.{GUID}.Attachments.1.Type",
    ),
    (VM + "Devices.VirtualSmb.Shares", [{"Name": "os"}], "$.VirtualMachine.Devices.VirtualSmb.Shares[0].Path"),
    (
        VM + "Devices.VirtualSmb.Shares",
        [{"Name": "os", "Path": "/", "Options": {"NoDirectMap": True}}],
        "$.VirtualMachine.Devices.VirtualSmb.Shares[0].Options.NoDirectMap",
    ),
    (VM + "Chipset.Uefi.BootThis.DeviceType", "VMBFS", "$.VirtualMachine.Chipset.Uefi.BootThis.DeviceType"),
    (
        VM + "Devices.HvSocket.HvSocketConfig.ServiceTable",
        {"x": {}},
        "$.VirtualMachine.Devices.HvSocket.HvSocketConfig.ServiceTable.x",
    ),
]


@pytest.mark.parametrize(("path", "value", "place"), VM_CASES, ids=[case[2] for case in VM_CASES])
def test_invalid_virtual_machine_documents_are_refused(client: WireClient, path: str, value: Any, place: str) -> None:
    answer = client.call("HcsCreateComputeSystem", "bad", change(documents.virtual_machine(), path, value))
    assert (f"{answer.hresult:08X}", answer.places) == (f"{INVALID_JSON:08X}", [place])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        "[]",
        '"text"',
        "{} {}",
        '{"a": NaN}',
        '{"SchemaVersion": 1, "SchemaVersion": 2}',
        "null",
        None,
    ],
)
def test_invalid_json_is_refused(client: WireClient, text: str | None) -> None:
    assert client.call("HcsCreateComputeSystem", "bad", text).hresult == INVALID_JSON


PROCESS_CASES = [
    ({}, "$.CommandLine"),
    ({"CommandLine": 1}, "$.CommandLine"),
    ({"CommandLine": "x", "Args": []}, "$.Args"),
    ({"CommandLine": "x", "ConsoleSize": [1, 2, 3]}, "$.ConsoleSize"),
    ({"CommandLine": "x", "Environment": {"A": 1}}, "$.Environment.A"),
    ({"CommandLine": "x", "EmulateConsole": True, "CreateStdErrPipe": True}, "$.CreateStdErrPipe"),
    ({"CommandLine": "x", "CreateStdInPipe": "true"}, "$.CreateStdInPipe"),
]


@pytest.fixture(scope="module")
def system(client: WireClient) -> int:
    handle = client.ok("HcsCreateComputeSystem", "running", documents.container()).handle
    client.ok("HcsStartComputeSystem", None, handle=handle)
    return handle


@pytest.mark.parametrize(("parameters", "place"), PROCESS_CASES)
def test_invalid_process_parameters_are_refused(
    client: WireClient, system: int, parameters: dict[str, Any], place: str
) -> None:
    answer = client.call("HcsCreateProcess", parameters, handle=system)
    assert (answer.hresult, answer.places) == (INVALID_JSON, [place])


MODIFY_CASES = [
    ({"ResourcePath": "Container/Colour", "RequestType": "Update", "Settings": 1}, "$.ResourcePath"),
    ({"ResourcePath": "VirtualMachine/ComputeTopology/Memory/SizeInMB", "Settings": 512}, "$.ResourcePath"),
    ({"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Add", "Settings": 512}, "$.RequestType"),
    ({"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Change", "Settings": 512}, "$.RequestType"),
    ({"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Update"}, "$.Settings"),
    ({"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Update", "Settings": "a lot"}, "$.Settings"),
    (
        {"ResourcePath": "Container/Processor", "RequestType": "Update", "Settings": {"Count": 1, "Weight": 2}},
        "$.Settings",
    ),
    ({"ResourceUri": "Container/Processor"}, "$.ResourceUri"),
    ({}, "$.ResourcePath"),
]


@pytest.mark.parametrize(("request_document", "place"), MODIFY_CASES)
def test_invalid_modify_requests_are_refused(
    client: WireClient, system: int, request_document: dict[str, Any], place: str
) -> None:
    answer = client.call("HcsModifyComputeSystem", request_document, handle=system)
    assert (answer.hresult, answer.places) == (INVALID_JSON, [place])


@pytest.mark.parametrize(
    ("call", "document"),
    [
        ("HcsGetComputeSystemProperties", {"PropertyTypes": ["Everything"]}),
        ("HcsGetComputeSystemProperties", {"propertytypes": []}),
        ("HcsGetComputeSystemProperties", "{"),
        ("HcsStartComputeSystem", {"Fast": True}),
        ("HcsTerminateComputeSystem", {"Really": True}),
    ],
)
def test_invalid_queries_and_options_are_refused(client: WireClient, system: int, call: str, document: Any) -> None:
    assert client.call(call, document, handle=system).hresult == INVALID_JSON


@pytest.mark.parametrize(
    ("call", "document", "place"),
    [
        ("HcsSignalProcess", {"Signal": "SIGTERM"}, "$.Signal"),
        ("HcsSignalProcess", {}, "$.Signal"),
        ("HcsModifyProcess", {"Operation": "Dance"}, "$.Operation"),
        ("HcsModifyProcess", {"Operation": "ConsoleSize"}, "$.ConsoleSize"),
        ("HcsModifyProcess", {"Operation": "CloseHandle", "CloseHandle": {"Handle": "stdin"}}, "$.CloseHandle.Handle"),
    ],
)
def test_invalid_process_requests_are_refused(
    client: WireClient, system: int, call: str, document: Any, place: str
) -> None:
    process = client.ok("HcsCreateProcess", documents.sleeper(), handle=system).handle
    answer = client.call(call, document, handle=process)
    assert (answer.hresult, answer.places) == (INVALID_JSON, [place])
    client.ok("HcsTerminateProcess", None, handle=process)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"PropertyType": "Weather", "Settings": {}}, "$.PropertyType"),
        (
            {"PropertyType": "CpuGroup", "Settings": {"Operation": "AddInstance", "OperationDetails": {}}},
            "$.Settings.Operation",
        ),
        (
            {
                "PropertyType": "CpuGroup",
                "Settings": {"Operation": "CreateGroup", "OperationDetails": {"GroupId": "1"}},
            },
            "$.Settings.OperationDetails.GroupId",
        ),
    ],
)
def test_invalid_service_requests_are_refused(client: WireClient, document: Any, place: str) -> None:
    answer = client.call("HcsModifyServiceSettings", document)
    assert (answer.hresult, answer.places) == (INVALID_JSON, [place])


def test_older_builds_refuse_newer_members(start_emulator: Callable[..., Emulator]) -> None:
    emulator = start_emulator("--build", "17763")
    newer = [
        change(documents.container(), "SchemaVersion.Minor", 2),
        change(documents.container(), "Container.AssignedDevices", [{"Type": "ClassGuid", "InterfaceClassGuid": GUID}]),
        change(documents.virtual_machine(), "VirtualMachine.ComputeTopology.Processor.CpuGroup", {"Id": GUID}),
    ]
    with WireClient(emulator.directory) as client:
        for document in newer:
            assert client.call("HcsCreateComputeSystem", "new", document).hresult == INVALID_JSON
        older = change(documents.container(), "Container.AssignedDevices", [{"InterfaceClassGuid": GUID}])
        handle = client.ok("HcsCreateComputeSystem", "old", older).handle
        processor = {"ResourcePath": "Container/Processor", "RequestType": "Update", "Settings": {"Maximum": 5000}}
        assert client.call("HcsModifyComputeSystem", processor, handle=handle).hresult == INVALID_JSON
        assert client.call("HcsWaitForComputeSystemExit", handle=handle, number=0).hresult == 0x8007007F
        client.ok("HcsSetComputeSystemCallback", handle=handle)
        client.ok("HcsTerminateComputeSystem", None, handle=handle)
        assert client.wait_event(handle, 1) == {"Status": 0}
        basic = client.ok("HcsGetServiceProperties", {"PropertyTypes": ["Basic"]}).document
        assert basic == {"Properties": [{"SupportedSchemaVersions": [{"Major": 2, "Minor": 1}]}]}
