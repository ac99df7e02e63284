"""Both Linux guests get the same messages. Where their answers differ, Microsoft's agent is right."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm import bridge_frames as frames
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.guest_transcript import Transcript
from tests.support.linux_image import make_scratch
from tests.support.linux_vm import NULL, LinuxVm, Process, oci_process, ok, spec, vm_process
from tests.support.wire_client import WireClient

Scenario = Callable[[Transcript], None]
UNKNOWN = "unknown"


@pytest.fixture
def compare(gcs: Path, emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run a scenario in a VM of each guest; fails unless the answers are equal. Returns them."""
    machines: list[LinuxVm] = []

    def run(scenario: Scenario, *, negotiate: bool = True) -> dict[str, Any]:
        transcripts = []
        for guest in ("gcs", "emulated"):
            directory = tmp_path / guest
            directory.mkdir()
            vm = LinuxVm(emulator, client, directory, guest)
            machines.append(vm)
            transcript = Transcript(vm, vm.booted() if negotiate else vm.boot())
            scenario(transcript)
            transcripts.append(transcript)
            vm.terminate()
            vm.close()
        first, second = transcripts
        for expected, answered in zip(first.entries, second.entries, strict=False):
            assert answered == expected, f"Microsoft's agent: {expected}\nthe emulator's: {answered}"
        assert len(second.entries) == len(first.entries)
        return dict(first.entries)

    yield run
    for vm in machines:
        vm.close()


# negotiation


def test_negotiation_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        guest.call("before", frames.START, "app")
        guest.call("old", frames.NEGOTIATE, "", MinimumVersion=1, MaximumVersion=3)
        guest.call("new", frames.NEGOTIATE, "", MinimumVersion=5, MaximumVersion=6)
        guest.call("negotiated", frames.NEGOTIATE, "", MinimumVersion=1, MaximumVersion=9)
        guest.call("again", frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
        guest.call("unknown procedure", 0x00109901, "")
        guest.call("of Windows guests", frames.UPDATE_CONTAINER, "app")

    answers = compare(scenario, negotiate=False)
    assert answers["before"]["Result"] == "80004001"
    assert answers["new"]["Result"] == "C037010C"
    assert answers["negotiated"]["Capabilities"]["GuestDefinedCapabilities"]["DumpStacksSupported"] is True


# one container


def test_container_lifecycle_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "cat"))
        guest.create("create again", "app", spec(root, "cat"))
        guest.call("start", frames.START, "app")
        init = guest.start("app", StdIn=True, StdOut=True, StdErr=True)
        guest.run("exec", "app", "sh", "-c", "echo out; exit 3")
        guest.run("environment", "app", "env", env=["PATH=/bin", "A=b"])
        guest.refused_exec("missing program", "app", "no-such-program")
        guest.call("stats", frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["Statistics"]}')
        guest.call("processes", frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["ProcessList"]}')
        guest.call("other property", frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["Memory"]}')
        guest.call("no query", frames.GET_PROPERTIES, "app", Query="")
        guest.call("resize without terminal", frames.RESIZE_CONSOLE, "app", ProcessId=init.pid, Height=1, Width=2)
        guest.call("timeout", frames.WAIT_FOR_PROCESS, "app", ProcessId=init.pid, TimeoutInMs=1)
        guest.call("delete while it runs", frames.GET_PROPERTIES, "app", Query="not JSON", text=False)
        init.streams["StdIn"].sendall(b"x" * 200_000)
        init.streams["StdIn"].shutdown(1)
        guest.record("output", init.read())
        guest.record("errors", init.read("StdErr"))
        guest.record("exit code", init.wait())
        guest.notification("notification", "app")
        guest.call("wait again", frames.WAIT_FOR_PROCESS, "app", ProcessId=init.pid, TimeoutInMs=0xFFFFFFFF)
        guest.call("signal exited", frames.SIGNAL_PROCESS, "app", ProcessId=init.pid, Options={"Signal": 15})
        guest.call("shut down exited", frames.SHUTDOWN_GRACEFUL, "app")
        guest.call("terminate exited", frames.SHUTDOWN_FORCED, "app")
        guest.vm.release(guest.bridge, "app")
        guest.call("delete", frames.DELETE_CONTAINER_STATE, "app")
        guest.call("delete again", frames.DELETE_CONTAINER_STATE, "app")

    answers = compare(scenario)
    assert answers["create again"]["Result"] == "C037010F"
    assert "executable file not found in $PATH" in answers["missing program"]["ErrorMessage"]
    assert answers["notification"]["Type"] == "UnexpectedExit"
    assert answers["output"] == b"x" * 200_000


