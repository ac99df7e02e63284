"""The native library: the request and the response of every export."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from cffi import FFI

from hcs_emulator.service.transport.server import Reply, Request
from hcs_emulator.service.transport.wire import CALLS_BY_NAME
from tests.support.scripted_service import E_INVALID_HANDLE, E_INVALIDARG, OPERATION, ROOT, Library, Scripted, ffi

HOME = ffi.new("char16_t[]", "")
GUID = uuid.UUID("5c8ae2a0-65fd-4c9b-9b0b-2f0a6c6f1a01")


def guid() -> Any:
    memory = ffi.new("GUID *")
    ffi.buffer(memory)[:] = GUID.bytes_le
    return memory


def driver() -> Any:
    return ffi.new("DriverInfo *", {"Flavour": 1, "HomeDir": HOME})


def test_every_function_that_the_shim_declares_is_exported(lib: Library) -> None:
    declared = re.findall(r"WINAPI (\w+)\(", (ROOT / "shim" / "hcs_bindings" / "hcs.h").read_text())
    assert len(declared) > 80
    assert [name for name in declared if not hasattr(lib.raw, name)] == []


def test_every_call_of_calls_def_is_exported(lib: Library) -> None:
    probe = FFI()
    probe.cdef("".join(f"void {name}(void);" for name in CALLS_BY_NAME))
    exports = probe.dlopen(str(lib.path))
    assert [name for name in CALLS_BY_NAME if not hasattr(exports, name)] == []


SIMPLE = [
    ("HcsSubmitWerReport", ["{}"]),
    ("HcsGrantVmAccess", ["vm", "C:\\a.vhdx"]),
    ("HcsRevokeVmAccess", ["vm", "C:\\a.vhdx"]),
    ("HcsGrantVmGroupAccess", ["C:\\a"]),
    ("HcsRevokeVmGroupAccess", ["C:\\a"]),
    ("HcsImportLayer", ["a", "b", "{}"]),
    ("HcsExportLayer", ["a", "b", "{}", "{}"]),
    ("HcsDestroyLayer", ["a"]),
    ("HcsSetupBaseOSVolume", ["a", "b", "{}"]),
    ("HcsInitializeWritableLayer", ["a", "{}", None]),
    ("HcsAttachLayerStorageFilter", ["a", "{}"]),
    ("HcsDetachLayerStorageFilter", ["a"]),
    ("HcsAttachOverlayFilter", ["a", "{}"]),
    ("HcsDetachOverlayFilter", ["a", "{}"]),
    ("GrantVmAccess", ["vm", "C:\\a.vhdx"]),
]


@pytest.mark.parametrize(("name", "strings"), SIMPLE)
def test_string_arguments_are_sent(service: Scripted, lib: Library, name: str, strings: list[str | None]) -> None:
    assert getattr(lib, name)(*strings) == 0
    assert service.requests == [Request(name, strings=strings)]
    service.handlers[name] = lambda *_: Reply(0x80070005)
    assert getattr(lib, name)(*strings) == 0x80070005


@pytest.mark.parametrize("name", ["HcsGetServiceProperties", "HcsModifyServiceSettings"])
def test_service_calls_return_documents(service: Scripted, lib: Library, name: str) -> None:
    document = ffi.new("PWSTR *")
    service.handlers[name] = lambda client, request: Reply(document=f"[{request.strings[0]}]")
    assert getattr(lib, name)("{}", document) == 0
    assert lib.take(document) == "[{}]"
    service.handlers[name] = lambda client, request: Reply(0x8037010D, document="why")
    assert getattr(lib, name)("{}", document) == 0x8037010D
    assert lib.take(document) == "why"


@pytest.mark.parametrize("name", ["ActivateLayer", "DeactivateLayer", "UnprepareLayer", "DestroyLayer"])
def test_layer_calls_send_the_layer_id(service: Scripted, lib: Library, name: str) -> None:
    assert getattr(lib, name)(driver(), "C:\\layers\\1") == 0
    assert service.requests == [Request(name, strings=["C:\\layers\\1"])]


def test_parent_layers_are_sent_as_pairs(service: Scripted, lib: Library) -> None:
    paths = [ffi.new("char16_t[]", text) for text in ("C:\\layers\\2", "C:\\layers\\1")]
    parents = ffi.new("WC_LAYER_DESCRIPTOR[2]")
    for parent, path in zip(parents, paths, strict=True):
        parent.LayerId, parent.Path = guid()[0], path
    pairs = [str(GUID), "C:\\layers\\2", str(GUID), "C:\\layers\\1"]
    assert lib.PrepareLayer(driver(), "scratch", parents, 2) == 0
    assert lib.CreateSandboxLayer(driver(), "scratch", None, parents, 2) == 0
    assert lib.PrepareLayer(driver(), "scratch", None, 0) == 0
    assert lib.PrepareLayer(driver(), "scratch", None, 2) == E_INVALIDARG
    assert lib.CreateLayer(driver(), "layer", "parent") == 0
    assert lib.ExpandSandboxSize(driver(), "scratch", 20 << 30) == 0
    assert service.requests == [
        Request("PrepareLayer", strings=["scratch", *pairs]),
        Request("CreateSandboxLayer", strings=["scratch", None, *pairs]),
        Request("PrepareLayer", strings=["scratch"]),
        Request("CreateLayer", strings=["layer", "parent"]),
        Request("ExpandSandboxSize", number=20 << 30, strings=["scratch"]),
    ]


def test_layer_queries_return_values(service: Scripted, lib: Library) -> None:
    length, exists, identity = ffi.new("size_t *"), ffi.new("ULONG *"), ffi.new("GUID *")
    path = "\\\\?\\Volume{5c8ae2a0}"
    service.handlers["GetLayerMountPath"] = lambda *_: Reply(document=path)
    assert lib.GetLayerMountPath(driver(), "scratch", length, None) == 0
    assert length[0] == len(path) + 1
    buffer = ffi.new("char16_t[]", length[0])
    assert lib.GetLayerMountPath(driver(), "scratch", length, buffer) == 0
    assert ffi.string(buffer) == path
    length[0] = 3
    assert lib.GetLayerMountPath(driver(), "scratch", length, buffer) == 0x8007007A
    service.handlers["GetLayerMountPath"] = lambda *_: Reply()
    assert lib.GetLayerMountPath(driver(), "scratch", length, None) == 0
    assert length[0] == 0
    service.handlers["LayerExists"] = lambda client, request: Reply(pid=int(request.strings[0] == "yes"))
    assert (lib.LayerExists(driver(), "yes", exists), exists[0]) == (0, 1)
    assert (lib.LayerExists(driver(), "no", exists), exists[0]) == (0, 0)
    service.handlers["NameToGuid"] = lambda *_: Reply(document=str(GUID).upper())
    assert lib.NameToGuid("layer", identity) == 0
    assert bytes(ffi.buffer(identity)) == GUID.bytes_le
    service.handlers["NameToGuid"] = lambda *_: Reply(document="5c8ae2a0-65fd")
    assert lib.NameToGuid("layer", identity) == 0x8000FFFF


def test_virtual_disk_handles(service: Scripted, lib: Library) -> None:
    disk, path, size = ffi.new("HANDLE *"), ffi.new("PWSTR *"), ffi.new("ULONG *")
    service.handlers["HcsGetLayerVhdMountPath"] = lambda *_: Reply(document="volume")
    service.handlers["GetVirtualDiskPhysicalPath"] = lambda *_: Reply(document="\\\\.\\PhysicalDrive3")
    assert lib.OpenVirtualDisk(None, "C:\\a.vhdx", 0, 8, None, disk) == 0
    assert lib.AttachVirtualDisk(disk[0], None, 4, 0, None, None) == 0
    assert lib.HcsFormatWritableLayerVhd(disk[0]) == 0
    assert lib.HcsGetLayerVhdMountPath(disk[0], path) == 0
    assert lib.take(path) == "volume"
    assert lib.HcsSetupBaseOSLayer("layer", disk[0], "{}") == 0
    assert lib.HcsSetupBaseOSLayer("layer", None, "{}") == 0
    assert lib.GetVirtualDiskPhysicalPath(disk[0], size, None) == 122
    buffer = ffi.new("char16_t[]", size[0] // 2)
    assert lib.GetVirtualDiskPhysicalPath(disk[0], size, buffer) == 0
    assert ffi.string(buffer) == "\\\\.\\PhysicalDrive3"
    assert lib.CloseHandle(disk[0]) == 1
    assert lib.CloseHandle(disk[0]) == 0
    assert lib.HcsFormatWritableLayerVhd(disk[0]) == E_INVALID_HANDLE
    service.handlers["OpenVirtualDisk"] = lambda *_: Reply(0x80070002)
    assert lib.OpenVirtualDisk(None, "C:\\b.vhdx", 0, 8, None, disk) == 2
    calls = [(request.call, request.handle, request.number) for request in service.requests]
    assert calls[:5] == [
        ("OpenVirtualDisk", 0, 8),
        ("AttachVirtualDisk", 101, 4),
        ("HcsFormatWritableLayerVhd", 101, 0),
        ("HcsGetLayerVhdMountPath", 101, 0),
        ("HcsSetupBaseOSLayer", 101, 0),
    ]
    assert calls[5] == ("HcsSetupBaseOSLayer", 0, 0)
    assert calls[-2] == ("CloseHandle", 101, 0)


@pytest.mark.parametrize("one", ["Namespace", "Endpoint", "Network"])
def test_network_calls_and_handles(service: Scripted, lib: Library, one: str) -> None:
    handle, answer, error = ffi.new("HANDLE *"), ffi.new("PWSTR *"), ffi.new("PWSTR *")
    service.handlers[f"HcnEnumerate{one}s"] = lambda *_: Reply(document="[]")
    service.handlers[f"HcnOpen{one}"] = lambda *_: Reply(handle=5)
    service.handlers[f"HcnQuery{one}Properties"] = lambda *_: Reply(document='{"ID": 1}')
    service.handlers[f"HcnDelete{one}"] = lambda *_: Reply(0x803B0001, document='{"Error": 1}')
    assert getattr(lib, f"HcnEnumerate{one}s")("{}", answer, error) == 0
    assert (lib.take(answer), lib.take(error)) == ("[]", None)
    assert getattr(lib, f"HcnOpen{one}")(guid(), handle, error) == 0
    assert getattr(lib, f"HcnQuery{one}Properties")(handle[0], "{}", answer, error) == 0
    assert (lib.take(answer), lib.take(error)) == ('{"ID": 1}', None)
    if one != "Network":
        assert getattr(lib, f"HcnModify{one}")(handle[0], "{}", error) == 0
    assert getattr(lib, f"HcnDelete{one}")(guid(), error) == 0x803B0001
    assert lib.take(error) == '{"Error": 1}'
    assert getattr(lib, f"HcnClose{one}")(handle[0]) == 0
    assert getattr(lib, f"HcnClose{one}")(handle[0]) == E_INVALID_HANDLE
    assert service.requests[1] == Request(f"HcnOpen{one}", strings=[str(GUID)])
    assert service.requests[-1] == Request(f"HcnClose{one}", handle=5)


def test_network_objects_are_created_with_id_and_settings(service: Scripted, lib: Library) -> None:
    network, other, error = ffi.new("HANDLE *"), ffi.new("HANDLE *"), ffi.new("PWSTR *")
    for name in ("HcnCreateNetwork", "HcnCreateNamespace", "HcnCreateEndpoint"):
        service.handlers[name] = lambda *_: Reply(handle=service.new_handle())
    assert lib.HcnCreateNetwork(guid(), "{}", network, error) == 0
    assert lib.HcnCreateNamespace(guid(), "{}", other, error) == 0
    lib.HcnCloseNamespace(other[0])
    assert lib.HcnCreateEndpoint(network[0], guid(), "{}", other, error) == 0
    assert service.requests[-1] == Request("HcnCreateEndpoint", handle=101, strings=[str(GUID), "{}"])
    assert lib.HcnCreateEndpoint(None, guid(), "{}", other, error) == E_INVALIDARG
    lib.HcnCloseEndpoint(other[0])
    lib.HcnCloseNetwork(network[0])


def test_hns_call_returns_the_response(service: Scripted, lib: Library) -> None:
    response = ffi.new("PWSTR *")
    service.handlers["HNSCall"] = lambda *_: Reply(document='{"Success": true}')
    assert lib.HNSCall("GET", "/globals/version", "", response) == 0
    assert lib.take(response) == '{"Success": true}'
    assert service.requests == [Request("HNSCall", strings=["GET", "/globals/version", ""])]


TRACKED = [
    ("HcsStartComputeSystem", 2),
    ("HcsShutDownComputeSystem", 3),
    ("HcsPauseComputeSystem", 4),
    ("HcsResumeComputeSystem", 5),
    ("HcsSaveComputeSystem", 6),
    ("HcsTerminateComputeSystem", 7),
    ("HcsGetComputeSystemProperties", 9),
    ("HcsCrashComputeSystem", 15),
    ("HcsTerminateProcess", 11),
    ("HcsSignalProcess", 11),
    ("HcsGetProcessProperties", 13),
    ("HcsModifyProcess", 14),
]


@pytest.mark.parametrize(("name", "number"), TRACKED)
def test_operation_types_of_tracked_calls(service: Scripted, lib: Library, name: str, number: int) -> None:
    system, process = lib.open(), ffi.new("HCS_PROCESS *")
    assert lib.HcsOpenProcess(system, 4, 0x10000000, process) == 0
    subject, handle = (process[0], 102) if "Process" in name else (system, 101)
    with lib.operation() as operation:
        assert getattr(lib, name)(subject, operation, "{}") == 0
        assert lib.HcsGetOperationType(operation) == number
        assert lib.result(operation) == (0, None)
    assert service.requests[-1] == Request(name, handle=handle, strings=["{}"])
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)
    assert lib.run("HcsEnumerateComputeSystems", "{}", OPERATION) == (0, None)
