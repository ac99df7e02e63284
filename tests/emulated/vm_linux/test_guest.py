"""The life of containers in a Linux VM, by bridge messages alone."""

from __future__ import annotations

import socket

from hcs_emulator.vm import bridge_frames
from tests.support.guest_host import LoopbackListener
from tests.support.linux_vm import NULL, LinuxVm, oci_process, spec, vm_process


def test_guest_negotiates(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.boot()
    answer = bridge.ok(bridge_frames.NEGOTIATE, "", MinimumVersion=4, MaximumVersion=4)
    assert answer["Version"] == 4
    assert answer["Capabilities"]["RuntimeOsType"] == "Linux"
    assert linux_vm.properties()["RuntimeOsType"] == "Linux"
    linux_vm.terminate()


def test_guest_runs_a_process_of_the_vm(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    process = linux_vm.execute(bridge, NULL, vm_process("sh", "-c", "echo $$; exit 3"), StdOut=True)
    assert process.read().strip().isdigit()
    assert process.wait() == 3
    linux_vm.terminate()


def test_guest_runs_a_container(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    root = linux_vm.prepare(bridge, "app")
    linux_vm.create_container(bridge, "app", spec(root, "cat"))
    init = linux_vm.execute(bridge, "app", StdIn=True, StdOut=True)
    run = linux_vm.execute(bridge, "app", oci_process("sh", "-c", "echo out; echo err >&2; exit 3"), StdOut=True)
    assert run.read() == b"out\n"
    assert run.wait() == 3
    init.streams["StdIn"].sendall(b"through the container")
    init.streams["StdIn"].shutdown(1)
    assert init.read() == b"through the container"
    assert init.wait() == 0
    assert bridge.wait_notification("app")["Type"] == "UnexpectedExit"
    linux_vm.release(bridge, "app")
    bridge.ok(bridge_frames.DELETE_CONTAINER_STATE, "app")
    linux_vm.terminate()


def test_process_exits_while_its_input_is_open(linux_vm: LinuxVm) -> None:
    bridge = linux_vm.booted()
    root = linux_vm.prepare(bridge, "app")
    linux_vm.create_container(bridge, "app", spec(root, "sh", "-c", "exit 4"))
    init = linux_vm.execute(bridge, "app", StdIn=True, StdOut=True)
    assert init.read() == b""
    assert init.wait() == 4
    linux_vm.release(bridge, "app")
    bridge.ok(bridge_frames.DELETE_CONTAINER_STATE, "app")
    linux_vm.terminate()


def test_guest_of_a_host_under_wine_runs_a_process(linux_vm: LinuxVm) -> None:
    linux_vm.listener = LoopbackListener
    bridge = linux_vm.booted()
    process = linux_vm.execute(bridge, NULL, vm_process("cat"), StdIn=True, StdOut=True)
    process.streams["StdIn"].sendall(b"x" * 200_000)
    process.streams["StdIn"].shutdown(socket.SHUT_WR)
    assert process.read() == b"x" * 200_000
    assert process.wait() == 0
    linux_vm.terminate()
