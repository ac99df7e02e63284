"""Invalid requests and failures: both Linux guests get the same messages. Where their answers differ, Microsoft's agent
is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm import bridge_frames as frames
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.guest_transcript import Transcript
from tests.support.linux_image import make_scratch
from tests.support.linux_vm import NULL, LinuxVm, ok, spec, vm_process
from tests.support.wire_client import WireClient

UNKNOWN = "unknown"


def test_unknown_ids_same_errors(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        process = {"ProcessId": 4711}
        settings = {"ProcessParameters": "{}"}
        for label, procedure, members in (
            ("execute", frames.EXECUTE_PROCESS, {"Settings": settings}),
            ("wait", frames.WAIT_FOR_PROCESS, process | {"TimeoutInMs": 1}),
            ("signal", frames.SIGNAL_PROCESS, process),
            ("resize", frames.RESIZE_CONSOLE, process),
            ("shut down", frames.SHUTDOWN_GRACEFUL, {}),
            ("terminate", frames.SHUTDOWN_FORCED, {}),
            ("properties", frames.GET_PROPERTIES, {"Query": ""}),
            ("delete", frames.DELETE_CONTAINER_STATE, {}),
        ):
            guest.call(label, procedure, UNKNOWN, **members)
        guest.modify("constraints", "ContainerConstraints", "Update", {"Linux": {}}, UNKNOWN)
        guest.call("start", frames.START, UNKNOWN)
        guest.call("properties of the VM", frames.GET_PROPERTIES, NULL, Query="")
        guest.call("wait for a VM process", frames.WAIT_FOR_PROCESS, NULL, ProcessId=4711, TimeoutInMs=1)
        guest.call("signal a VM process", frames.SIGNAL_PROCESS, NULL, ProcessId=4711)

    answers = compare(scenario)
    assert answers["execute"]["Result"] == "C037010E"
    assert answers["wait for a VM process"]["Result"] == "80070490"


def test_invalid_documents_same_results(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("schema 2.0", "app", spec(root, "cat"), SchemaVersion={"Major": 2, "Minor": 0})
        guest.call("not JSON", frames.CREATE, "app", text=False, ContainerConfig="{")
        guest.call("not a string", frames.CREATE, "app", text=False, ContainerConfig={})
        guest.call("wrong type", frames.WAIT_FOR_PROCESS, "app", text=False, ProcessId="one")
        guest.call("negative", frames.WAIT_FOR_PROCESS, "app", text=False, ProcessId=-1)
        guest.call("parameters", frames.EXECUTE_PROCESS, "app", text=False, Settings={"ProcessParameters": "["})
        guest.modify("no such resource", "Registry", "Add", {})
        guest.modify("settings", "VPMemDevice", "Add", {"DeviceNumber": "x"}, text=False)
        guest.modify("lun", "MappedVirtualDisk", "Add", {"Lun": 256}, text=False)
        document = spec(root, "cat", annotations={"io.kubernetes.cri.container-type": "pod"})
        guest.create("container type", "app", document)
        guest.create("after failures", "app", spec(root, "cat"))

    answers = compare(scenario)
    assert answers["schema 2.0"]["Result"] == "C037010D"
    assert answers["after failures"]["Result"] == "00000000"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("no-such-program", "executable file not found in $PATH"),
        ("/no/such/program", "no such file or directory"),
        ("/etc/passwd", "permission denied"),
    ],
)
def test_missing_program_of_init_same_text(program: str, text: str, compare: Callable[..., Any]) -> None:
    """One failed Create per VM: Microsoft's agent then removes the files of the container's root."""

    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, program))
        guest.call("unknown afterwards", frames.SHUTDOWN_FORCED, "app")

    answers = compare(scenario)
    assert text in answers["create"]["ErrorMessage"]
    assert answers["unknown afterwards"]["Result"] == "C037010E"


def test_working_directory_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        document = spec(root, "sh", "-c", "pwd; read line")
        document["process"]["cwd"] = "/made/by/the/guest"
        guest.create("create", "app", document)
        init = guest.start("app", StdIn=True, StdOut=True)
        guest.record("made", init.streams["StdOut"].recv(100))
        guest.run("mode", "app", "stat", "-c", "%a %u", "/made/by/the/guest")
        guest.refused_exec("missing in exec", "app", "pwd", cwd="/not/there")
        guest.refused_exec("relative", "app", "pwd", cwd="relative")
        guest.refused_exec("no arguments", "app")

    assert compare(scenario)["made"] == b"/made/by/the/guest\n"


def test_disks_same_errors(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.modify("no such pmem", "VPMemDevice", "Add", {"DeviceNumber": 9, "MountPath": "/run/layers/p9"})
        guest.modify("no request", "SCSIDevice", "Add", {"Lun": 0})
        guest.modify("update", "CombinedLayers", "Update", {"ContainerRootPath": "/run/x"})
        guest.modify("not mounted", "VPMemDevice", "Remove", {"DeviceNumber": 9, "MountPath": "/run/layers/p9"})
        guest.modify("no share", "MappedDirectory", "Remove", {"MountPath": "/run/nothing", "Port": 564})
        guest.modify("not unplugged", "SCSIDevice", "Remove", {"Lun": 44})
        guest.create("create", "app", spec(root, "sleep", "100"))
        guest.start("app")
        guest.modify("no target", "CombinedLayers", "Add", {"Layers": [{"Path": "/run/layers/p0"}]}, text=False)
        guest.modify("no layers", "CombinedLayers", "Add", {"ContainerRootPath": "/run/gcs/c/none/rootfs"})
        guest.vm.attach(1, make_scratch(guest.vm.directory / "empty.vhdx", formatted=False))
        disk = {"Lun": 1, "MountPath": "/run/disk"}
        guest.modify("not formatted", "MappedVirtualDisk", "Add", disk)
        guest.modify("unknown", "MappedVirtualDisk", "Add", disk | {"EnsureFilesystem": True, "Filesystem": "btrfs"})
        guest.modify("format", "MappedVirtualDisk", "Add", disk | {"EnsureFilesystem": True, "Filesystem": "ext4"})
        guest.modify("remove", "MappedVirtualDisk", "Remove", disk)
        guest.modify("read-only", "MappedVirtualDisk", "Add", disk | {"ReadOnly": True, "Options": ["ro", "rshared"]})
        command = (
            "while read s d t o r; do [ $d = /run/disk ] && echo $s $t $o; done </proc/mounts; echo no >/run/disk/x"
        )
        run = guest.vm.execute(guest.bridge, NULL, vm_process("sh", "-c", command), StdOut=True)
        guest.record("mounted", (run.read(), run.wait()))

    answers = compare(scenario)
    assert answers["mounted"] == (b"/dev/sdb ext4 ro,relatime,norecovery\n", 2)


def test_out_of_memory_same_exit(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        document = spec(root, "sh", "-c", "a=0123456789; while :; do a=$a$a; done")
        document["linux"]["resources"] = {"memory": {"limit": 16 << 20}}
        guest.create("create", "app", document)
        init = guest.start("app", StdOut=True)
        guest.record("exit", (init.read(), init.wait()))
        stats = ok(guest.bridge.call(frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["Statistics"]}'))
        guest.record("killed", json.loads(stats["Properties"])["LCOWMetrics"]["memory_oom_control"])

    answers = compare(scenario)
    assert answers["exit"] == (b"", 137)
    assert answers["killed"] == {"oom_kill": 1}


def test_vm_processes_same_results(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        run = guest.vm.execute(guest.bridge, NULL, vm_process("sh", "-c", "cat; pwd; exit 3"), StdIn=True, StdOut=True)
        run.streams["StdIn"].sendall(b"in\n")
        run.streams["StdIn"].shutdown(1)
        guest.record("run", (run.read(), run.wait()))
        guest.call("wait again", frames.WAIT_FOR_PROCESS, NULL, ProcessId=run.pid, TimeoutInMs=1)
        killed = guest.vm.execute(guest.bridge, NULL, vm_process("sh", "-c", "kill -9 $$"), StdOut=True)
        guest.record("killed", (killed.read(), killed.wait()))
        line = {"CommandLine": "sh -c 'echo \"$A\" $B'", "Environment": {"A": "a b", "B": "c"}}
        run = guest.vm.execute(guest.bridge, UNKNOWN, line | {"CreateInUtilityVM": True}, StdOut=True)
        run.container = NULL
        guest.record("line", run.read())
        console = vm_process("sh", "-c", "[ -t 0 ] && echo terminal") | {"EmulateConsole": True}
        run = guest.vm.execute(guest.bridge, NULL, console, StdIn=True, StdOut=True)
        guest.record("console", (run.read(), run.wait()))
        for label, arguments in (("missing", ["no-such-program"]), ("missing path", ["/no/such"])):
            settings = {"ProcessParameters": json.dumps({"CommandArgs": arguments})}
            guest.call(label, frames.EXECUTE_PROCESS, NULL, Settings=settings)

    answers = compare(scenario)
    assert answers["run"] == (b"in\n/\n", 3)
    assert answers["killed"] == (b"", 0xFFFFFFFF)


def test_refused_streams_same_error(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "cat"))
        settings = {"ProcessParameters": '{"CreateStdOutPipe":true}', "VsockStdioRelaySettings": {"StdOut": 0x40000077}}
        guest.call("nobody listens", frames.EXECUTE_PROCESS, "app", text=False, Settings=settings)
        init = guest.start("app", StdIn=True, StdOut=True)
        init.streams["StdIn"].shutdown(1)
        guest.record("works later", (init.read(), init.wait()))

    assert compare(scenario)["nobody listens"]["Result"] == "80004005"


def test_dump_stacks_same_members(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        answer = ok(guest.bridge.call(frames.DUMP_STACKS, ""))
        guest.record("members", sorted(answer))
        guest.record("text", bool(answer["GuestStacks"]))

    assert compare(scenario)["text"] is True


@pytest.mark.parametrize("guest", ["gcs", "emulated"])
@pytest.mark.parametrize("member", ["process", "root", "linux"])
def test_spec_without_required_member_ends_the_vm(
    guest: str, member: str, gcs: Path, emulator: Emulator, client: WireClient, tmp_path: Path
) -> None:
    vm = LinuxVm(emulator, client, tmp_path, guest)
    bridge = vm.booted()
    document = spec(vm.prepare(bridge, "app"), "cat")
    del document[member]
    config = {"SchemaVersion": documents.VERSION, "OciBundlePath": "/run/gcs/c/app", "OciSpecification": document}
    bridge.begin(frames.CREATE, "app", ContainerConfig=json.dumps(config))
    vm.wait_exited()
    vm.close()
