"""Hypervisor isolation with containerd.exe: containers in their own utility VM, and pods in a utility VM."""

from __future__ import annotations

from tests.support.eventually import eventually
from tests.wine.node import Node

ISOLATED = {"hyperv": {}}
FOREVER = "ping -t localhost"


def test_run(node: Node) -> None:
    done = node.run(node.new_name("vm"), "cmd /c echo out of the VM& exit 9", "--rm", windows=ISOLATED)
    assert b"out of the VM" in done.stdout, done.stdout.decode(errors="replace") + node.log()
    assert done.returncode == 9
    node.expect_clean()


def test_stdin_exec_and_kill(node: Node) -> None:
    name = node.new_name("vm")
    node.run_detached(name, FOREVER, windows=ISOLATED)
    assert node.tasks()[name] == "RUNNING"
    assert "second" in node.checked("task", "exec", "--exec-id", "two", name, "cmd", "/c", "echo second")
    output = node.checked("task", "exec", "--exec-id", "three", name, "cmd", "/c", "more", input=b"into the VM\r\n")
    assert "into the VM" in output
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_vm_pod_lifecycle(node: Node) -> None:
    """The sandbox is the VM, with the containers in it: one shim, and one compute system on the host."""
    pod = node.new_name("vmpod")
    members = [node.new_name("member"), node.new_name("member")]

    def annotations(kind: str) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": pod}

    node.run_detached(pod, FOREVER, windows=ISOLATED, annotations=annotations("sandbox"))
    for member in members:
        node.run_detached(member, FOREVER, windows=ISOLATED, annotations=annotations("container"))
    tasks = node.tasks()
    assert [tasks[name] for name in (pod, *members)] == ["RUNNING"] * 3
    assert len(node.shims()) == 1
    assert len(node.systems()) == 1
    assert "inside" in node.checked("task", "exec", "--exec-id", "e", members[1], "cmd", "/c", "echo inside")
    for member in members:
        node.kill(member)
        node.remove(member)
    node.kill(pod)
    node.remove(pod)
    node.expect_clean()


def test_sigkill_of_shim(node: Node) -> None:
    """The VM and its containers are terminated."""
    name = node.new_name("vm")
    node.run_detached(name, FOREVER, windows=ISOLATED)
    assert len(node.systems()) == 1
    pid = (node.bundle(name) / "shim.pid").read_text()
    assert node.machine.run("taskkill", "/f", "/pid", pid).returncode == 0
    eventually(lambda: name not in node.tasks(), "the removal of the task")
    eventually(lambda: node.bundles() == [], "the removal of the bundle")
    node.checked("container", "rm", name)
    node.expect_clean()
