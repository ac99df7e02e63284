"""Containers: both Linux guests get the same messages. Where their answers differ, Microsoft's agent is right."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest

from hcs_emulator.vm import bridge_frames as frames
from tests.support.guest_transcript import Transcript
from tests.support.linux_vm import Process, oci_process, ok, spec

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
