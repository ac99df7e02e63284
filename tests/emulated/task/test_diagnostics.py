"""Microsoft's ShimDiag service and Inspect, over ttrpc, for containers with and without a VM."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from shim.api import shimdiag as api
from shim.api.inspect import InspectRequest, InspectResponse
from shim.api.wire import Message
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shims import Shim, Shims, refused
from tests.support.vm_image import SLEEP, VmShims, fifo

SERVICE = "containerd.runhcs.v1.diag.ShimDiag"


@pytest.fixture
def shim(shims: Shims) -> Shim:
    """A running container without a VM."""
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    return shim


def ask(shim: Shim, method: str, request: Message, timeout: float = 60) -> bytes:
    return shim.client.call(SERVICE, method, request.encode(), timeout=timeout)


def run(shim: Shim, *args: str, **fields: Any) -> int:
    answer = ask(shim, "DiagExecInHost", api.ExecProcessRequest(args=list(args), **fields))
    return api.ExecProcessResponse.decode(answer).exit_code


def inspect(shim: Shim, properties: bool = False) -> dict[str, Any]:
    request = InspectRequest(properties=properties).encode()
    answer = shim.client.call("runhcs.inspect.v1.Inspect", "Shim", request, timeout=60)
    found: dict[str, Any] = json.loads(InspectResponse.decode(answer).json)
    return found


def pipe(shims: Shims, name: str) -> str:
    path = str(shims.directory / name)
    os.mkfifo(path)
    return path


# Without a VM.


def test_diag_pid(shim: Shim) -> None:
    assert api.PidResponse.decode(ask(shim, "DiagPid", api.PidRequest())).pid == shim.pid


def test_diag_tasks_with_execs(shim: Shim, shims: Shims) -> None:
    for name in ("e1", "e2", "e3"):
        shim.exec(name, shims.process(*(SLEEP if name == "e1" else ("cmd", "/c", "exit 3"))))
    shim.start("e1")
    shim.start("e2")
    shim.wait("e2")
    answer = api.TasksResponse.decode(ask(shim, "DiagTasks", api.TasksRequest(execs=True)))
    assert [task.id for task in answer.tasks] == ["c1"]
    states = {one.id: one.state for one in answer.tasks[0].execs}
    assert states == {"e1": "running", "e2": "exited", "e3": "created"}
    answer = api.TasksResponse.decode(ask(shim, "DiagTasks", api.TasksRequest()))
    assert [(task.id, task.execs) for task in answer.tasks] == [("c1", [])]


def test_diag_tasks_before_create(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    assert api.TasksResponse.decode(ask(shim, "DiagTasks", api.TasksRequest(execs=True))).tasks == []
    refused(status.NOT_FOUND, run, shim, "true")
    assert inspect(shim)["tasks"] == []


def test_diag_stacks_of_all_threads(shim: Shim) -> None:
    answer = api.StacksResponse.decode(ask(shim, "DiagStacks", api.StacksRequest()))
    assert answer.guest_stacks == ""
    assert answer.stacks.count("thread ") >= 3  # the main thread, the relay of streams, readers, the one that answers
    assert "shim/commands/serve.py" in answer.stacks and "in serve" in answer.stacks
    assert "in all_threads" in answer.stacks and "this one answers" in answer.stacks


def test_diag_stacks_while_start_hangs(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.create(rootfs=shims.rootfs())
    other = Shim(shims, "c1", shim.path, shim.address)
    starting = threading.Thread(target=other.start)
    os.kill(emulator.pid, signal.SIGSTOP)  # HCS hangs for as long as this takes
    try:
        starting.start()
        eventually(
            lambda: "in ComputeSystem.start" in api.StacksResponse.decode(
                ask(shim, "DiagStacks", api.StacksRequest())
            ).stacks,
            "the thread that hangs in the start",
        )  # fmt: skip
    finally:
        os.kill(emulator.pid, signal.SIGCONT)
    starting.join(60)


def test_exec_on_host(shim: Shim, shims: Shims) -> None:
    stdout, stderr = pipe(shims, "out"), pipe(shims, "err")
    out, err = Reader(stdout), Reader(stderr)
    where = shims.directory / "work"
    where.mkdir()
    script = "pwd; echo hello; echo oops >&2; exit 5"
    assert run(shim, "sh", "-c", script, workdir=str(where), stdout=stdout, stderr=stderr) == 5
    assert out.text().split() == [str(where), "hello"]
    assert err.text().strip() == "oops"
    shims.events.expect(["create c1", "start c1"], "c1")  # it belongs to no task


def test_exec_on_host_with_stdin(shim: Shim, shims: Shims) -> None:
    stdin, stdout = pipe(shims, "in"), pipe(shims, "out")
    out = Reader(stdout)
    writer = threading.Thread(target=lambda: Path(stdin).write_text("through and back\n"))
    writer.start()
    assert run(shim, "cat", stdin=stdin, stdout=stdout) == 0
    writer.join(60)
    assert out.text() == "through and back\n"


def test_exec_on_host_with_terminal(shim: Shim, shims: Shims) -> None:
    stdin, stdout = pipe(shims, "in"), pipe(shims, "out")
    out = Reader(stdout)
    keep = os.open(stdin, os.O_RDWR)
    assert run(shim, "sh", "-c", "tty && tty < /dev/tty", stdin=stdin, stdout=stdout, terminal=True) == 0
    os.close(keep)
    assert out.text().count("/dev/pts/") == 1 and "/dev/tty" in out.text()
    refused(status.FAILED_PRECONDITION, run, shim, "true", terminal=True, stdout=stdout, stderr=stdout)


def test_invalid_exec_on_host_is_refused(shim: Shim) -> None:
    assert "program" in refused(status.INVALID_ARGUMENT, run, shim)
    assert "no-such-program" in refused(status.INVALID_ARGUMENT, run, shim, "no-such-program")
    assert "directory" in refused(status.INVALID_ARGUMENT, run, shim, "true", workdir="/no/such/place")
    assert run(shim, "sh", "-c", "kill -9 $$") == 128 + signal.SIGKILL


def test_closed_connection_kills_exec_on_host(shim: Shim, shims: Shims) -> None:
    pid_file = shims.directory / "pid"
    request = api.ExecProcessRequest(args=["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"]).encode()
    client = shim.dial()

    def call() -> None:
        with pytest.raises(Exception):  # noqa: B017 - the connection is closed under it
            client.call(SERVICE, "DiagExecInHost", request, timeout=60)

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), "the process")
    client.close()
    thread.join(60)
    pid = int(pid_file.read_text())
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the process")


def test_share_without_vm_is_refused(shim: Shim, shims: Shims) -> None:
    request = api.ShareRequest(host_path=str(shims.directory), uvm_path="C:\\shared")
    assert "no running utility VM" in refused(status.FAILED_PRECONDITION, ask, shim, "DiagShare", request)


def test_inspect_returns_the_whole_state(shim: Shim, shims: Shims, emulator: Emulator) -> None:
    shim.exec("e1", shims.process(*SLEEP))
    found = inspect(shim, properties=True)
    assert found["namespace"] == "tests" and found["id"] == "c1" and found["pid"] == shim.pid
    assert found["address"] == shim.address and found["bundle"] == str(shim.path) and found["vm"] is None
    assert found["hcs"] == str(emulator.directory) and found["creating"] == []
    task = found["tasks"][0]
    assert task["state"] == "running" and task["pid"] == shim.state().pid and task["exit_status"] is None
    assert task["properties"]["Id"] == "c1" and task["properties"]["State"] == "Running"
    assert [(one["id"], one["state"]) for one in task["execs"]] == [("e1", "created")]


# In a VM.


def test_exec_in_vm(vms: VmShims) -> None:
    pod = vms.pod()
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    assert run(pod, "cmd", "/c", "hostname & whoami & exit 4", stdout=stdout) == 4
    assert out.text().lower().split() == ["utilityvm", "nt", "authority\\system"]
    refused(status.UNKNOWN, run, pod, "no-such-program.exe")


def test_diag_stacks_of_guest(vms: VmShims) -> None:
    pod = vms.pod()
    answer = api.StacksResponse.decode(ask(pod, "DiagStacks", api.StacksRequest()))
    assert "in serve" in answer.stacks and "GuestService" in answer.guest_stacks
    found = inspect(pod, properties=True)
    assert found["is_sandbox"] and found["vm"]["id"] == "pod@vm" and found["vm"]["settings"]["processors"] > 0
    assert found["vm"]["properties"]["State"] == "Running"


def test_diag_stacks_with_hanging_guest(vms: VmShims) -> None:
    pod = vms.pod()
    worker = vms.workers()[0]
    os.kill(worker, signal.SIGSTOP)
    try:
        answer = api.StacksResponse.decode(ask(pod, "DiagStacks", api.StacksRequest()))
    finally:
        os.kill(worker, signal.SIGCONT)
    assert "in serve" in answer.stacks and "no guest stacks" in answer.guest_stacks
    assert run(pod, "cmd", "/c", "exit 0") == 0  # and the VM is not given up for it


def test_share_directory_with_vm(vms: VmShims) -> None:
    pod = vms.pod()
    shared = vms.directory / "shared"
    shared.mkdir()
    (shared / "note.txt").write_text("from the host")
    first = api.ShareRequest(host_path=str(shared), uvm_path="C:\\First")
    ask(pod, "DiagShare", first)
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    assert run(pod, "cmd", "/c", "type C:\\First\\note.txt & echo back > C:\\First\\answer.txt", stdout=stdout) == 0
    assert out.text().strip() == "from the host" and (shared / "answer.txt").read_text().strip() == "back"
    # The VM's own processes run already: they see what comes later, too.
    ask(pod, "DiagShare", api.ShareRequest(host_path=str(shared), uvm_path="C:\\Second", read_only=True))
    stdout = fifo(vms, "out2")
    out = Reader(stdout)
    assert run(pod, "cmd", "/c", "type C:\\Second\\note.txt", stdout=stdout) == 0
    assert out.text().strip() == "from the host"
    run(pod, "cmd", "/c", "echo no > C:\\Second\\refused.txt")
    assert not (shared / "refused.txt").exists()


def test_invalid_share_is_refused(vms: VmShims) -> None:
    pod = vms.pod()
    missing = api.ShareRequest(host_path="/no/such/place", uvm_path="C:\\x")
    assert "/no/such/place" in refused(status.INVALID_ARGUMENT, ask, pod, "DiagShare", missing)
    relative = api.ShareRequest(host_path=str(vms.directory), uvm_path="x")
    assert "absolute" in refused(status.INVALID_ARGUMENT, ask, pod, "DiagShare", relative)
    os.kill(vms.workers()[0], signal.SIGKILL)
    pod.wait()
    request = api.ShareRequest(host_path=str(vms.directory), uvm_path="C:\\x")
    refused(status.FAILED_PRECONDITION, ask, pod, "DiagShare", request)
    refused(status.FAILED_PRECONDITION, run, pod, "cmd")
    answer = api.StacksResponse.decode(ask(pod, "DiagStacks", api.StacksRequest()))
    assert "has exited" in answer.guest_stacks
