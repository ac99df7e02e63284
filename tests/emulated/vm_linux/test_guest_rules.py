"""Rules that the emulated Linux guest checks and gcs does not. Every refusal names its rule."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm import bridge_frames as frames
from hcs_emulator.vm.linux.agent import rules
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.guest_host import Bridge
from tests.support.linux_image import make_scratch
from tests.support.linux_vm import NULL, LinuxVm, oci_process, ok, spec, vm_process
from tests.support.wire_client import WireClient

INVALID_ARGUMENT = 0x80070057
POD = {"io.kubernetes.cri.container-type": "sandbox", "io.microsoft.cri.skip-pod-networking": "true"}
MEMBER = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "pod"}


@pytest.fixture
def vm(emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[LinuxVm]:
    vm = LinuxVm(emulator, client, tmp_path, "emulated")
    yield vm
    vm.close()


@pytest.fixture
def bridge(vm: LinuxVm) -> Bridge:
    return vm.booted()


def refused(response: dict[str, Any], rule: str, code: int = INVALID_ARGUMENT) -> None:
    assert response["Result"] & 0xFFFFFFFF == code, response
    assert f"strict guest: rule {rule}: " in response["ErrorMessage"]


def config(container: str, document: dict[str, Any], **members: Any) -> str:
    root = f"/run/gcs/c/{container}"
    settings = {
        "SchemaVersion": documents.VERSION,
        "OciBundlePath": root,
        "OciSpecification": document,
        "ScratchDirPath": f"{root}/scratch/{container}",
    }
    return json.dumps(settings | members)


def create(bridge: Bridge, document: dict[str, Any], container: str = "app", **members: Any) -> dict[str, Any]:
    return bridge.call(frames.CREATE, container, ContainerConfig=config(container, document, **members))


# messages


def test_request_id_repeated_refused(vm: LinuxVm, bridge: Bridge) -> None:
    bridge.rewind()
    refused(bridge.call(frames.DUMP_STACKS, ""), rules.REQUEST_IDS)
    eventually(lambda: any(entry.get("rule") == rules.REQUEST_IDS for entry in vm.log_entries()), "the rule in the log")


def test_unknown_member_refused(bridge: Bridge) -> None:
    refused(bridge.call(frames.START, "app", Colour="blue"), rules.UNKNOWN_MEMBER)
    refused(bridge.modify("SCSIDevice", "Remove", {"Lun": 1, "Bus": 2}), rules.UNKNOWN_MEMBER)


def test_member_in_other_case_accepted(bridge: Bridge) -> None:
    ok(bridge.modify("SCSIDevice", "Remove", {"lun": 1, "CONTROLLER": 0}))


def test_frame_shorter_than_its_header_ends_the_vm(vm: LinuxVm, bridge: Bridge) -> None:
    bridge.send_raw(struct.pack("<IIQ", frames.REQUEST | frames.START, 8, 1))
    vm.wait_exited()


def test_vm_process_without_arguments_ends_the_vm(vm: LinuxVm, bridge: Bridge) -> None:
    bridge.begin(frames.EXECUTE_PROCESS, NULL, Settings={"ProcessParameters": "{}"})
    vm.wait_exited()
    assert b"panic: " in vm.log


def test_controller_out_of_range_ends_the_vm(vm: LinuxVm, bridge: Bridge) -> None:
    bridge.begin(
        frames.MODIFY_SETTINGS,
        NULL,
        Request={"ResourceType": "SCSIDevice", "RequestType": "Remove", "Settings": {"Controller": 4}},
    )
    vm.wait_exited()


# documents


@pytest.mark.parametrize(
    ("rule", "change", "members"),
    [
        (rules.SCHEMA_VERSION, {}, {"SchemaVersion": {"Major": 2, "Minor": 2}}),
        (rules.BUNDLE_PATH, {}, {"OciBundlePath": "/run/gcs/c/other"}),
        (rules.SCRATCH_PATH, {}, {"ScratchDirPath": "/run/gcs/c/other/scratch/app"}),
        (rules.ROOT_PATH, {"root": {"path": "/run/gcs/c/app/other"}}, {}),
        (rules.WINDOWS_SECTION, {"windows": {"layerFolders": ["C:\\layer"]}}, {}),
        (rules.NO_HOOKS, {"hooks": {"prestart": [{"path": "/bin/true"}]}}, {}),
        (rules.NO_CGROUPS_PATH, {"linux": {"cgroupsPath": "/default/app"}}, {}),
        (rules.NO_HOST_RESOURCES, {"linux": {"resources": {"pids": {"limit": 1}}}}, {}),
        (rules.NO_HOST_RESOURCES, {"linux": {"resources": {"devices": []}}}, {}),
        (rules.NETWORK_NAMESPACE, {"windows": {"network": {"networkNamespace": "none"}}}, {}),
    ],
)
def test_document_that_no_host_sends_refused(
    rule: str, change: dict[str, Any], members: dict[str, Any], vm: LinuxVm, bridge: Bridge
) -> None:
    root = vm.prepare(bridge, "app")
    document = spec(root, "cat")
    refused(create(bridge, document | change, **members), rule)
    ok(create(bridge, document))


def test_root_without_layers_refused(bridge: Bridge) -> None:
    refused(create(bridge, spec("/run/gcs/c/app", "cat")), rules.ROOT_MOUNTED)


def test_root_with_the_layers_of_another_container_refused(vm: LinuxVm, bridge: Bridge) -> None:
    vm.prepare(bridge, "app")
    layers = {
        "ContainerID": "other",
        "ContainerRootPath": "/run/gcs/c/mine/rootfs",
        "Layers": [{"Path": "/run/layers/p0"}],
        "ScratchPath": "/run/gcs/c/app/scratch/mine",
    }
    ok(bridge.modify("CombinedLayers", "Add", layers))
    document = spec("/run/gcs/c/mine", "cat")
    refused(create(bridge, document, "mine"), rules.ROOT_MOUNTED)


def test_root_that_is_a_share_accepted(vm: LinuxVm, bridge: Bridge) -> None:
    vm.prepare(bridge, "other")
    share = {"Name": "1", "AccessName": "1", "Path": str(vm.directory / "root"), "Port": 564, "Flags": 4}
    vm.add("Plan9/Shares", share)
    mapped = {"MountPath": "/run/gcs/c/app/rootfs", "ShareName": "1", "Port": 564}
    ok(bridge.modify("MappedDirectory", "Add", mapped))
    ok(create(bridge, spec("/run/gcs/c/app", "sh", "-c", "echo shared")))
    assert vm.execute(bridge, "app", StdOut=True).read() == b"shared\n"


# storage


def test_layers_without_disk_refused(vm: LinuxVm, bridge: Bridge) -> None:
    vm.prepare(bridge, "app")
    layers = {"ContainerRootPath": "/run/x/rootfs", "Layers": [{"Path": "/run/layers/p7"}]}
    refused(bridge.modify("CombinedLayers", "Add", layers), rules.LAYERS_MOUNTED)
    layers = {"ContainerRootPath": "/run/x/rootfs", "Layers": [{"Path": "/run/layers/p0"}], "ScratchPath": "/run/x/s"}
    refused(bridge.modify("CombinedLayers", "Add", layers), rules.SCRATCH_MOUNTED)


def test_disk_in_use_not_removed(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    busy = 0x80004005
    refused(bridge.modify("MappedVirtualDisk", "Remove", {"MountPath": root}), rules.IN_USE, busy)
    refused(bridge.modify("VPMemDevice", "Remove", {"MountPath": "/run/layers/p0"}), rules.IN_USE, busy)
    refused(bridge.modify("SCSIDevice", "Remove", {}), rules.UNPLUG_AFTER_UNMOUNT)
    ok(create(bridge, spec(root, "cat")))
    init = vm.execute(bridge, "app", StdIn=True)
    refused(bridge.modify("CombinedLayers", "Remove", {"ContainerRootPath": f"{root}/rootfs"}), rules.IN_USE, busy)
    init.streams["StdIn"].close()
    assert init.wait() == 0
    vm.release(bridge, "app")


def test_mount_point_used_twice_refused(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    vm.attach(1, make_scratch(vm.directory / "second.vhdx"))
    refused(bridge.modify("MappedVirtualDisk", "Add", {"Lun": 1, "MountPath": root}), rules.MOUNT_POINT)


def test_share_of_another_port_refused(bridge: Bridge) -> None:
    settings = {"MountPath": "/run/x", "Port": 565, "ShareName": "1"}
    refused(bridge.modify("MappedDirectory", "Add", settings), rules.PLAN9_PORT)


def test_device_that_hcs_does_not_have_refused(bridge: Bridge) -> None:
    device = bridge.modify("VPMemDevice", "Add", {"DeviceNumber": 3, "MountPath": "/run/layers/p3"})
    assert "failed to mount /dev/pmem3" in device["ErrorMessage"]
    mapping = {"DeviceOffsetInBytes": 0, "DeviceSizeInBytes": 4096}
    device = bridge.modify("VPMemDevice", "Add", {"MountPath": "/run/layers/p0-0-4096", "MappingInfo": mapping})
    assert "dm-linear-pmem0-0-4096" in device["ErrorMessage"]
    share = bridge.modify("MappedDirectory", "Add", {"MountPath": "/run/x", "Port": 564, "ShareName": "9"})
    assert share["Result"] != 0
    disk = bridge.modify("MappedVirtualDisk", "Add", {"MountPath": "/run/disk", "Lun": 5})
    assert "context deadline exceeded" in disk["ErrorMessage"]


# processes


def test_stream_ports_reused_or_unwanted_refused(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    ok(create(bridge, spec(root, "cat")))
    init = vm.execute(bridge, "app", StdIn=True)
    wanted = json.dumps({"CreateStdOutPipe": True} | oci_process("echo"))

    def execute(parameters: str, ports: dict[str, int]) -> dict[str, Any]:
        settings = {"ProcessParameters": parameters, "VsockStdioRelaySettings": ports}
        return bridge.call(frames.EXECUTE_PROCESS, "app", Settings=settings)

    refused(execute(wanted, {"StdOut": init.ports["StdIn"]}), rules.STREAM_PORTS)
    refused(execute(wanted, {"StdOut": 109}), rules.STREAM_PORTS)
    refused(execute(json.dumps(oci_process("echo")), {"StdOut": 0x40000099}), rules.STREAM_PORTS)


def test_terminal_with_stderr_refused(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    ok(create(bridge, spec(root, "cat")))
    init = vm.execute(bridge, "app", StdIn=True)
    assert init.pid
    process = oci_process("cat")
    process["OciProcess"]["terminal"] = True
    vm.listen(0x40000055)
    settings = {
        "ProcessParameters": json.dumps({"CreateStdErrPipe": True} | process),
        "VsockStdioRelaySettings": {"StdErr": 0x40000055},
    }
    refused(bridge.call(frames.EXECUTE_PROCESS, "app", Settings=settings), rules.TERMINAL_STREAMS)


def test_container_started_twice_refused_by_runc(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    ok(create(bridge, spec(root, "cat")))
    init = vm.execute(bridge, "app", StdIn=True, StdOut=True)
    again = bridge.call(frames.EXECUTE_PROCESS, "app", Settings={"ProcessParameters": "{}"})
    assert "runc start failed" in again["ErrorMessage"]
    init.streams["StdIn"].sendall(b"still there")
    init.streams["StdIn"].shutdown(1)
    assert init.read() == b"still there"
    assert init.wait() == 0


def test_state_deleted_without_a_wait_refused(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    ok(create(bridge, spec(root, "cat")))
    pid = ok(bridge.call(frames.EXECUTE_PROCESS, "app", Settings={"ProcessParameters": "{}"}))["ProcessId"]
    listing = vm.execute(bridge, NULL, vm_process("sh", "-c", f"while [ -d /proc/{pid} ]; do :; done"), StdOut=True)
    listing.read()
    listing.wait()
    refused(bridge.call(frames.DELETE_CONTAINER_STATE, "app"), rules.WAIT_FOR_PROCESS)


def test_workload_of_a_sandbox_that_does_not_run_refused(vm: LinuxVm, bridge: Bridge) -> None:
    sandbox = vm.prepare(bridge, "pod")
    ok(create(bridge, spec(sandbox, "cat", annotations=POD), "pod"))
    root = vm.prepare(bridge, "app", device=1, lun=1)
    workload = spec(root, "cat", annotations=MEMBER)
    refused(create(bridge, workload), rules.SANDBOX_RUNNING)
    init = vm.execute(bridge, "pod", StdIn=True)
    ok(create(bridge, workload))
    init.streams["StdIn"].close()
    assert init.wait() == 0
    other = vm.prepare(bridge, "late", device=2, lun=2)
    refused(create(bridge, spec(other, "cat", annotations=MEMBER), "late"), rules.SANDBOX_RUNNING)


# newer than the agent that the conformance tests compare with


def test_host_network_keeps_a_pod_in_the_network_of_the_vm(vm: LinuxVm, bridge: Bridge) -> None:
    namespace, nic = "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01", "6d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b02"
    vm.add_adapter(nic)
    addresses = [{"IPAddress": "10.1.2.3", "PrefixLength": 24}]
    ok(bridge.modify("Network", "Add", {"NamespaceID": namespace, "ID": nic, "IPConfigs": addresses}))
    document = spec(vm.prepare(bridge, "pod"), "cat")
    document["annotations"] = {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.microsoft.virtualmachine.lcow.hostnetwork": "true",
    }
    document["windows"] = {"network": {"networkNamespace": namespace}}
    ok(create(bridge, document, "pod"))
    pause = vm.execute(bridge, "pod", StdIn=True)
    root = vm.prepare(bridge, "app", device=1, lun=1)
    ok(create(bridge, spec(root, "sh", "-c", "cat /proc/net/fib_trie", annotations=MEMBER)))
    assert b"10.1.2.3" in vm.execute(bridge, "app", StdOut=True).read()
    links = [
        vm.execute(bridge, name, process, StdOut=True).read()
        for name, process in (
            ("pod", oci_process("readlink", "/proc/self/ns/net")),
            (NULL, vm_process("readlink", "/proc/self/ns/net")),
        )
    ]
    assert links[0] == links[1] and pause.pid


def test_pod_memory_limit_can_only_be_updated(bridge: Bridge) -> None:
    ok(bridge.modify("PodCgroupMemoryLimit", "Update", None))
    refusal = bridge.modify("PodCgroupMemoryLimit", "Add", None)
    assert refusal["ErrorMessage"] == 'the RequestType "Add" is not supported'


# the connection


def test_bridge_lost_containers_stay_and_exit_is_reported_later(vm: LinuxVm, bridge: Bridge) -> None:
    root = vm.prepare(bridge, "app")
    ok(create(bridge, spec(root, "cat")))
    init = vm.execute(bridge, "app", StdIn=True)
    bridge.close()
    second = vm.accept_bridge()
    second.ok(frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    init.streams["StdIn"].shutdown(1)
    waited = second.ok(frames.WAIT_FOR_PROCESS, "app", ProcessId=init.pid, TimeoutInMs=0xFFFFFFFF)
    assert waited["ExitCode"] == 0
    assert second.wait_notification("app")["Type"] == "UnexpectedExit"


def test_failed_creation_removes_the_files_of_shares_in_the_bundle(vm: LinuxVm, bridge: Bridge) -> None:
    """As with Microsoft's agent: the shim must not mount shares there."""
    root = vm.prepare(bridge, "app")
    places = {"inside": f"{root}/mounts/m0", "outside": "/run/mounts/plan9/app-m0"}
    for number, (name, place) in enumerate(places.items()):
        (vm.directory / name).mkdir()
        (vm.directory / name / "file").write_text("data of the host")
        share = {"Name": str(number), "AccessName": str(number), "Path": str(vm.directory / name), "Port": 564}
        vm.add("Plan9/Shares", {**share, "Flags": 4})
        mapped = {"MountPath": place, "ShareName": str(number), "Port": 564}
        ok(bridge.modify("MappedDirectory", "Add", mapped))
    assert create(bridge, spec(root, "no-such-program"))["Result"] != 0
    assert list((vm.directory / "inside").iterdir()) == []
    assert (vm.directory / "outside" / "file").read_text() == "data of the host"


def test_many_containers_and_requests_at_once(vm: LinuxVm, bridge: Bridge) -> None:
    sandbox = vm.prepare(bridge, "pod")
    ok(create(bridge, spec(sandbox, "cat", annotations=POD), "pod"))
    pause = vm.execute(bridge, "pod", StdIn=True)
    names = [f"app{number}" for number in range(6)]
    roots = [vm.prepare(bridge, name, device=number, lun=number) for number, name in enumerate(names, 1)]
    pending = [
        bridge.begin(
            frames.CREATE,
            name,
            ContainerConfig=config(name, spec(root, "sh", "-c", "read a; echo $a", annotations=MEMBER)),
        )
        for name, root in zip(names, roots, strict=True)
    ]
    for request in pending:
        ok(bridge.finish(request))
    running = [vm.execute(bridge, name, StdIn=True, StdOut=True) for name in names]
    for name, init in zip(names, running, strict=True):
        init.streams["StdIn"].sendall(name.encode() + b"\n")
    for name, init in zip(names, running, strict=True):
        assert init.read() == name.encode() + b"\n"
        assert init.wait() == 0
    assert pause.pid
