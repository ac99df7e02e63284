"""The devices that a Linux VM gives its guest, and their removal."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from hcs_emulator.vm import bridge_frames
from tests.support.guest_host import Bridge
from tests.support.linux_image import make_layer, make_scratch, partition
from tests.support.linux_vm import CONTROLLERS, NULL, LinuxVm, ok, spec, vm_process


def output(vm: LinuxVm, bridge: Bridge, *command: str) -> str:
    """What a process of the VM writes; it must succeed."""
    process = vm.execute(bridge, NULL, vm_process(*command), StdOut=True)
    text = process.read().decode()
    assert process.wait() == 0, text
    return text


def small_layer(directory: Path, name: str = "layer") -> Path:
    (directory / f"{name}-root").mkdir()
    (directory / f"{name}-root" / "greeting").write_text(f"from {name}")
    return make_layer(directory / f"{name}-root", directory / f"{name}.vhd")


def loop_devices(path: Path) -> str:
    return subprocess.run(["losetup", "-j", str(path)], check=True, capture_output=True, text=True).stdout


def test_pmem_mappings_are_mounted_one_by_one(linux_vm: LinuxVm, tmp_path: Path) -> None:
    bridge = linux_vm.booted()
    first, second = small_layer(tmp_path, "first"), small_layer(tmp_path, "second")
    size = -(-first.stat().st_size // 4096) * 4096
    for offset, layer in ((0, first), (16 << 20, second)):
        mapping = {"HostPath": str(layer), "ImageFormat": "Vhd1"}
        linux_vm.add(f"VirtualPMem/Devices/3/Mappings/{offset}", mapping)
        info = {"DeviceOffsetInBytes": offset, "DeviceSizeInBytes": size}
        settings = {"DeviceNumber": 3, "MountPath": f"/run/layers/p3-{offset}-{size}", "MappingInfo": info}
        ok(bridge.modify("VPMemDevice", "Add", settings))
        assert output(linux_vm, bridge, "cat", f"/run/layers/p3-{offset}-{size}/greeting") == f"from {layer.stem}"
    settings = {"DeviceNumber": 3, "MountPath": f"/run/layers/p3-0-{size}"}
    info = {"DeviceOffsetInBytes": 0, "DeviceSizeInBytes": size}
    ok(bridge.modify("VPMemDevice", "Remove", settings | {"MappingInfo": info}))
    linux_vm.remove("VirtualPMem/Devices/3/Mappings/0")
    assert loop_devices(first) == "" and loop_devices(second) != ""
    linux_vm.terminate()
    assert loop_devices(second) == ""


def test_scsi_disk_is_formatted_mounted_and_unplugged(linux_vm: LinuxVm, tmp_path: Path) -> None:
    bridge = linux_vm.booted(linux_vm.document(Scsi={guid: {} for guid in CONTROLLERS}))
    disk = make_scratch(tmp_path / "data.vhdx", formatted=False)
    linux_vm.attach(63, disk, controller=3)
    settings = {"Controller": 3, "Lun": 63, "MountPath": "/run/mounts/scsi/m0"}
    ok(bridge.modify("MappedVirtualDisk", "Add", settings | {"EnsureFilesystem": True, "Filesystem": "ext4"}))
    output(linux_vm, bridge, "sh", "-c", "echo kept > /run/mounts/scsi/m0/file")
    ok(bridge.modify("MappedVirtualDisk", "Remove", settings))
    ok(bridge.modify("SCSIDevice", "Remove", {"Controller": 3, "Lun": 63}))
    linux_vm.remove(f"Scsi/{CONTROLLERS[3]}/Attachments/63")
    assert loop_devices(disk) == ""
    assert "sda" not in output(linux_vm, bridge, "ls", "/dev")
    linux_vm.attach(0, disk, read_only=True)
    settings = {"Lun": 0, "MountPath": "/run/mounts/scsi/m1", "ReadOnly": True}
    ok(bridge.modify("MappedVirtualDisk", "Add", settings))
    assert output(linux_vm, bridge, "cat", "/run/mounts/scsi/m1/file") == "kept\n"
    linux_vm.terminate()
    assert loop_devices(disk) == ""


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_partition_of_a_disk_is_mounted(linux_vm: LinuxVm, tmp_path: Path, label: str) -> None:
    disk, root = tmp_path / "parts.vhd", tmp_path / "root"
    root.mkdir()
    (root / "greeting").write_text("from the second partition")
    with open(disk, "wb") as file:
        file.truncate(24 << 20)
    make = ["mkfs.ext4", "-q", "-F", "-E", f"offset={8192 * 512}", "-d", str(root), str(disk), "16M"]
    subprocess.run(make, check=True, capture_output=True)
    partition(disk, label, [(2048, 4096), (8192, 32768)])
    bridge = linux_vm.booted()
    linux_vm.attach(1, disk, read_only=True)
    settings = {"Lun": 1, "Partition": 2, "MountPath": "/run/mounts/scsi/m0", "ReadOnly": True}
    ok(bridge.modify("MappedVirtualDisk", "Add", settings))
    assert output(linux_vm, bridge, "cat", "/run/mounts/scsi/m0/greeting") == "from the second partition"
    ok(bridge.modify("MappedVirtualDisk", "Remove", settings))
    ok(bridge.modify("SCSIDevice", "Remove", {"Lun": 1}))
    linux_vm.remove(f"Scsi/{CONTROLLERS[0]}/Attachments/1")
    assert "sda" not in output(linux_vm, bridge, "ls", "/dev")
    assert loop_devices(disk) == ""
    linux_vm.terminate()


def share(bridge: Bridge, vm: LinuxVm, name: str, path: Path, flags: int, **members: object) -> str:
    names = {"Name": name, "AccessName": name}
    vm.add("Plan9/Shares", names | {"Path": str(path), "Port": 564, "Flags": flags, **members})
    mount = f"/run/shares/{name}"
    read_only = bool(flags & 1)
    settings = {"MountPath": mount, "ShareName": name, "Port": 564, "ReadOnly": read_only}
    ok(bridge.modify("MappedDirectory", "Add", settings))
    return mount


def test_plan9_shares_show_what_the_host_allows(linux_vm: LinuxVm, tmp_path: Path) -> None:
    bridge = linux_vm.booted()
    directory = tmp_path / "shared"
    directory.mkdir()
    for name in ("one", "two"):
        (directory / name).write_text(name)
    writable = share(bridge, linux_vm, "1", directory, 4)
    read_only = share(bridge, linux_vm, "2", directory, 5)
    restricted = share(bridge, linux_vm, "3", directory, 0x84, AllowedFiles=["two"])
    output(linux_vm, bridge, "sh", "-c", f"echo new > {writable}/three")
    assert (directory / "three").read_text() == "new\n"
    assert output(linux_vm, bridge, "sh", "-c", f"touch {read_only}/four || echo refused") == "refused\n"
    assert output(linux_vm, bridge, "ls", restricted) == "two\n"
    output(linux_vm, bridge, "sh", "-c", f"echo changed > {restricted}/two")
    assert (directory / "two").read_text() == "changed\n"
    for name, mount in (("3", restricted), ("1", writable)):
        ok(bridge.modify("MappedDirectory", "Remove", {"MountPath": mount, "ShareName": name, "Port": 564}))
    linux_vm.remove("Plan9/Shares", {"Name": "1", "AccessName": "1", "Port": 564})
    settings = {"MountPath": writable, "ShareName": "1", "Port": 564}
    assert bridge.modify("MappedDirectory", "Add", settings)["Result"] != 0
    linux_vm.terminate()
    assert (directory / "one").read_text() == "one"


def test_plan9_share_shows_later_mounts_of_the_host(linux_vm: LinuxVm, tmp_path: Path) -> None:
    bridge = linux_vm.booted()
    source, target = tmp_path / "source", tmp_path / "bundle" / "rootfs"
    source.mkdir()
    target.mkdir(parents=True)
    (source / "file").write_text("mounted after the VM had started")
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)
    try:
        mount = share(bridge, linux_vm, "1", target, 4)
        assert output(linux_vm, bridge, "cat", f"{mount}/file") == "mounted after the VM had started"
    finally:
        subprocess.run(["umount", str(target)], check=True)
    linux_vm.terminate()


def test_vm_has_a_network_of_its_own(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    assert output(linux_vm, bridge, "ls", "/sys/class/net").split() == ["lo"]
    assert "UP" in output(linux_vm, bridge, "ip", "link", "show", "lo")
    linux_vm.terminate()


def test_guest_has_the_network_namespace_of_its_adapter_as_a_file(linux_vm: LinuxVm) -> None:
    """Its own namespace is another one: there runc would refuse the sysctls of a pod."""
    name = f"lcow-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        adapters = {str(uuid.uuid4()): {"EndpointId": f"/var/run/netns/{name}"}}
        bridge = linux_vm.booted(linux_vm.document(NetworkAdapters=adapters))
        number = os.stat(f"/var/run/netns/{name}").st_ino
        assert output(linux_vm, bridge, "stat", "-L", "-c", "%i", "/run/netns/pod").strip() == str(number)
        assert output(linux_vm, bridge, "readlink", "/proc/self/ns/net").strip() != f"net:[{number}]"
        linux_vm.terminate()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_vm_shuts_itself_down(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    bridge.begin(bridge_frames.SHUTDOWN_FORCED, NULL)
    assert linux_vm.wait_exited()["ExitType"] == "GracefulExit"


def test_network_adapter_of_an_endpoint_is_an_interface(linux_vm: LinuxVm) -> None:
    version = {"SchemaVersion": {"Major": 2, "Minor": 0}}
    network = linux_vm.client.ok("HcnCreateNetwork", str(uuid.uuid4()), version | {"Type": "NAT"}).handle
    endpoint, adapter, namespace = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
    linux_vm.client.ok("HcnCreateEndpoint", endpoint, version, handle=network)
    bridge = linux_vm.booted()
    place = f"NetworkAdapters/{adapter}"
    linux_vm.add(place, {"EndpointId": endpoint, "MacAddress": "00-15-5D-01-02-03"})
    assert output(linux_vm, bridge, "ls", f"/sys/bus/vmbus/devices/{adapter}/net") == "eth0\n"
    assert output(linux_vm, bridge, "cat", "/sys/class/net/eth0/address") == "00:15:5d:01:02:03\n"
    settings = {
        "NamespaceID": namespace,
        "ID": adapter,
        "MacAddress": "00-15-5D-01-02-03",
        "IPConfigs": [{"IPAddress": "10.1.2.3", "PrefixLength": 24}],
        "Routes": [{"NextHop": "10.1.2.1", "DestinationPrefix": "0.0.0.0/0"}],
        "EncapOverhead": 50,
    }
    ok(bridge.modify("Network", "Add", settings))
    root = linux_vm.prepare(bridge, "pod")
    annotations = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod"}
    windows = {"network": {"networkNamespace": namespace}}
    sandbox = spec(root, "sleep", "600", annotations=annotations, windows=windows)
    linux_vm.create_container(bridge, "pod", sandbox)
    process = linux_vm.execute(bridge, "pod")
    shown = output(linux_vm, bridge, "nsenter", "-t", str(process.pid), "-n", "ip", "address", "show", "eth0")
    assert "10.1.2.3/24" in shown and "mtu 1450" in shown and "LOWER_UP" in shown
    linux_vm.terminate()


def test_removed_network_adapter_is_gone(linux_vm: LinuxVm) -> None:
    version = {"SchemaVersion": {"Major": 2, "Minor": 0}}
    network = linux_vm.client.ok("HcnCreateNetwork", str(uuid.uuid4()), version | {"Type": "NAT"}).handle
    endpoint, adapter = str(uuid.uuid4()), str(uuid.uuid4())
    linux_vm.client.ok("HcnCreateEndpoint", endpoint, version, handle=network)
    bridge = linux_vm.booted()
    linux_vm.add(f"NetworkAdapters/{adapter}", {"EndpointId": endpoint})
    linux_vm.remove(f"NetworkAdapters/{adapter}", {"EndpointId": endpoint})
    assert output(linux_vm, bridge, "ls", "/sys/class/net").split() == ["lo"]
    linux_vm.terminate()


def test_assigned_device_has_a_node_in_its_container(linux_vm: LinuxVm) -> None:
    device = str(uuid.uuid4())
    document = linux_vm.document()
    direct = document["VirtualMachine"]["Chipset"]["LinuxKernelDirect"]
    direct["KernelCmdLine"] = direct["KernelCmdLine"].replace(" pci=off", "")
    bridge = linux_vm.booted(document)
    functions = [{"DeviceInstancePath": "PCI\\VEN_1234&DEV_5678\\0", "VirtualFunction": 0}]
    linux_vm.add(f"VirtualPci/{device}", {"Functions": functions})
    ok(bridge.modify("VPCIDevice", "Add", {"VMBusGUID": device}))
    root = linux_vm.prepare(bridge, "pod")
    annotations = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod"}
    skip = {"io.microsoft.cri.skip-pod-networking": "true"}
    linux_vm.create_container(bridge, "pod", spec(root, "sleep", "600", annotations=annotations | skip))
    linux_vm.execute(bridge, "pod")
    root = linux_vm.prepare(bridge, "app", device=1, lun=1)
    annotations["io.kubernetes.cri.container-type"] = "container"
    devices = {"devices": [{"id": device, "idType": "vpci-instance-id"}]}
    workload = spec(root, "ls", "/dev/vpci0", annotations=annotations, windows=devices)
    linux_vm.create_container(bridge, "app", workload)
    process = linux_vm.execute(bridge, "app", StdOut=True)
    assert process.read() == b"/dev/vpci0\n"
    assert process.wait() == 0
    linux_vm.remove(f"VirtualPci/{device}")
    assert "vpci" not in output(linux_vm, bridge, "ls", "/dev")
    linux_vm.terminate()
