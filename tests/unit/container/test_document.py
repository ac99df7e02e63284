"""HCS documents of containers from specs: limits, registry, mounts, root file systems, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.api.types import Mount
from shim.container import credentials, document, layers, mounts, registry_changes, resources
from shim.container.layers import MountedRoot, Root, SnapshotMounts, WindowsLayers
from shim.oci.annotations import container as names
from shim.oci.errors import FAILED_PRECONDITION, NO_KIND, InvalidSpec
from shim.oci.spec import Spec

VOLUME = "\\\\?\\Volume{511ba2b1-35b0-5abc-bd70-cf2e7710b402}\\"
LAYERS = [
    ("8601a015-af4c-5f63-bdf9-a5b7fb7dd3f0", "C:\\layers\\2"),
    ("86019afc-ac4c-5f63-9ac9-fdc117cac11b", "C:\\layers\\1"),
]
TIMEOUT = {
    "Key": {"Hive": "System", "Name": "ControlSet001\\Control"},
    "Name": "WaitToKillServiceTimeout",
    "Type": "String",
    "StringValue": "2147483647",
}


def windows_layer(*options: str, source: str = "/s") -> Mount:
    return Mount(type="windows-layer", source=source, options=list(options))


def no_warning(sentence: str) -> None:
    raise AssertionError(f"nothing should be warned of here: {sentence}")


def built(values: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    spec = Spec({"windows": {}, **values})
    draft = document.draft("c1", spec, mounts.from_spec(spec), 8, no_warning)
    return document.complete(draft, Root(VOLUME, LAYERS), namespace, **more)


def golden(**container: Any) -> dict[str, Any]:
    """The document of a minimal spec, with these members added."""
    storage = {
        "Layers": [{"Id": LAYERS[0][0], "Path": LAYERS[0][1]}, {"Id": LAYERS[1][0], "Path": LAYERS[1][1]}],
        "Path": VOLUME,
    }
    return {
        "Owner": "containerd-shim-runhcs-v1.exe",
        "SchemaVersion": {"Major": 2, "Minor": 1},
        "Container": {
            "Storage": storage | container.pop("storage", {}),
            "Processor": {},
            "RegistryChanges": {"AddValues": [TIMEOUT]},
            **container,
        },
        "ShouldTerminateOnLastHandleClosed": True,
    }


class TestGoldenDocuments:
    def test_minimal_spec(self) -> None:
        assert built({"windows": {"layerFolders": None, "ignoreFlushesDuringBoot": True}}) == golden()

    def test_members_are_in_schema_order(self) -> None:
        values = {"hostname": "h", "windows": {"network": {}, "resources": {"memory": {"limit": 1 << 30}}}}
        whole = built(values, "n", credential_guard={"Cookie": "c"})
        assert list(whole) == ["Owner", "SchemaVersion", "Container", "ShouldTerminateOnLastHandleClosed"]
        assert list(whole["Container"]["Storage"]) == ["Layers", "Path"]
        assert list(whole["Container"]) == [
            "GuestOs", "Storage", "Memory", "Processor", "Networking", "ContainerCredentialGuard", "RegistryChanges",
        ]  # fmt: skip

    def test_hostname(self) -> None:
        assert built({"hostname": "myhost"}) == golden(GuestOs={"HostName": "myhost"})

    def test_processor_count_and_memory(self) -> None:
        limits = {"resources": {"cpu": {"count": 1}, "memory": {"limit": 536870912}}}
        assert built({"windows": limits}) == golden(Memory={"SizeInMB": 512}, Processor={"Count": 1})

    def test_processor_maximum_and_memory_below_one_mib(self) -> None:
        limits = {"resources": {"cpu": {"maximum": 5000}, "memory": {"limit": 1000000}}}
        assert built({"windows": limits}) == golden(Processor={"Maximum": 5000})

    def test_storage_limits(self) -> None:
        limits = {"resources": {"storage": {"iops": 600, "bps": 20971520}}}
        quality = {"QoS": {"IopsMaximum": 600, "BandwidthMaximum": 20971520}}
        assert built({"windows": limits}) == golden(storage=quality)

    def test_network_section(self) -> None:
        names = ["a.example", "b.example"]
        network = {"networkNamespace": "n", "allowUnqualifiedDNSQuery": True, "DNSSearchList": names}
        networking = {"AllowUnqualifiedDnsQuery": True, "DnsSearchList": ",".join(names), "Namespace": "n"}
        assert built({"windows": {"network": network}}, "n") == golden(Networking=networking)

    def test_shared_network(self) -> None:
        network = {"networkNamespace": "n", "networkSharedContainerName": "other"}
        networking = {"NetworkSharedContainerName": "other", "Namespace": "n"}
        assert built({"windows": {"network": network}}, "n") == golden(Networking=networking)

    def test_credential_guard(self) -> None:
        guard = {"Cookie": "c", "RpcEndpoint": "e", "Transport": "LRPC", "CredentialSpec": "{}"}
        assert built({}, credential_guard=guard) == golden(ContainerCredentialGuard=guard)

    @pytest.mark.parametrize("given", [{"CmsPlugins": ["ActiveDirectory"]}, '{"CmsPlugins":["ActiveDirectory"]}'])
    def test_credential_spec_as_object_or_text(self, given: object) -> None:
        spec = Spec({"windows": {"credentialSpec": given}})
        assert credentials.from_spec(spec) == '{"CmsPlugins":["ActiveDirectory"]}'

    @pytest.mark.parametrize("given", [["x"], 7, True])
    def test_credential_spec_of_another_type_is_refused(self, given: object) -> None:
        with pytest.raises(InvalidSpec, match=r"windows\.credentialSpec is neither text nor an object"):
            credentials.from_spec(Spec({"windows": {"credentialSpec": given}}))
        assert credentials.from_spec(Spec({"windows": {"credentialSpec": None}})) == ""

    def test_assigned_devices(self) -> None:
        devices = [{"id": "g", "idType": "class"}, {"id": "h", "idType": "vpci-class-guid"}]
        devices.append({"id": "p", "idType": "vpci-location-path"})
        assigned = [{"InterfaceClassGuid": "g"}, {"InterfaceClassGuid": "h"}]
        assert built({"windows": {"devices": devices}}) == golden(
            AssignedDevices=[*assigned, {"Type": "DeviceInstance", "LocationPath": "p"}]
        )
        nameless = {"windows": {"devices": [{"id": "", "idType": "class"}]}}
        assert built(nameless) == golden(AssignedDevices=[{}]), "as Microsoft's shim: HCS refuses it"
        with pytest.raises(InvalidSpec, match="specified device g has unsupported type gpu"):
            built({"windows": {"devices": [{"id": "g", "idType": "gpu"}]}})

    def test_mapped_directories_and_pipes(self, tmp_path: Path) -> None:
        (tmp_path / "dir").mkdir()
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to("file")
        given = [
            {"destination": "C:\\data", "type": "", "source": str(tmp_path / "dir"), "options": ["RO"]},
            {"destination": "D:", "source": str(tmp_path / "dir"), "options": ["rw", "bind"]},
            {"destination": "C:\\file.txt", "source": str(tmp_path / "link")},
            {"destination": "\\\\.\\pipe\\inside", "source": "\\\\.\\pipe\\docker_engine"},
        ]
        directories = [
            {"HostPath": str(tmp_path / "dir"), "ContainerPath": "C:\\data", "ReadOnly": True},
            {"HostPath": str(tmp_path / "dir"), "ContainerPath": "D:"},
            {"HostPath": str(tmp_path / "file"), "ContainerPath": "C:\\file.txt"},
        ]
        pipes = [{"ContainerPipeName": "inside", "HostPath": "\\\\.\\pipe\\docker_engine"}]
        assert built({"mounts": given}) == golden(MappedDirectories=directories, MappedPipes=pipes)


class TestLimits:
    @staticmethod
    def spec(annotations: dict[str, str] | None = None, **cpu: int) -> Spec:
        return Spec({"windows": {"resources": {"cpu": cpu}}, "annotations": annotations or {}})

    @pytest.mark.parametrize(
        ("annotations", "cpu", "expected"),
        [
            ({}, {}, {}),
            ({}, {"count": 0, "shares": 2}, {"Weight": 2}),
            ({names.PROCESSOR_COUNT: "3"}, {"count": 2}, {"Count": 3}),
            ({names.PROCESSOR_COUNT: "0"}, {"count": 2}, {"Count": 2}),
            ({names.PROCESSOR_LIMIT: "much"}, {"maximum": 2}, {"Maximum": 2}),
            ({names.PROCESSOR_WEIGHT: "500"}, {}, {"Weight": 500}),
        ],
    )
    def test_annotation_precedes_spec(self, annotations: dict[str, str], cpu: dict[str, int], expected: Any) -> None:
        assert resources.processor(self.spec(annotations, **cpu), 8, no_warning) == expected

    @pytest.mark.parametrize(
        ("annotations", "cpu"),
        [
            ({}, {"count": 1, "maximum": 5000}),
            ({}, {"shares": 1, "maximum": 5000}),
            ({names.PROCESSOR_COUNT: "1"}, {"shares": 2}),
        ],
    )
    def test_exclusive_processor_limits_are_refused(self, annotations: dict[str, str], cpu: Any) -> None:
        with pytest.raises(InvalidSpec, match="are mutually exclusive"):
            resources.processor(self.spec(annotations, **cpu), 8, no_warning)

    def test_processor_count_is_capped_with_warning(self) -> None:
        warnings: list[str] = []
        assert resources.processor(self.spec(count=64), 8, warnings.append) == {"Count": 8}
        assert warnings == ["64 processors are asked for and the machine has 8: the container gets those"]

    def test_memory_limit_units(self) -> None:
        def memory(limit: int, annotation: str | None = None) -> dict[str, int]:
            annotations = {} if annotation is None else {names.MEMORY_SIZE_IN_MB: annotation}
            values = {"windows": {"resources": {"memory": {"limit": limit}}}, "annotations": annotations}
            return resources.memory(Spec(values))

        assert memory((513 << 20) + 1) == {"SizeInMB": 513}
        assert memory(0) == {}
        assert memory(1 << 30, "100") == {"SizeInMB": 100}
        assert memory(1 << 30, "0") == {"SizeInMB": 1024}

    def test_storage_limits_out_of_range_are_refused(self) -> None:
        spec = Spec({"windows": {"resources": {"storage": {"bps": 1 << 31}}}})
        with pytest.raises(InvalidSpec, match=r"windows.resources.storage.bps is 2147483648"):
            resources.storage(spec)


class TestRegistry:
    def test_dump_registry_values(self) -> None:
        annotations = {names.DUMP_LOCATION: "C:\\dumps\\{container_id}", names.DUMP_TYPE: "mini", names.DUMP_COUNT: "3"}
        spec = Spec({"windows": {}, "annotations": annotations})
        values = registry_changes.changes(spec, "c1", no_warning)["AddValues"]
        assert [(value["Name"], value.get("StringValue", value.get("DWordValue"))) for value in values[1:]] == [
            ("DumpFolder", "C:\\dumps\\c1"),
            ("DumpType", 1),
            ("DumpCount", 3),
        ]
        assert {value["Key"]["Hive"] for value in values[1:]} == {"Software"}

    @pytest.mark.parametrize(
        ("key", "value"), [(names.DUMP_TYPE, "huge"), (names.DUMP_COUNT, "0"), (names.DUMP_COUNT, "x")]
    )
    def test_invalid_dump_settings_are_refused(self, key: str, value: str) -> None:
        spec = Spec({"windows": {}, "annotations": {names.DUMP_LOCATION: "C:\\d", key: value}})
        with pytest.raises(InvalidSpec, match=key):
            registry_changes.changes(spec, "c1", no_warning)

    def test_registry_values_of_other_keys_are_dropped(self) -> None:
        def value(hive: str, key: str, **more: Any) -> dict[str, Any]:
            return {"Key": {"Hive": hive, "Name": key}, "Name": "n", "Type": "String", "StringValue": "v", **more}

        for right in (value("Software", "Anything"), value("System", "CurrentControlSet\\SERVICES\\x")):
            assert registry_changes.allowed(right) == right
        for wrong in (
            value("System", "ControlSet001\\Control"),
            value("Sam", "x"),
            value("Software", "x", DWordValue=1),
            value("Software", "x", Type="Text"),
            value("Software", ""),
            value("Software", "x", StringValue=3),
            {"Key": "x"},
            "x",
        ):
            assert registry_changes.allowed(wrong) is None

    def test_registry_value_drops_empty_and_unknown_members(self) -> None:
        key = {"Hive": "Software", "Name": "x", "Volatile": False}
        value = {"Key": key, "Name": "n", "Type": "DWord", "DWordValue": 0, "Comment": "c"}
        plain = {"Key": {"Hive": "Software", "Name": "x"}, "Name": "n", "Type": "DWord"}
        assert registry_changes.allowed(value) == plain

    def test_registry_value_of_custom_type(self) -> None:
        key = {"Hive": "Software", "Name": "x"}
        value = {"Key": key, "Name": "n", "Type": "CustomType", "CustomType": 5, "BinaryValue": "AQ=="}
        assert registry_changes.allowed(value) == value


class TestMountRefusals:
    @pytest.mark.parametrize(
        ("mount", "message"),
        [
            ({"destination": "C:\\a"}, "mounts[0] has no source"),
            ({"source": "/tmp"}, "mounts[0] has no destination"),
            (
                {"source": "/does/not/exist", "destination": "C:\\a"},
                'failed to resolve path for mount source "/does/not/exist"',
            ),
            ({"source": "dir", "destination": "C:\\a"}, "mounts[0].source is 'dir': give an absolute path"),
            ({"source": "/tmp", "destination": "a"}, "mounts[0].destination is 'a'"),
            ({"source": "/tmp", "destination": "C:"}, "mounts[0].destination is 'C:'"),
            ({"source": "\\\\.\\pipe\\a", "destination": "C:\\a"}, "name a pipe there too"),
            ({"source": "sandbox://a", "destination": "C:\\a"}, "only a container in a utility VM"),
        ],
    )
    def test_invalid_windows_mounts_are_refused(self, mount: dict[str, str], message: str) -> None:
        with pytest.raises(InvalidSpec) as caught:
            mounts.from_spec(Spec({"windows": {}, "mounts": [mount]}))
        assert message in str(caught.value)


class TestRootFileSystems:
    def plan(self, values: dict[str, Any] | None = None, rootfs: list[Mount] | None = None, bundle: str = "/b") -> Any:
        return layers.plan(Spec({"windows": {}, **(values or {})}), rootfs or [], bundle)

    def test_windows_layer_mount(self) -> None:
        options = ["rw", 'parentLayerPaths=["/l/2","/l/1"]']
        plan = self.plan(rootfs=[Mount(type="windows-layer", source="/s/7", options=options)])
        assert isinstance(plan, WindowsLayers) and (plan.scratch, plan.parents) == ("/s/7", ["/l/2", "/l/1"])

    def test_layer_folders(self) -> None:
        plan = self.plan({"windows": {"layerFolders": ["/l/2", "/l/1", "/s/7"]}})
        assert isinstance(plan, WindowsLayers) and (plan.scratch, plan.parents) == ("/s/7", ["/l/2", "/l/1"])

    def test_linux_snapshotter_mounts(self) -> None:
        overlay = Mount(type="overlay", source="overlay", options=["lowerdir=/a", "upperdir=/b", "workdir=/c"])
        plan = self.plan({"root": {"path": "rootfs"}}, [overlay])
        assert isinstance(plan, SnapshotMounts) and plan.target == "/b/rootfs" and plan.mounts == [overlay]

    def test_mounted_root_path(self, tmp_path: Path) -> None:
        (tmp_path / "rootfs").mkdir()
        relative = self.plan({"root": {"path": "rootfs"}}, bundle=str(tmp_path))
        assert isinstance(relative, MountedRoot) and relative.path == str(tmp_path / "rootfs")
        volume = self.plan({"root": {"path": VOLUME[:-1]}})
        assert isinstance(volume, MountedRoot) and volume.path == VOLUME

    @pytest.mark.parametrize(
        ("values", "rootfs", "kind", "message"),
        [
            ({"root": {"path": ""}}, [], FAILED_PRECONDITION, "no root file system"),
            ({"root": {"path": "nowhere"}}, [], FAILED_PRECONDITION, "is no directory"),
            (
                {"windows": {"layerFolders": ["/l/1", "/s"]}},
                [windows_layer('parentLayerPaths=["/l"]')],
                FAILED_PRECONDITION,
                "cannot pass both a rootfs mount and Windows.LayerFolders",
            ),
            ({"windows": {"layerFolders": ["/s"]}}, [], FAILED_PRECONDITION, "at least two"),
            ({"windows": {"layerFolders": ["l", "/s"]}}, [], None, "windows.layerFolders names 'l'"),
            ({}, [windows_layer()], None, "no option parentLayerPaths"),
            ({}, [windows_layer("parentLayerPaths=/l")], None, "give a JSON list of paths"),
            ({}, [windows_layer("parentLayerPaths=[]")], None, "needs at least one read-only layer"),
            ({}, [windows_layer('parentLayerPaths=["/l"]', source="s")], None, "absolute"),
            ({}, [windows_layer()] * 2, FAILED_PRECONDITION, "expected a single rootfs mount"),
            ({}, [Mount(type="lcow-layer", source="/s")], None, "invalid windows mount type: 'lcow-layer'"),
            ({}, [Mount(type="bind", source="/s", target="x")], FAILED_PRECONDITION, "it must have none"),
            (
                {"root": {"readonly": True}},
                [Mount(type="bind", source="/s")],
                None,
                "readonly is not supported",
            ),
        ],
    )
    def test_invalid_rootfs_is_refused(self, values: Any, rootfs: list[Mount], kind: str | None, message: str) -> None:
        with pytest.raises(InvalidSpec) as caught:
            self.plan(values, rootfs)
        assert message in str(caught.value)
        assert caught.value.kind == (kind or NO_KIND)

    @pytest.mark.parametrize(("path", "name"), [("C:\\l\\2", "2"), ("/l/2/", "2"), ("C:\\l\\2\\", "2"), ("x", "x")])
    def test_base_name_of_host_paths(self, path: str, name: str) -> None:
        assert layers.base_name(path) == name
