"""The root file system of a Linux container: its forms, what is refused, and the requests for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shim.api.types import Mount
from shim.hcs_bindings.errors import HcsError
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.oci.spec import Spec
from shim.uvm.linux import layers
from tests.unit.uvm.linux.fakes import PLAN9, SCSI, VPMEM, FakeContainer, FakeVm

ROOT = "/run/gcs/c/c1"
DEFAULT_MODE = {"io.microsoft.virtualmachine.lcow.vpmem.nomultimapping": "true"}


def spec(**parts: Any) -> Spec:
    return Spec({"linux": {}, **parts})


def parsed(*rootfs: Mount, **parts: Any) -> layers.LinuxLayers:
    found = layers.plan(spec(**parts), rootfs, "/bundle")
    assert isinstance(found, layers.LinuxLayers)
    return found


def lcow_layer(source: str, parents: list[str]) -> Mount:
    return Mount(type="lcow-layer", source=source, options=["rw", f"parentLayerPaths={json.dumps(parents)}"])


def image(directory: Path, *names: str) -> list[str]:
    """Directories with a layer each, and one with a scratch disk."""
    for name in names:
        (directory / name).mkdir()
        (directory / name / "layer.vhd").write_bytes(b"x")
    (directory / "scratch").mkdir()
    (directory / "scratch" / "sandbox.vhdx").write_bytes(b"x")
    return [str(directory / name) for name in (*names, "scratch")]


class TestForms:
    def test_layer_folders_end_with_the_scratch(self) -> None:
        found = parsed(windows={"layerFolders": ["/top", "/base", "/scratch"]})
        assert found.parents == [("/top/layer.vhd", 0), ("/base/layer.vhd", 0)]
        assert found.scratch == "/scratch/sandbox.vhdx"

    def test_lcow_layer_names_parents_in_an_option(self) -> None:
        found = parsed(lcow_layer("/scratch", ["/top", "/base"]))
        assert found.parents == [("/top/layer.vhd", 0), ("/base/layer.vhd", 0)]
        assert found.scratch == "/scratch/sandbox.vhdx"

    def test_windows_paths_keep_their_separator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.platform.host.is_absolute", lambda path: path[1:3] == ":\\")
        found = parsed(lcow_layer("C:\\s\\7", ["C:\\s\\5"]))
        assert (found.parents, found.scratch) == ([("C:\\s\\5\\layer.vhd", 0)], "C:\\s\\7\\sandbox.vhdx")

    def test_partitioned_layers_name_disks_and_partitions(self) -> None:
        parents = 'parent-partitioned-layers=[{"Path":"/a.vhd","Partition":2},{"Path":"/b.vhd"}]'
        found = parsed(Mount(type="lcow-partitioned-layer", options=["scratch=/s.vhdx", parents]))
        assert found.parents == [("/a.vhd", 2), ("/b.vhd", 0)] and found.scratch == "/s.vhdx"

    def test_snapshot_mounts_of_linux_become_a_shared_directory(self) -> None:
        found = layers.plan(spec(), [Mount(type="overlay", source="overlay", options=["lowerdir=/a"])], "/bundle/")
        assert isinstance(found, layers.HostDirectory) and found.path == "/bundle/rootfs"

    def test_root_path_is_relative_to_the_bundle(self, tmp_path: Path) -> None:
        (tmp_path / "rootfs").mkdir()
        found = layers.plan(spec(root={"path": "rootfs"}), [], str(tmp_path))
        assert isinstance(found, layers.HostDirectory) and found.path == f"{tmp_path}/rootfs"


@pytest.mark.parametrize(
    ("rootfs", "parts", "words"),
    [
        ([lcow_layer("/s", ["/a"])], {"windows": {"layerFolders": ["/a", "/s"]}}, "cannot pass both a rootfs mount"),
        ([], {}, "must pass either a rootfs mount or Windows.LayerFolders"),
        ([], {"root": {"path": "/does/not/exist"}}, "must pass either a rootfs mount or Windows.LayerFolders"),
        ([], {"windows": {"layerFolders": ["/s"]}}, "must pass at least two Windows.LayerFolders"),
        ([lcow_layer("/s", ["/a"]), lcow_layer("/t", ["/a"])], {}, "expected a single rootfs mount"),
        ([Mount(type="lcow-layer", source="/s", target="/x")], {}, "rootfs mount is missing Target path"),
    ],
)
def test_rootfs_that_is_ambiguous_is_refused(rootfs: list[Mount], parts: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec, match=words) as refused:
        layers.plan(spec(**parts), rootfs, "/bundle")
    assert refused.value.kind == FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (Mount(type="lcow-layer", source="/s", options=["parentLayerPaths=x"]), "failed to unmarshal option"),
        (Mount(type="lcow-layer", source="/s", options=["parentLayerPaths=[1]"]), "failed to unmarshal option"),
        (Mount(type="lcow-layer", source="s", options=["parentLayerPaths=[]"]), "give an absolute path"),
        (Mount(type="lcow-partitioned-layer", options=["ro"]), "unrecognized lcow-partitioned-layer mount option: ro"),
        (Mount(type="lcow-partitioned-layer", options=["scratch=/s"]), "needs both options"),
        (
            Mount(type="lcow-partitioned-layer", options=["scratch=/s", "parent-partitioned-layers=[{}]"]),
            "failed to unmarshal option",
        ),
    ],
)
def test_mount_that_is_malformed_is_refused(mount: Mount, words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        layers.plan(spec(), [mount], "/bundle")


def test_mount_of_another_type_on_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.platform.host.IS_EMULATED", False)
    with pytest.raises(InvalidSpec, match="unrecognized rootfs mount type: windows-layer"):
        layers.plan(spec(), [Mount(type="windows-layer", source="C:\\s")], "C:\\b")
    with pytest.raises(InvalidSpec, match="must pass either"):
        layers.plan(spec(root={"path": "C:\\root"}), [], "C:\\b")


def test_layers_are_added_top_first_and_released_in_reverse(tmp_path: Path) -> None:
    top, base, scratch = image(tmp_path, "top", "base")
    vm = FakeVm(DEFAULT_MODE)
    container = FakeContainer(vm, "c1", tmp_path)
    plan = parsed(windows={"layerFolders": [top, base, scratch]})
    root = plan.acquire(container, vm.guest, ROOT)  # type: ignore[arg-type]
    assert (root.path, root.scratch) == (f"{ROOT}/rootfs", f"{ROOT}/scratch/c1")
    disk = f"{scratch}/sandbox.vhdx"
    combined = {
        "ContainerID": "c1",
        "ContainerRootPath": f"{ROOT}/rootfs",
        "Layers": [{"Path": "/run/layers/p0"}, {"Path": "/run/layers/p1"}],
        "ScratchPath": f"{ROOT}/scratch/c1",
    }
    assert [request[:2] for request in vm.requests[:4]] == [
        ("Add", f"{VPMEM}0"), ("guest Add", "VPMemDevice"), ("Add", f"{VPMEM}1"), ("guest Add", "VPMemDevice"),
    ]  # fmt: skip
    assert vm.take()[4:] == [
        ("grant", disk, None),
        ("Add", f"{SCSI}0", {"Type": "VirtualDisk", "Path": disk}),
        ("guest Add", "MappedVirtualDisk", {"MountPath": ROOT, "Filesystem": "ext4", "EnsureFilesystem": True}),
        ("guest Add", "CombinedLayers", combined),
    ]
    container.release()
    assert vm.take() == [
        ("guest Remove", "CombinedLayers", {"ContainerRootPath": f"{ROOT}/rootfs"}),
        ("guest Remove", "MappedVirtualDisk", {"MountPath": ROOT}),
        ("guest Remove", "SCSIDevice", {}),
        ("Remove", f"{SCSI}0", None),
        ("guest Remove", "VPMemDevice", {"MountPath": "/run/layers/p0"}),
        ("Remove", f"{VPMEM}0", None),
        ("guest Remove", "VPMemDevice", {"DeviceNumber": 1, "MountPath": "/run/layers/p1"}),
        ("Remove", f"{VPMEM}1", None),
    ]


def test_layers_without_vpmem_and_with_partitions_are_disks(tmp_path: Path) -> None:
    base, scratch = image(tmp_path, "base")
    vm = FakeVm({"io.microsoft.virtualmachine.fullyphysicallybacked": "true"})
    container = FakeContainer(vm, "c1", tmp_path)
    plan = layers.LinuxLayers([(f"{base}/layer.vhd", 0), ("/p.vhd", 3)], f"{scratch}/sandbox.vhdx")
    plan.acquire(container, vm.guest, ROOT)  # type: ignore[arg-type]
    assert vm.take()[:4] == [  # not granted: layers come with the rights for all VMs
        ("Add", f"{SCSI}0", {"Type": "VirtualDisk", "Path": f"{base}/layer.vhd", "ReadOnly": True}),
        ("guest Add", "MappedVirtualDisk", {"MountPath": "/run/mounts/scsi/m0", "ReadOnly": True, "Options": ["ro"]}),
        ("Add", f"{SCSI}1", {"Type": "VirtualDisk", "Path": "/p.vhd", "ReadOnly": True}),
        (
            "guest Add",
            "MappedVirtualDisk",
            {"MountPath": "/run/mounts/scsi/m1", "Lun": 1, "ReadOnly": True, "Partition": 3, "Options": ["ro"]},
        ),
    ]


def test_scratch_that_is_a_link_is_shared_with_the_sandbox(tmp_path: Path) -> None:
    base, scratch = image(tmp_path, "base")
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "sandbox.vhdx").symlink_to(f"{scratch}/sandbox.vhdx")
    vm = FakeVm(DEFAULT_MODE)
    sandbox, workload = FakeContainer(vm, "pod", tmp_path), FakeContainer(vm, "c1", tmp_path)
    parsed(lcow_layer(scratch, [base])).acquire(sandbox, vm.guest, "/run/gcs/c/pod")  # type: ignore[arg-type]
    vm.take()
    shared = parsed(lcow_layer(str(tmp_path / "workload"), [base]))
    root = shared.acquire(workload, vm.guest, ROOT)  # type: ignore[arg-type]
    assert (root.path, root.scratch) == (f"{ROOT}/rootfs", "/run/gcs/c/pod/scratch/c1")
    assert [request[0] for request in vm.take()] == ["grant", "guest Add"]
    workload.release()
    assert [request[:2] for request in vm.take()] == [("guest Remove", "CombinedLayers")]


def test_missing_scratch_is_refused(tmp_path: Path) -> None:
    base, _ = image(tmp_path, "base")
    vm = FakeVm()
    container = FakeContainer(vm, "c1", tmp_path)
    with pytest.raises(InvalidSpec, match="failed to eval symlinks on scratch path"):
        parsed(lcow_layer(str(tmp_path / "none"), [base])).acquire(container, vm.guest, ROOT)  # type: ignore[arg-type]


def test_failed_overlay_leaves_the_releases_of_what_was_added(tmp_path: Path) -> None:
    base, scratch = image(tmp_path, "base")
    vm = FakeVm(DEFAULT_MODE)
    container = FakeContainer(vm, "c1", tmp_path)
    vm.fails = "CombinedLayers"
    with pytest.raises(HcsError, match="failed to mount container storage"):
        parsed(lcow_layer(scratch, [base])).acquire(container, vm.guest, ROOT)  # type: ignore[arg-type]
    vm.fails = ""
    vm.take()
    container.release()
    assert [request[0] for request in vm.take()] == ["guest Remove", "guest Remove", "Remove", "guest Remove", "Remove"]


def test_host_directory_is_shared_and_mounted(tmp_path: Path) -> None:
    vm = FakeVm()
    container = FakeContainer(vm, "c1", tmp_path)
    plan = layers.HostDirectory(str(tmp_path))
    assert plan.acquire(container, vm.guest, ROOT).path == f"{ROOT}/rootfs"  # type: ignore[arg-type]
    share = {"Name": "0", "AccessName": "0", "Path": str(tmp_path), "Port": 564, "Flags": 4}
    mounted = {"MountPath": f"{ROOT}/rootfs", "ShareName": "0", "Port": 564}
    assert vm.take() == [("Add", PLAN9, share), ("guest Add", "MappedDirectory", mounted)]
    container.release()
    removed = {"Name": "0", "AccessName": "0", "Port": 564}
    assert vm.take() == [("guest Remove", "MappedDirectory", mounted), ("Remove", PLAN9, removed)]
