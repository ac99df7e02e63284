"""The service, layers and networks through the bindings, on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shim.hcs_bindings import errors, network, service, storage, virtual_disk
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build
from tests.support.bindings import reset_libraries, use
from tests.support.emulator import Emulator


def test_service_properties_and_settings(hcs: Emulator) -> None:
    basic, topology = service.properties("Basic", "ProcessorTopology")
    assert basic["SupportedSchemaVersions"]
    assert topology["LogicalProcessorCount"] >= 1
    with pytest.raises(HcsError):
        service.properties("Nonsense")
    details = {"Id": "c1", "CredentialSpec": "{}", "Transport": "LRPC"}
    guard = {"PropertyType": "ContainerCredentialGuard", "Settings": {"Operation": "AddInstance"}}
    guard["Settings"]["OperationDetails"] = details  # type: ignore[index]
    service.modify(guard)
    (found,) = service.properties("ContainerCredentialGuard")
    assert [one["Id"] for one in found["Instances"]] == ["c1"]
    removal = {"Operation": "RemoveInstance", "OperationDetails": {"Id": "c1"}}
    service.modify({"PropertyType": "ContainerCredentialGuard", "Settings": removal})


@pytest.mark.parametrize("build", [17763, 26100])
def test_windows_build_is_the_emulators(
    start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: int
) -> None:
    emulator = start_emulator("--build", str(build))
    use(emulator, monkeypatch, tmp_path)
    assert (windows_build(), windows_build()) == (build, build)
    assert len(emulator.journal("RtlGetVersion")) == 1, "asked once per process"
    reset_libraries()


def test_layer_lifecycle(hcs: Emulator, tmp_path: Path) -> None:
    base, scratch = tmp_path / "base", tmp_path / "scratch"
    (base / "Files").mkdir(parents=True)
    (base / "Files" / "hello.txt").write_text("from the base")
    identity = storage.name_to_guid("base")
    assert identity == storage.name_to_guid("base") != storage.name_to_guid("other")
    parents = [(identity, str(base))]
    storage.create_sandbox_layer(str(scratch), parents)
    assert storage.layer_exists(str(scratch))
    storage.activate_layer(str(scratch))
    storage.prepare_layer(str(scratch), parents)
    volume = storage.layer_mount_path(str(scratch))
    assert volume.startswith("\\\\?\\Volume{")
    storage.expand_sandbox_size(str(scratch), 30 << 30)
    storage.unprepare_layer(str(scratch))
    storage.deactivate_layer(str(scratch))
    storage.grant_vm_access("pod1@vm", str(scratch / "sandbox.vhdx"))
    storage.destroy_layer(str(scratch))
    assert not storage.layer_exists(str(scratch))
    with pytest.raises(HcsError):
        storage.activate_layer(str(scratch))
    with pytest.raises(HcsError, match="no GUID"):
        storage.prepare_layer(str(scratch), [("x", "y")])


def test_network_lifecycle(hcs: Emulator) -> None:
    made = network.create_network({"Name": "net", "Type": "L2Bridge", "SchemaVersion": network.SCHEMA_VERSION})
    net = network.member(made, "id")
    assert net in network.networks()
    settings = {"Name": "e1", "HostComputeNetwork": net, "SchemaVersion": network.SCHEMA_VERSION}
    endpoint = network.member(network.create_endpoint(net, settings), "Id")
    assert network.endpoints() == [endpoint]
    namespace = network.member(network.create_namespace(), "ID")
    assert network.namespaces({"ID": namespace}) == [namespace]
    network.add_namespace_endpoint(namespace, endpoint)
    assert network.namespace_endpoints(namespace) == [endpoint]
    assert network.member(network.endpoint(endpoint), "hostcomputenamespace").lower() == namespace.lower()
    network.remove_namespace_endpoint(namespace, endpoint)
    assert network.namespace_endpoints(namespace) == []
    network.delete_namespace(namespace)
    with pytest.raises(HcsError) as caught:
        network.namespace(namespace)
    assert errors.is_not_exist(caught.value)
    with pytest.raises(HcsError) as caught:
        network.hns_call("DELETE", f"/namespaces/{namespace}")
    assert errors.is_not_exist(caught.value)
    network.delete_endpoint(endpoint)
    network.delete_network(net)
    assert network.networks() == []
    assert network.hns_call("GET", "/globals/version")["Major"] >= 9


def test_missing_function_of_build_raises(
    start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(start_emulator("--build", "17763"), monkeypatch, tmp_path)
    try:
        with pytest.raises(HcsError) as caught:
            storage.attach_overlay_filter("\\\\?\\Volume{x}", [])
        assert caught.value.code == errors.PROCEDURE_NOT_FOUND
    finally:
        reset_libraries()


def test_every_layer_call_reaches_the_service(hcs: Emulator, tmp_path: Path) -> None:
    """What each call sends; the emulator's result does not matter."""
    identity = storage.name_to_guid("base")
    parents = [(identity, "C:\\base")]
    data = {"SchemaVersion": {"Major": 2, "Minor": 1}, "Layers": [{"Id": identity, "Path": "C:\\base"}]}
    overlay = {"SchemaVersion": {}, "Layers": data["Layers"], "FilterType": "UnionFS"}
    calls: list[tuple[str, Callable[[], object], dict[str, object]]] = [
        ("CreateLayer", lambda: storage.create_layer("C:\\l", "p"), {"id": "C:\\l", "parent": "p"}),
        ("PrepareLayer", lambda: storage.prepare_layer("C:\\l", parents), {"id": "C:\\l"}),
        ("HcsRevokeVmAccess", lambda: storage.revoke_vm_access("vm", "f"), {"vmId": "vm", "filePath": "f"}),
        ("HcsGrantVmGroupAccess", lambda: storage.grant_vm_group_access("f"), {"filePath": "f"}),
        (
            "HcsAttachOverlayFilter",
            lambda: storage.attach_overlay_filter("V", parents),
            {"volumePath": "V", "layerData": overlay},
        ),
        (
            "HcsDetachOverlayFilter",
            lambda: storage.detach_overlay_filter("V"),
            {"volumePath": "V", "layerData": {"SchemaVersion": {}, "FilterType": "UnionFS"}},
        ),
        (
            "HcsAttachLayerStorageFilter",
            lambda: storage.attach_layer_storage_filter("L", parents),
            {"layerPath": "L", "layerData": data},
        ),
        ("HcsDetachLayerStorageFilter", lambda: storage.detach_layer_storage_filter("L"), {"layerPath": "L"}),
        (
            "HcsInitializeWritableLayer",
            lambda: storage.initialize_writable_layer("L", parents),
            {"writableLayerPath": "L", "layerData": data},
        ),
        (
            "HcsImportLayer",
            lambda: storage.import_layer("L", "S", parents),
            {"layerPath": "L", "sourceFolderPath": "S", "layerData": data},
        ),
        (
            "HcsExportLayer",
            lambda: storage.export_layer("L", "E", parents, writable=True),
            {"layerPath": "L", "exportFolderPath": "E", "options": {"IsWritableLayer": True}},
        ),
        ("HcsDestroyLayer", lambda: storage.remove_layer("L"), {"layerPath": "L"}),
        (
            "HcsSetupBaseOSLayer",
            lambda: storage.setup_base_os_layer("L", 0, {"Type": "Container"}),
            {"layerPath": "L", "options": {"Type": "Container"}},
        ),
        ("HcsFormatWritableLayerVhd", lambda: storage.format_writable_layer_vhd(12345), {}),
        ("HcsGetLayerVhdMountPath", lambda: storage.layer_vhd_mount_path(12345), {}),
        ("HcsSubmitWerReport", lambda: service.submit_crash_report("{}"), {}),
    ]
    for name, call, arguments in calls:
        try:
            call()
        except HcsError as error:
            assert error.code not in (errors.PROCEDURE_NOT_FOUND, errors.UNEXPECTED), str(error)
        seen = hcs.journal(name)
        # An invalid handle is rejected by the library.
        assert seen or "Vhd" in name, name
        for key, value in arguments.items():
            assert seen[-1]["arguments"][key] == value, name