@pytest.mark.parametrize(
    ("trapped", "options", "code", "kind"),
    [
        ("USR1", {"Signal": int(signal.SIGUSR1)}, 9, "UnexpectedExit"),
        ("TERM", {"Signal": int(signal.SIGTERM)}, 9, "GracefulExit"),
        ("TERM", {"Signal": int(signal.SIGKILL)}, 137, "ForcedExit"),
        ("TERM", None, 137, "ForcedExit"),
    ],
)
def test_signal_same_exit(
    trapped: str, options: dict[str, int] | None, code: int, kind: str, compare: Callable[..., Any]
) -> None:
    def scenario(guest: Transcript) -> None:
        init = start_with_trap(guest, trapped)
        guest.call("unknown process", frames.SIGNAL_PROCESS, "app", ProcessId=1, Options={"Signal": 15})
        guest.call("invalid signal", frames.SIGNAL_PROCESS, "app", ProcessId=init.pid, Options={"Signal": 99})
        members: dict[str, Any] = {} if options is None else {"Options": options}
        guest.call("signal", frames.SIGNAL_PROCESS, "app", ProcessId=init.pid, **members)
        init.read()
        guest.record("exit", init.wait())
        guest.notification("notification", "app")

    answers = compare(scenario)
    assert answers["exit"] == code
    assert answers["notification"]["Type"] == kind


@pytest.mark.parametrize(
    ("procedure", "code", "kind"),
    [(frames.SHUTDOWN_GRACEFUL, 9, "GracefulExit"), (frames.SHUTDOWN_FORCED, 137, "ForcedExit")],
)
def test_shutdown_same_exit(procedure: int, code: int, kind: str, compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        init = start_with_trap(guest, "TERM")
        guest.call("shut down", procedure, "app")
        init.read()
        guest.record("exit", init.wait())
        guest.notification("notification", "app")

    answers = compare(scenario)
    assert answers["exit"] == code
    assert answers["notification"]["Type"] == kind


def start_with_trap(guest: Transcript, name: str) -> Process:
    """A container whose init has installed its handler of a signal."""
    root = guest.vm.prepare(guest.bridge, "app")
    program = f"trap 'exit 9' {name}; echo; while :; do sleep 0.02; done"
    guest.create("create", "app", spec(root, "sh", "-c", program))
    init = guest.start("app", StdOut=True)
    assert init.streams["StdOut"].recv(1) == b"\n"
    return init


def test_delete_of_a_running_container_same_refusal(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "sleep", "100"))
        guest.start("app", StdOut=True)
        guest.call("delete", frames.DELETE_CONTAINER_STATE, "app", text=False)
        guest.call("delete again", frames.DELETE_CONTAINER_STATE, "app")

    answers = compare(scenario)
    assert answers["delete"]["Result"] != "00000000"
    assert answers["delete again"]["Result"] == "C037010E"


def test_created_container_never_started_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "cat"))
        guest.call("terminate", frames.SHUTDOWN_FORCED, "app")
        guest.vm.release(guest.bridge, "app")
        guest.call("delete", frames.DELETE_CONTAINER_STATE, "app", text=False)

    assert compare(scenario)["terminate"]["Result"] == "00000000"


