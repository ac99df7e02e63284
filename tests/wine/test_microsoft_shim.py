"""Microsoft's shim and ours in the same scenarios with the same emulator, with the same results.

That Microsoft's unmodified shim passes shows that the emulator behaves like HCS. Intended differences are in DIFFERENT,
with their reason.
"""

from __future__ import annotations

import shutil
import uuid
from typing import Any

import pytest

from tests.wine.conftest import Machine, go_programs

CREATED, RUNNING, STOPPED = 1, 2, 3
UNKNOWN, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION = 2, 5, 6, 9
TERMINATED = 0xFFFFFFFF
# Microsoft's shim creates the compute system again, and HCS refuses the id.
DIFFERENT = {"ours": {"create again": ALREADY_EXISTS}, "go": {"create again": UNKNOWN}}
PROGRAM = "containerd-shim-runhcs-v1.exe"


@pytest.fixture(params=["ours", "go"])
def shim(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def drive(shim: str, machine: Machine) -> Any:
    """Runs a scenario with either shim."""
    program = rf"C:\node\{PROGRAM}"
    if shim == "go":
        directory = machine.drive / "hcsshim"
        if not directory.exists():
            directory.mkdir()
            shutil.copy(go_programs("hcsshim") / PROGRAM, directory)
        program = rf"C:\hcsshim\{PROGRAM}"
    return lambda scenario: machine.drive_shim(scenario, program)


def test_lifecycle(drive: Any) -> None:
    result = drive("lifecycle")
    assert result["address"] == r"\\.\pipe\ProtectedPrefix\Administrators\containerd-shim-wine-lifecycle-pipe"
    assert (result["text"], result["stderr"]) == ("hello from windows\r\n", "")
    assert result["status"] == result["deleted"] == 70000
    assert result["response"] > 0
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert result["exited"]


def test_state_and_events_at_every_step(drive: Any, shim: str) -> None:
    result = drive("steps")
    assert result["shim_pid"] > 0
    assert result["states"] == [CREATED, RUNNING, STOPPED]
    assert result["pids"] == [result["pid"]]
    assert result["stats"] == "containerd.runhcs.stats.v1.Statistics"
    assert result["again"] == [DIFFERENT[shim]["create again"], FAILED_PRECONDITION, FAILED_PRECONDITION]
    assert result["status"] == 0xC000013A  # the exit code of the default handler of a console event
    assert result["deleted"] == [result["pid"], result["status"]]
    assert result["events"] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert result["exited"]


def test_delete_without_start(drive: Any) -> None:
    assert drive("delete_without_start") == {"refused": 0, "exited": True}


def test_missing_program_and_layer(drive: Any) -> None:
    result = drive("missing_program_and_layers")
    assert result["started"] == UNKNOWN
    assert result["deleted"] == 0
    assert result["created"] == UNKNOWN
    assert result["exited"] == [True, True]


def test_client_without_cpu(drive: Any, shim: str) -> None:
    """Microsoft's shim gives the whole output one second after the exit. Whether it loses output of a client that is
    only slow depends on the speed of the program."""
    (paused, written), (slow, written_slowly) = drive("client_without_cpu")
    if shim == "ours":
        assert (paused, slow) == (written, written_slowly)
    else:
        assert paused < written


def test_execs(drive: Any) -> None:
    result = drive("execs")
    assert result["found"] == [[number, f"out {number}", "err", number] for number in range(3)]
    assert result["early"] == FAILED_PRECONDITION
    assert (result["killed"], result["state"]) == (TERMINATED, STOPPED)
    assert result["deleted_exec"] == NOT_FOUND
    assert result["running"] == RUNNING
    assert result["exited"]


def expect_pod(result: dict[str, Any]) -> None:
    assert result["outputs"] == ["from 1", "from 2"]
    assert result["statuses"] == [1, 2]
    assert result["same"], "the pod's containers are served by its sandbox's shim"
    assert result["state"] == RUNNING
    topics = ("create", "delete", "exit", "start")
    assert result["events"] == [f"/tasks/{topic}" for topic in topics for _ in range(3)]
    assert result["exited"]


def test_process_pod(drive: Any) -> None:
    result = drive("pod")
    assert result["pid"] > 1
    expect_pod(result)


def test_vm_container(drive: Any) -> None:
    result = drive("hypervisor")
    assert result["second"] == [5, "second"]
    assert result["pid"] in result["pids"]
    assert result["text"] == "through the VM"
    assert result["status"] == result["deleted"] == 7
    ends = ["/tasks/exit", "/tasks/delete"]
    assert result["events"] == [
        "/tasks/create",
        "/tasks/start",
        "/tasks/exec-added",
        "/tasks/exec-started",
        *ends,
        *ends,
    ]
    assert result["exited"]
    # Programs of the host reach its Hyper-V sockets, as long as it exists.
    [[name, data]], [vm] = result["addresses"], result["vms"]
    system = uuid.UUID(name)
    assert name == f"{{{system}}}"
    assert bytes.fromhex(data) == system.bytes_le + uuid.UUID(vm).bytes_le + bytes(16) + b"\1\0\0\0"
    assert result["addresses left"] == []


def test_vm_pod(drive: Any) -> None:
    result = drive("hypervisor_pod")
    assert result["pid"] == 1  # the sandbox is the VM itself
    expect_pod(result)