def test_non_ascii_names(hcs: Emulator) -> None:
    for name in ("\u00e4\u20ac", "\U0001f600", "a" * 5000):
        storage.name_to_guid(name)
        assert hcs.journal("NameToGuid")[-1]["arguments"]["name"] == name


def test_network_errors_raise(hcs: Emulator) -> None:
    with pytest.raises(HcsError, match="is no GUID"):
        network.endpoint("not-a-guid")
    with pytest.raises(HcsError) as caught:
        network.endpoint("0c9a9e54-11c5-4f69-b0c6-0a4f6c0e9d22")
    assert caught.value.name == "HCN_E_ENDPOINT_NOT_FOUND"
    with pytest.raises(HcsError):
        network.create_namespace({"Nonsense": 1})
    with pytest.raises(HcsError):
        network.hns_call("GET", "/nonsense")


def test_virtual_disk_is_a_sparse_image_of_its_size(hcs: Emulator, tmp_path: Path) -> None:
    disk = tmp_path / "scratch.vhdx"
    virtual_disk.create_vhdx(str(disk), 20 << 30, 1 << 20)
    assert disk.stat().st_size == 20 << 30 and disk.stat().st_blocks * 512 < 1 << 20
    assert [one["call"] for one in hcs.journal()][-2:] == ["CreateVirtualDisk", "CloseHandle"]
    with pytest.raises(HcsError) as found:
        virtual_disk.create_vhdx(str(disk), 1 << 30, 1 << 20)
    assert found.value.code == 0x80070050 and str(disk) in str(found.value)