def test_terminals_same_output(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        document = spec(root, "sh", "-c", "read line; echo got $line; exit 6")
        document["process"]["terminal"] = True
        guest.create("create", "app", document)
        init = guest.start("app", StdIn=True, StdOut=True)
        guest.call("resize", frames.RESIZE_CONSOLE, "app", ProcessId=init.pid, Height=30, Width=100)
        parameters = oci_process("sh", "-c", "read go; stty size 2>/dev/null; [ -t 0 ] && [ -t 1 ] && echo terminal")
        parameters["OciProcess"]["terminal"] = True
        run = guest.vm.execute(guest.bridge, "app", parameters, StdIn=True, StdOut=True)
        guest.call("resize exec", frames.RESIZE_CONSOLE, "app", ProcessId=run.pid, Height=31, Width=101)
        run.streams["StdIn"].sendall(b"go\n")
        guest.record("exec", (run.read(), run.wait()))
        init.streams["StdIn"].sendall(b"hello\n")
        guest.record("init", (init.read(), init.wait()))
        guest.notification("notification", "app")

    answers = compare(scenario)
    assert b"got hello\r\n" in answers["init"][0] and answers["init"][1] == 6
    assert b"terminal\r\n" in answers["exec"][0]


def test_interactive_streams_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "sh", "-c", "while read line; do echo $line; done"))
        init = guest.start("app", StdIn=True, StdOut=True)
        for line in (b"one\n", b"two\n"):
            init.streams["StdIn"].sendall(line)
            guest.record("echo", init.streams["StdOut"].recv(100))
        init.streams["StdIn"].shutdown(1)
        guest.record("rest", (init.read(), init.wait()))

    compare(scenario)


