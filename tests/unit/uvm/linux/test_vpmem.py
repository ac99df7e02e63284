"""Layers on VPMem devices: requests, their order, reference counts and overflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.hcs_bindings.errors import HcsError
from shim.oci.errors import InvalidSpec
from tests.unit.uvm.linux.fakes import VPMEM, FakeVm

DEFAULT_MODE = {"io.microsoft.virtualmachine.lcow.vpmem.nomultimapping": "true"}
MIB = 1 << 20


def layer(directory: Path, name: str, size: int = 5000) -> str:
    path = directory / name
    with path.open("wb") as file:
        file.truncate(size)
    return str(path)


def add(vm: FakeVm, path: str) -> str:
    assert vm.guest.vpmem is not None
    lease = vm.guest.vpmem.add(path)
    assert lease is not None
    return lease.guest_path


def test_layer_in_default_mode_has_a_device_of_its_own(tmp_path: Path) -> None:
    vm = FakeVm(DEFAULT_MODE)
    first, second = layer(tmp_path, "a"), layer(tmp_path, "b")
    assert [add(vm, first), add(vm, second)] == ["/run/layers/p0", "/run/layers/p1"]
    settings = {"HostPath": second, "ReadOnly": True, "ImageFormat": "Vhd1"}
    assert vm.requests[1] == ("guest Add", "VPMemDevice", {"MountPath": "/run/layers/p0"})
    assert vm.requests[2:] == [
        ("Add", f"{VPMEM}1", settings),
        ("guest Add", "VPMemDevice", {"DeviceNumber": 1, "MountPath": "/run/layers/p1"}),
    ]


def test_layer_of_two_containers_is_removed_with_the_second(tmp_path: Path) -> None:
    vm, path = FakeVm(DEFAULT_MODE), layer(tmp_path, "a")
    assert vm.guest.vpmem is not None
    first, second = vm.guest.vpmem.add(path), vm.guest.vpmem.add(path)
    assert first is not None and second is not None and first.guest_path == second.guest_path
    assert len(vm.take()) == 2
    first.release()
    assert vm.take() == []
    second.release()
    assert vm.take() == [
        ("guest Remove", "VPMemDevice", {"MountPath": "/run/layers/p0"}),
        ("Remove", f"{VPMEM}0", None),
    ]
    assert add(vm, layer(tmp_path, "b")) == "/run/layers/p0"


def test_mapped_layers_share_a_device(tmp_path: Path) -> None:
    vm = FakeVm()
    first, second = layer(tmp_path, "a", 3 * MIB + 1), layer(tmp_path, "b", 4096)
    rounded = 3 * MIB + 4096
    assert add(vm, first) == f"/run/layers/p0-0-{rounded}"
    assert add(vm, second) == f"/run/layers/p0-{4 * MIB}-4096"
    mapping = {"DeviceSizeInBytes": rounded}
    assert vm.requests == [
        ("Add", f"{VPMEM}0/Mappings/0", {"HostPath": first, "ImageFormat": "Vhd1"}),
        ("guest Add", "VPMemDevice", {"MountPath": f"/run/layers/p0-0-{rounded}", "MappingInfo": mapping}),
        ("Add", f"{VPMEM}0/Mappings/{4 * MIB}", {"HostPath": second, "ImageFormat": "Vhd1"}),
        (
            "guest Add",
            "VPMemDevice",
            {
                "MountPath": f"/run/layers/p0-{4 * MIB}-4096",
                "MappingInfo": {"DeviceOffsetInBytes": 4 * MIB, "DeviceSizeInBytes": 4096},
            },
        ),
    ]


def test_released_mapping_is_used_again(tmp_path: Path) -> None:
    vm = FakeVm()
    assert vm.guest.vpmem is not None
    lease = vm.guest.vpmem.add(layer(tmp_path, "a"))
    assert lease is not None
    vm.take()
    lease.release()
    assert [request[:2] for request in vm.take()] == [
        ("guest Remove", "VPMemDevice"),
        ("Remove", f"{VPMEM}0/Mappings/0"),
    ]
    assert add(vm, layer(tmp_path, "b")) == "/run/layers/p0-0-8192"


@pytest.mark.parametrize("mode", [DEFAULT_MODE, {}])
def test_layer_without_room_is_refused(mode: dict[str, str], tmp_path: Path) -> None:
    vm = FakeVm({**mode, "io.microsoft.virtualmachine.devices.virtualpmem.maximumcount": "1"})
    assert vm.guest.vpmem is not None
    assert vm.guest.vpmem.add(layer(tmp_path, "large", (4 << 30) + 1)) is None
    add(vm, layer(tmp_path, "a", 1 << 32))
    assert vm.guest.vpmem.add(layer(tmp_path, "b")) is None
    assert len(vm.requests) == 2


@pytest.mark.parametrize("mode", [DEFAULT_MODE, {}])
def test_device_that_the_vm_boots_from_is_not_used(mode: dict[str, str], tmp_path: Path) -> None:
    vm = FakeVm(mode, vhd=True)
    assert add(vm, layer(tmp_path, "a")).startswith("/run/layers/p1")


@pytest.mark.parametrize("mode", [DEFAULT_MODE, {}])
def test_layer_that_the_guest_refuses_is_removed(mode: dict[str, str], tmp_path: Path) -> None:
    vm, path = FakeVm(mode), layer(tmp_path, "a")
    vm.fails = "guest Add"
    with pytest.raises(HcsError, match="failed to modify utility VM configuration"):
        add(vm, path)
    assert [request[0] for request in vm.take()] == ["Add", "guest Add", "Remove"]
    vm.fails = ""
    assert add(vm, path).startswith("/run/layers/p0")


def test_missing_layer_is_an_error_of_the_image(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="failed to add LCOW layer: failed to add VPMEM layer: "):
        add(FakeVm(), str(tmp_path / "gone"))


def test_vm_without_vpmem_has_four_controllers() -> None:
    vm = FakeVm({"io.microsoft.virtualmachine.devices.virtualpmem.maximumcount": "0"})
    assert vm.guest.vpmem is None and vm.guest.scsi_controllers == 4
