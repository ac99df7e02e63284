"""Mounts of a Linux container: requests for the VM, and the mounts of the guest's spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.hcs_bindings.errors import HcsError
from shim.oci.errors import InvalidSpec
from shim.oci.spec import Spec
from shim.uvm.linux.mounts import MountPlan
from tests.unit.uvm.linux.fakes import PLAN9, SCSI, FakeVm

SHARE = "/run/mounts/plan9/c1-m"
READ_ONLY_SHARES = {"io.microsoft.virtualmachine.fileshares.disablewritable": "true"}


def acquire(vm: FakeVm, *mounts: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    releases: list[Any] = []
    return MountPlan(Spec({"linux": {}, "mounts": list(mounts)})).acquire(vm.guest, "c1", releases), releases


@pytest.mark.parametrize(
    "mount",
    [
        {"type": "proc", "source": "proc", "destination": "/proc"},
        {"type": "tmpfs", "source": "shm", "destination": "/dev/shm", "options": ["nosuid", "size=65536k"]},
        {"type": "cgroup", "source": "cgroup", "destination": "/sys/fs/cgroup", "options": ["ro"]},
        {"destination": "/x", "source": "/y"},
        {"type": "bind", "source": "sandbox:///a", "destination": "/a"},
        {"type": "bind", "source": "sandbox-tmp:///a", "destination": "/a"},
        {"type": "bind", "source": "uvm:///a", "destination": "/a"},
        {"type": "bind", "source": "hugepages://2M/a", "destination": "/a"},
    ],
)
def test_mount_that_the_guest_resolves_is_passed_unchanged(mount: dict[str, Any]) -> None:
    vm = FakeVm()
    assert acquire(vm, mount) == ([mount], [])
    assert vm.requests == []


def test_directory_is_a_share_at_its_index(tmp_path: Path) -> None:
    vm = FakeVm()
    proc = {"type": "proc", "destination": "/proc", "source": "proc"}
    bind = {"type": "bind", "source": str(tmp_path), "destination": "/data", "options": ["rbind", "RO"]}
    found, releases = acquire(vm, proc, bind)
    assert found == [proc, {**bind, "source": f"{SHARE}1"}]
    share = {"Name": "0", "AccessName": "0", "Path": str(tmp_path), "Port": 564, "Flags": 5}
    mounted = {"MountPath": f"{SHARE}1", "ShareName": "0", "Port": 564, "ReadOnly": True}
    assert vm.take() == [("Add", PLAN9, share), ("guest Add", "MappedDirectory", mounted)]
    releases[0]()
    assert [request[:2] for request in vm.take()] == [("guest Remove", "MappedDirectory"), ("Remove", PLAN9)]


def test_file_is_a_share_of_its_directory_restricted_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.uvm.linux.plan9.windows_build", lambda: 18362)
    (tmp_path / "f.txt").touch()
    vm = FakeVm()
    bind = {"type": "bind", "source": str(tmp_path / "f.txt"), "destination": "/etc/f"}
    found, _ = acquire(vm, bind)
    assert found[0]["source"] == f"{SHARE}0/f.txt"
    assert vm.requests[0][2] == {
        "Name": "0", "AccessName": "0", "Path": f"{tmp_path}/", "Port": 564, "Flags": 0x84, "AllowedFiles": ["f.txt"],
    }  # fmt: skip


def test_shares_are_numbered_and_never_shared(tmp_path: Path) -> None:
    vm = FakeVm()
    bind = {"type": "bind", "source": str(tmp_path), "destination": "/data"}
    acquire(vm, bind, bind)
    assert [request[2]["Name"] for request in vm.requests if request[1] == PLAN9] == ["0", "1"]


@pytest.mark.parametrize(("type_", "kind"), [("physical-disk", "PassThru"), ("virtual-disk", "VirtualDisk")])
def test_disk_is_attached_and_mounted_with_its_options(type_: str, kind: str) -> None:
    vm = FakeVm()
    disk = {"type": type_, "source": "/d.vhdx", "destination": "/d", "options": ["sync", "ro"]}
    found, releases = acquire(vm, disk)
    assert found == [{**disk, "type": "none", "source": "/run/mounts/scsi/m0", "options": ["ro", "sync"]}]
    mounted = {"MountPath": "/run/mounts/scsi/m0", "ReadOnly": True}
    assert vm.take() == [
        ("grant", "/d.vhdx", None),
        ("Add", f"{SCSI}0", {"Type": kind, "Path": "/d.vhdx", "ReadOnly": True}),
        ("guest Add", "MappedVirtualDisk", {**mounted, "Options": ["ro", "sync"]}),
    ]
    releases[0]()
    assert vm.take() == [
        ("guest Remove", "MappedVirtualDisk", mounted),
        ("guest Remove", "SCSIDevice", {}),
        ("Remove", f"{SCSI}0", None),
    ]


def test_block_device_is_not_mounted() -> None:
    vm = FakeVm()
    found, _ = acquire(vm, {"type": "virtual-disk", "source": "/d.vhdx", "destination": "blockdev:///dev/data"})
    assert found[0]["type"] == "bind" and found[0]["destination"] == "blockdev:///dev/data"
    assert vm.requests[-1][2] == {"MountPath": "/run/mounts/scsi/m0", "BlockDev": True}


def test_extensible_disk_names_its_provider() -> None:
    vm = FakeVm()
    acquire(vm, {"type": "extensible-virtual-disk", "source": "evd://space/vol/1", "destination": "/d"})
    settings = {"Type": "ExtensibleVirtualDisk", "Path": "vol/1", "ExtensibleVirtualDiskType": "space"}
    assert vm.requests[0] == ("Add", f"{SCSI}0", settings)


def test_disk_of_two_mounts_has_one_slot_and_a_mount_for_each_way() -> None:
    vm = FakeVm()
    disk = {"type": "virtual-disk", "source": "/d.vhdx", "destination": "/d"}
    found, releases = acquire(vm, disk, disk, {**disk, "options": ["sync"]})
    assert [mount["source"] for mount in found] == [f"/run/mounts/scsi/m{number}" for number in (0, 0, 1)]
    assert [request[0] for request in vm.take()] == ["grant", "Add", "guest Add", "grant", "grant", "guest Add"]
    for release in releases:
        release()
    assert [request[0] for request in vm.take()] == ["guest Remove", "guest Remove", "guest Remove", "Remove"]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"type": "bind", "source": "/a"}, "a mount must have both source and a destination"),
        ({"type": "virtual-disk", "destination": "/a"}, "a mount must have both source and a destination"),
        ({"type": "bind", "source": "/not/there", "destination": "/a"}, "could not open bind mount target"),
        ({"type": "bind", "source": "hugepages://1G/a", "destination": "/a"}, "only 2M .* is supported, got 1G"),
        ({"type": "bind", "source": "hugepages://2M", "destination": "/a"}, "hugepages://2M mount path is invalid"),
        ({"type": "extensible-virtual-disk", "source": "evd://x", "destination": "/a"}, "invalid extensible vhd path"),
    ],
)
def test_invalid_mount_is_refused_before_anything_is_acquired(mount: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        MountPlan(Spec({"linux": {}, "mounts": [mount]}))


def test_writable_share_is_refused_where_the_annotation_forbids_it(tmp_path: Path) -> None:
    vm = FakeVm(READ_ONLY_SHARES)
    bind = {"type": "bind", "source": str(tmp_path), "destination": "/data"}
    with pytest.raises(InvalidSpec, match="adding writable shares is denied"):
        acquire(vm, bind)
    acquire(vm, {**bind, "options": ["ro"]})
    assert vm.requests[0][2]["Flags"] == 5
    vm = FakeVm(READ_ONLY_SHARES)
    acquire(vm, {**bind, "options": ["rbind", "rprivate", "rro"]})  # a recursive read-only mount
    assert vm.requests[0][2]["Flags"] == 5


def test_single_file_needs_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.uvm.linux.plan9.windows_build", lambda: 17763)
    (tmp_path / "f.txt").touch()
    with pytest.raises(InvalidSpec, match="single-file mappings are not supported on this build of Windows"):
        acquire(FakeVm(), {"type": "bind", "source": str(tmp_path / "f.txt"), "destination": "/f"})


def test_share_that_the_guest_refuses_is_removed(tmp_path: Path) -> None:
    vm = FakeVm()
    vm.fails = "guest Add"
    with pytest.raises(HcsError, match=r"adding plan9 mount mounts\[0\]"):
        acquire(vm, {"type": "bind", "source": str(tmp_path), "destination": "/data"})
    assert [request[0] for request in vm.requests] == ["Add", "guest Add", "Remove"]


def test_disks_of_four_controllers_fill_one_after_the_other() -> None:
    vm = FakeVm({"io.microsoft.virtualmachine.devices.virtualpmem.maximumcount": "0"}, vhd=True)
    for number in range(255):
        vm.disks.attach(f"/{number}.vhdx")
    added = [request[1].split("/")[3:] for request in vm.requests if request[0] == "Add"]
    assert added[0][2] == "1" and added[62][2] == "63"  # the VM boots from 0:0
    assert added[63][0].startswith("0110f83b") and added[63][2] == "0" and added[254][0].startswith("305891a9")
    mounted = [request[2] for request in vm.requests if request[0] == "guest Add"]
    assert (mounted[63]["Controller"], mounted[63].get("Lun", 0)) == (1, 0)
    with pytest.raises(InvalidSpec, match="no available location"):
        vm.disks.attach("/more.vhdx")