def test_kill_while_nobody_reads_the_output_same_exit(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        guest.create("create", "app", spec(root, "sh", "-c", "echo; while :; do echo 0123456789; done"))
        init = guest.start("app", StdOut=True)
        assert init.streams["StdOut"].recv(1, socket.MSG_PEEK) == b"\n"
        guest.call("kill", frames.SIGNAL_PROCESS, "app", ProcessId=init.pid, Options={"Signal": 9})
        guest.call("gone soon", frames.WAIT_FOR_PROCESS, "app", ProcessId=init.pid, TimeoutInMs=100)
        init.read()
        guest.record("exit", init.wait())

    answers = compare(scenario)
    assert answers["gone soon"]["Result"] == "C0370109"  # the answer waits for the rest of the output
    assert answers["exit"] == 137


def test_security_of_the_spec_same_enforcement(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        document = spec(root, "cat", hostname="box")
        document["process"]["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [7]}
        document["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 77, "hard": 77}]
        document["root"]["readonly"] = True
        document["linux"]["maskedPaths"] = ["/proc/cpuinfo"]
        document["linux"]["readonlyPaths"] = ["/proc/sys"]
        document["linux"]["seccomp"] = {
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
        }
        guest.create("create", "app", document)
        guest.start("app", StdIn=True, StdOut=True)
        guest.run(
            "capabilities",
            "app",
            "sh",
            "-c",
            "while read a b; do case $a in Cap*|NoNew*|Seccomp:) echo $a $b; esac; done </proc/1/status",
        )
        guest.run("root", "app", "sh", "-c", "touch /file 2>&1; cat /proc/cpuinfo; cat /proc/sys/kernel/hostname; id")
        guest.run("exec as user", "app", "id", user={"uid": 1000, "gid": 1000})
        guest.run("exec by name", "app", "id", user={"username": "user"})
        guest.run("limits", "app", "sh", "-c", "ulimit -n")
        guest.run("files", "app", "sh", "-c", "cat /etc/hostname /etc/hosts /etc/resolv.conf; touch /etc/hosts 2>&1")
        guest.run("seccomp", "app", "mkdir", "/dev/shm2")

    answers = compare(scenario)
    assert answers["limits"] == (0, "77\n")
    assert answers["seccomp"][0] != 0


def test_update_same_limits(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "app")
        document = spec(root, "sleep", "100")
        document["linux"]["resources"] = {"memory": {"limit": 64 << 20}, "cpu": {"period": 100000, "quota": -1}}
        guest.create("create", "app", document)
        guest.start("app")
        limit = {"memory": {"limit": 32 << 20}, "cpu": {"shares": 512}}
        guest.modify("update", "ContainerConstraints", "Update", {"Windows": {}, "Linux": limit}, "app")
        stats = ok(guest.bridge.call(frames.GET_PROPERTIES, "app", Query='{"PropertyTypes":["Statistics"]}'))
        guest.record("limit", json.loads(stats["Properties"])["LCOWMetrics"]["memory"]["usage"]["limit"])
        bad = {"memory": {"limit": 4096}}
        guest.modify("too small", "ContainerConstraints", "Update", {"Linux": bad}, "app", text=False)
        guest.modify("other resource", "Network", "Add", {}, "app")
        guest.modify("of the VM", "ContainerConstraints", "Update", {"Linux": limit})

    assert compare(scenario)["limit"] == 32 << 20


# failures


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


def test_special_mounts_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        guest.vm.attach(2, make_scratch(guest.vm.directory / "block.vhdx"))
        guest.modify("block device", "MappedVirtualDisk", "Add", {"Lun": 2, "MountPath": f"{root}/b", "BlockDev": True})
        labels = {
            "io.microsoft.container.lcow.tee-log-path": "app/log",
            "io.microsoft.container.lcow.tee-log-dir-mount": "/logs",
        }
        document = workload_spec(root, pid, "sh", "-c", "echo to the log; read line", **labels)
        document["mounts"] += [
            {"destination": "blockdev:///dev/disk", "type": "bind", "source": f"{root}/b", "options": ["bind", "ro"]},
            {"destination": "/huge", "type": "bind", "source": "hugepages://2M/app", "options": ["bind"]},
        ]
        guest.create("create", "app", document)
        init = guest.start("app", StdIn=True, StdOut=True)
        guest.record("output", init.streams["StdOut"].recv(100))
        guest.run("mounts", "app", "sh", "-c", "cat /logs/app/log; [ -b /dev/disk ] && head -c 4 /dev/disk | head -c 1")
        guest.run("huge", "app", "sh", "-c", "while read s d t o; do [ $d = /huge ] && echo $t; done </proc/mounts")

    answers = compare(scenario)
    assert answers["huge"] == (1, "hugetlbfs\n")
    assert answers["mounts"][1].startswith("to the log\n")


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


# pods


def sandbox_spec(guest: Transcript, root: str, **annotations: str) -> dict[str, Any]:
    labels = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod"}
    labels |= {"io.microsoft.cri.skip-pod-networking": "true"} | annotations
    return spec(root, "sleep", "1000", hostname="pod.example", annotations=labels)


def workload_spec(root: str, pid: int, *args: str, **annotations: str) -> dict[str, Any]:
    labels = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "pod"} | annotations
    document = spec(root, *args, annotations=labels)
    document["linux"]["namespaces"] = [
        {"type": "mount"},
        {"type": "pid"},
        *(
            {"type": name, "path": f"/proc/{pid}/ns/{file}"}
            for name, file in (("network", "net"), ("ipc", "ipc"), ("uts", "uts"))
        ),
    ]
    return document


def start_sandbox(guest: Transcript) -> int:
    root = guest.vm.prepare(guest.bridge, "pod", device=0, lun=0)
    guest.create("create sandbox", "pod", sandbox_spec(guest, root))
    return guest.start("pod").pid


def test_pod_same_answers(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "one", device=1, lun=1)
        guest.create("workload first", "one", workload_spec(root, 1, "cat"))
        pid = start_sandbox(guest)
        document = workload_spec(root, pid, "cat", **{"io.microsoft.lcow.shm.size-kb": "512"})
        guest.create("hostname", "one", document | {"hostname": "own"})
        document["process"]["user"] = {"username": "user"}
        document["mounts"] += [
            {"destination": "/shared", "type": "bind", "source": "sandbox:///data", "options": ["rbind"]},
            {"destination": "/fast", "type": "bind", "source": "sandbox-tmp:///data", "options": ["rbind"]},
            {"destination": "/vm", "type": "bind", "source": "uvm:///etc/hostname", "options": ["bind", "ro"]},
        ]
        guest.create("create", "one", document)
        init = guest.start("one", StdIn=True, StdOut=True)
        guest.run("user", "one", "id")
        guest.run("as root", "one", "id", user={"username": "0:0"})
        guest.run("unknown number", "one", "id", user={"username": "4242"})
        guest.refused_exec("unknown name", "one", "id", user={"username": "nobody-here"})
        guest.run("files", "one", "sh", "-c", "cat /etc/hostname /etc/hosts /etc/resolv.conf /vm")
        guest.run("names", "one", "sh", "-c", "cat /proc/sys/kernel/hostname")
        guest.run(
            "mounts",
            "one",
            "sh",
            "-c",
            "while read s d t o r; do case $d in /shared|/fast|/dev/shm) echo $d $t; esac; done </proc/mounts",
        )
        guest.run("write", "one", "sh", "-c", "echo 1 >/shared/a && echo 2 >/fast/b && stat -c %a /shared /fast")
        other = guest.vm.prepare(guest.bridge, "two", device=2, lun=2)
        second = workload_spec(other, pid, "sh", "-c", "cat /shared/a; readlink /proc/self/ns/net >/dev/null; exit 2")
        second["mounts"] += [
            {"destination": "/shared", "type": "bind", "source": "sandbox:///data", "options": ["rbind"]}
        ]
        guest.create("create two", "two", second)
        run = guest.start("two", StdOut=True)
        guest.record("two", (run.read(), run.wait()))
        guest.notification("exit of two", "two")
        guest.call("stats", frames.GET_PROPERTIES, "one", Query='{"PropertyTypes":["Statistics"]}')
        init.streams["StdIn"].shutdown(1)
        guest.record("one", (init.read(), init.wait()))
        for name, device in (("one", 1), ("two", 2)):
            guest.vm.release(guest.bridge, name, device=device, lun=device)
            guest.call(f"delete {name}", frames.DELETE_CONTAINER_STATE, name)
        guest.call("kill sandbox", frames.SIGNAL_PROCESS, "pod", ProcessId=pid)
        guest.call("wait", frames.WAIT_FOR_PROCESS, "pod", ProcessId=pid, TimeoutInMs=0xFFFFFFFF)
        guest.notification("exit of the sandbox", "pod")
        guest.call("delete sandbox with its disk", frames.DELETE_CONTAINER_STATE, "pod", text=False)

    answers = compare(scenario)
    assert "pod pod does not exist" in answers["workload first"]["ErrorMessage"]
    assert "must not change hostname" in answers["hostname"]["ErrorMessage"]
    assert answers["user"] == (0, "uid=1000(user) gid=1000(user) groups=1000(user)\n")
    assert answers["two"] == (b"1\n", 2)


def test_mount_prefixes_same_refusals(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        for label, source in (
            ("escape", "sandbox://../../../etc"),
            ("escape tmpfs", "sandbox-tmp://../x"),
            ("missing", "uvm:///no/such/file"),
            ("hugepages", "hugepages://../x"),
        ):
            document = workload_spec(root, pid, "cat")
            document["mounts"] += [{"destination": "/x", "type": "bind", "source": source, "options": ["rbind"]}]
            guest.create(label, "app", document)
        for label, value in (("shm text", "many"), ("shm zero", "0")):
            guest.create(label, "app", workload_spec(root, pid, "cat", **{"io.microsoft.lcow.shm.size-kb": value}))
        for label, value in (("core", "1"), ("core text", "a;2")):
            guest.create(label, "app", workload_spec(root, pid, "cat", **{"io.microsoft.lcow.rlimitcore": value}))
        document = workload_spec(root, pid, "cat")
        document["linux"]["devices"] = [{"path": "/dev/no-such", "type": "c", "major": 1, "minor": 3}]
        guest.create("device", "app", document)
        document = workload_spec(root, pid, "cat")
        document["windows"] = {"devices": [{"id": "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01", "idType": "gpu"}]}
        guest.create("GPU", "app", document)
        document = workload_spec(root, pid, "cat")
        document["process"]["user"] = {"username": "a:b:c"}
        guest.create("user", "app", document)

    answers = compare(scenario)
    assert "is not within sandbox's mounts dir" in answers["escape"]["ErrorMessage"]


def test_shared_pid_namespace_same_end(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        document = workload_spec(root, pid, "sh", "-c", "sleep 1000 & exit 5")
        document["linux"]["namespaces"] = [{"type": "mount"}, {"type": "pid", "path": f"/proc/{pid}/ns/pid"}]
        guest.create("create", "app", document)
        init = guest.start("app", StdOut=True)
        guest.record("exit", (init.read(), init.wait()))

    assert compare(scenario)["exit"] == (b"", 5)


def test_privileged_and_devices_same_nodes(compare: Callable[..., Any]) -> None:
    def scenario(guest: Transcript) -> None:
        pid = start_sandbox(guest)
        root = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        label = {"io.microsoft.virtualmachine.lcow.privileged": "true"}
        guest.create("privileged", "app", workload_spec(root, pid, "cat", **label))
        guest.start("app", StdIn=True)
        guest.run("nodes", "app", "sh", "-c", "ls /dev; head -c 4 /dev/pmem0 >/dev/null && echo read")
        other = guest.vm.prepare(guest.bridge, "two", device=2, lun=2)
        document = workload_spec(other, pid, "cat")
        document["linux"]["devices"] = [{"path": "/dev/pmem0", "type": "b", "major": 1, "minor": 1}]
        guest.create("device", "two", document)
        guest.start("two", StdIn=True)
        guest.run("one node", "two", "sh", "-c", "ls /dev; head -c 4 /dev/pmem0 >/dev/null && echo read")

    answers = compare(scenario)
    assert answers["one node"][1].endswith("read\n")


# network


def test_network_same_configuration(compare: Callable[..., Any]) -> None:
    namespace, nic = "5d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b01", "6d1f4d9c-3a10-4d0d-8a6c-4f9f2f6f7b02"

    def scenario(guest: Transcript) -> None:
        root = guest.vm.prepare(guest.bridge, "pod")
        document = sandbox_spec(guest, root, **{"io.microsoft.cri.skip-pod-networking": ""})
        document["windows"] = {"network": {"networkNamespace": namespace.upper()}}
        guest.create("unknown namespace", "pod", document)
        guest.vm.add_adapter(nic)
        settings = {
            "NamespaceID": namespace,
            "ID": nic.upper(),
            "MacAddress": "00-15-5D-00-00-01",
            "DNSSuffix": "a.local,b.local",
            "DNSServerList": "10.0.0.10,10.0.0.11",
            "EncapOverhead": 50,
            "IPConfigs": [{"IPAddress": "10.1.2.3", "PrefixLength": 24}],
            "Routes": [
                {"NextHop": "10.1.2.1", "DestinationPrefix": "0.0.0.0/0"},
                {"NextHop": "10.9.9.9", "DestinationPrefix": "10.7.0.0/16"},
            ],
        }
        guest.modify("add", "Network", "Add", settings)
        guest.modify("add again", "Network", "Add", settings)
        guest.create("create", "pod", document)
        guest.start("pod")
        guest.run("routes", "pod", "sh", "-c", "while read i d g f r; do echo $i $d $g $f; done </proc/net/route")
        guest.run("addresses", "pod", "cat", "/proc/net/fib_trie")
        guest.run("mtu", "pod", "sh", "-c", "cat /sys/class/net/*/mtu")
        app = guest.vm.prepare(guest.bridge, "app", device=1, lun=1)
        pid = json.loads(
            ok(guest.bridge.call(frames.GET_PROPERTIES, "pod", Query='{"PropertyTypes":["ProcessList"]}'))["Properties"]
        )["ProcessList"][0]["ProcessId"]
        guest.create("create app", "app", workload_spec(app, pid, "cat"))
        guest.start("app", StdIn=True)
        guest.run("files", "app", "cat", "/etc/hosts", "/etc/hostname")
        resolver = guest.vm.execute(guest.bridge, "app", oci_process("cat", "/etc/resolv.conf"), StdOut=True)
        # Microsoft's guest writes the search domains in any order.
        guest.record("resolver", sorted(resolver.read().decode().split()))
        resolver.wait()
        guest.modify("remove", "Network", "Remove", {"NamespaceID": namespace, "ID": nic})
        guest.modify("remove again", "Network", "Remove", {"NamespaceID": namespace, "ID": nic})
        guest.modify("unknown", "Network", "Remove", {"NamespaceID": UNKNOWN, "ID": nic})

    answers = compare(scenario)
    assert answers["unknown namespace"]["Result"] == "80070490"
    assert "1450" in answers["mtu"][1]
    assert answers["resolver"] == ["10.0.0.10", "10.0.0.11", "a.local", "b.local", "nameserver", "nameserver", "search"]


# protocol violations


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
