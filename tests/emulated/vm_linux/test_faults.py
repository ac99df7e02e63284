"""Faults of Linux guests, and what is left of a VM that ends badly: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hcs_emulator.vm import bridge_frames
from tests.support.emulator import Emulator, is_alive
from tests.support.eventually import eventually
from tests.support.linux_vm import NULL, LinuxVm, oci_process, spec, vm_process

CREATE, NEGOTIATE = "guest:Create", "guest:NegotiateProtocol"


def test_fault_fails_the_nth_request(linux_vm: LinuxVm, emulator: Emulator) -> None:
    bridge = linux_vm.booted()
    emulator.fault("guest:ModifySettings", nth=2, error=0xC0370109)
    layer = {"DeviceNumber": 0, "MountPath": "/run/layers/p0"}
    assert bridge.modify("VPMemDevice", "Remove", layer)["Result"] == 0
    failed = bridge.modify("VPMemDevice", "Remove", layer)
    assert failed["Result"] & 0xFFFFFFFF == 0xC0370109 and "fault 1" in failed["ErrorMessage"]
    assert bridge.modify("VPMemDevice", "Remove", layer)["Result"] == 0
    fault = emulator.control("fault-list")["faults"][0]
    assert fault["triggered"] == 1
    expected = ["0x00000000", "0xC0370109", "0x00000000"]

    def results() -> list[str]:
        return [entry["result"] for entry in emulator.journal("guest:ModifySettings")]

    eventually(lambda: results() == expected, "the journal of all requests")
    linux_vm.terminate()


def test_fault_crashes_the_guest(linux_vm: LinuxVm, emulator: Emulator) -> None:
    emulator.fault(NEGOTIATE, crash_vm=True)
    bridge = linux_vm.boot()
    with pytest.raises(ConnectionError):
        bridge.call(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    assert linux_vm.wait_exited()["ExitType"] == "UnexpectedExit"


def test_fault_leaves_a_request_unanswered(linux_vm: LinuxVm, emulator: Emulator) -> None:
    bridge = linux_vm.booted()
    emulator.fault("guest:DumpStacks", nth=1, no_answer=True)
    bridge.begin(bridge_frames.DUMP_STACKS, NULL)
    assert bridge.ok(bridge_frames.DUMP_STACKS, NULL)["GuestStacks"]
    eventually(lambda: len(emulator.journal("guest:DumpStacks")) == 1, "the journal of the answered request")
    linux_vm.terminate()


def test_fault_disconnects_the_bridge_and_the_guest_dials_again(linux_vm: LinuxVm, emulator: Emulator) -> None:
    emulator.fault(NEGOTIATE, nth=1, disconnect=True)
    bridge = linux_vm.boot()
    with pytest.raises(ConnectionError):
        bridge.call(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    again = linux_vm.accept_bridge()
    assert again.ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)["Version"] == 4
    linux_vm.terminate()


@pytest.mark.parametrize("when", ["before", "after"])
def test_fault_kills_the_process_that_listens(
    linux_vm: LinuxVm, emulator: Emulator, when: str, tmp_path: Path
) -> None:
    """The listener is a process of its own here, which answers nothing after its first request."""
    emulator.fault(NEGOTIATE, nth=1, kill_client=when)
    linux_vm.create()
    got = tmp_path / "answer"
    program = (
        "import socket, struct, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('ready', flush=True)\n"
        "c, _ = s.accept(); b = b'{\"MinimumVersion\": 4, \"MaximumVersion\": 4}'\n"
        "c.sendall(struct.pack('<IIQ', 0x10100B01, 16 + len(b), 0) + b)\n"
        "answer = c.recv(16); open(sys.argv[2], 'wb').write(answer); sys.stdin.read()\n"
    )
    path = emulator.directory / "hvsock" / linux_vm.runtime_id / "40000000-facb-11e6-bd58-64006a7986d3"
    command = [sys.executable, "-c", program, str(path), str(got)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
        assert listener.stdout is not None and listener.stdout.readline() == b"ready\n"
        for port in (1, 109):
            linux_vm.listen(port)
        linux_vm.serve_boot()
        linux_vm.start()
        assert listener.wait(60) == -signal.SIGKILL
    if when == "before":
        assert not got.exists()
    linux_vm.terminate()


@pytest.mark.parametrize("killed", ["worker", "init"])
def test_killed_vm_leaves_nothing(linux_vm: LinuxVm, emulator: Emulator, killed: str) -> None:
    bridge = linux_vm.booted()
    root = linux_vm.prepare(bridge, "app")
    linux_vm.create_container(bridge, "app", spec(root, "sleep", "600"))
    linux_vm.execute(bridge, "app")
    linux_vm.execute(bridge, "app", oci_process("sleep", "600"))
    worker = linux_vm.worker()
    processes = emulator.descendants()
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    os.kill(worker if killed == "worker" else int(children[0]), signal.SIGKILL)
    assert linux_vm.wait_exited()["ExitType"] == "UnexpectedExit"
    check_nothing_is_left(linux_vm, emulator, processes)


@pytest.mark.parametrize("paused", [False, True])
def test_vm_of_a_killed_service_leaves_nothing(linux_vm: LinuxVm, emulator: Emulator, paused: bool) -> None:
    bridge = linux_vm.booted()
    root = linux_vm.prepare(bridge, "app")
    linux_vm.create_container(bridge, "app", spec(root, "sleep", "600"))
    linux_vm.execute(bridge, "app")
    if paused:
        linux_vm.client.ok("HcsPauseComputeSystem", None, handle=linux_vm.handle)
    processes = emulator.descendants()
    emulator.process.kill()
    emulator.process.wait()
    check_nothing_is_left(linux_vm, emulator, processes)


def test_cgroups_of_a_killed_service_and_worker_are_removed_at_the_next_start(
    linux_vm: LinuxVm, emulator: Emulator
) -> None:
    bridge = linux_vm.booted()
    bridge.ok(bridge_frames.DUMP_STACKS, NULL)
    processes = emulator.descendants()
    worker = linux_vm.worker()
    emulator.process.send_signal(signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    emulator.process.kill()
    emulator.process.wait()
    eventually(lambda: not any(map(is_alive, processes)), "the exit of every process of the VM")
    assert emulator.vm_cgroups()
    emulator.restart()
    assert not emulator.vm_cgroups()


def check_nothing_is_left(vm: LinuxVm, emulator: Emulator, processes: list[int]) -> None:
    eventually(lambda: not any(map(is_alive, processes)), "the exit of every process of the VM")
    for disk in (vm.directory / "layer" / "layer.vhd", vm.directory / "app" / "sandbox.vhdx"):
        command = ["losetup", "-j", str(disk)]
        eventually(lambda command=command: not subprocess.check_output(command), f"the loop device of {disk}")
    eventually(lambda: not emulator.vm_cgroups(), "the removal of the VM's cgroups")
    assert str(vm.directory) not in Path("/proc/self/mountinfo").read_text()


def test_paused_vm_does_nothing_until_it_is_resumed(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    linux_vm.client.ok("HcsPauseComputeSystem", None, handle=linux_vm.handle)
    assert linux_vm.properties()["State"] == "Paused"
    number = bridge.begin(bridge_frames.DUMP_STACKS, NULL)
    linux_vm.client.ok("HcsResumeComputeSystem", None, handle=linux_vm.handle)
    assert bridge.finish(number)["Result"] == 0
    linux_vm.terminate()


def test_paused_vm_is_terminated(linux_vm: LinuxVm, emulator: Emulator) -> None:
    linux_vm.booted()
    linux_vm.client.ok("HcsPauseComputeSystem", None, handle=linux_vm.handle)
    processes = emulator.descendants()
    linux_vm.terminate()
    assert not any(map(is_alive, processes))


def test_vm_without_a_log_listener_stops(linux_vm: LinuxVm) -> None:
    """vsockexec cannot connect the agent's log, so that init ends."""
    linux_vm.create()
    linux_vm.listen(1)
    linux_vm.serve_boot(log=False)
    linux_vm.start()
    assert linux_vm.wait_exited()["ExitType"] == "UnexpectedExit"


def test_processes_of_the_vm_count_for_its_statistics(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    linux_vm.execute(bridge, NULL, vm_process("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).wait()
    statistics = linux_vm.properties("Statistics", "Memory")
    assert statistics["Statistics"]["Processor"]["TotalRuntime100ns"] > 0
    assert statistics["Memory"]["VirtualMachineMemory"]["AssignedMemory"] == 1024 * 256
    linux_vm.terminate()
