"""containerd stops, by SIGTERM or SIGKILL, while containers run, and starts again.

The recovery differs (1.6 calls only Connect on a shim, later versions also Pids), the result does not: all tasks are
listed, can be waited for, read from and killed, and an exit during the outage is published with its exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.containerd.node import Node
from tests.support.eventually import eventually

StopContainerd = Callable[[Node], None]

STOPS = {"terminated": lambda node: node.containerd.terminate(), "killed": lambda node: node.containerd.kill()}


@pytest.fixture(params=list(STOPS))
def stop_containerd(request: pytest.FixtureRequest) -> StopContainerd:
    """Stops the containerd of a node, by SIGTERM or SIGKILL."""
    return STOPS[request.param]


def start_containerd_again(node: Node) -> None:
    node.containerd.start()
    node.events.start()


def gated(node: Node, directory: Path, script: str) -> dict[str, object]:
    """A spec whose process waits for `directory/open` before it runs the script, `directory` being at C:\\gate."""
    wait = "touch /gate/up; while [ ! -e /gate/open ]; do sleep 0.05; done; "
    return node.spec("sh", "-c", wait + script, mounts=[{"source": str(directory), "destination": "C:\\gate"}])


def test_running_tasks_survive_containerd_restart(own_node: Node, stop_containerd: StopContainerd) -> None:
    node = own_node
    names = [node.name() for _ in range(3)]
    for name in names:
        node.detach(name)
    node.ctr("task", "exec", "--detach", "--exec-id", "e1", names[0], "ping", "-t", "localhost")
    shims = [node.shim_pid(name) for name in names]
    before = {name: node.ctr("task", "ps", name).stdout.split() for name in names}
    stop_containerd(node)
    start_containerd_again(node)
    assert node.tasks() == dict.fromkeys(names, "RUNNING")
    assert [node.shim_pid(name) for name in names] == shims
    assert {name: node.ctr("task", "ps", name).stdout.split() for name in names} == before
    assert node.exec(names[0], "e2", "cmd", "/c", "echo still & exit 5").stdout.split() == ["still"]
    node.ctr("task", "metrics", names[1])
    with node.client() as tasks:
        statuses: list[int] = []
        waiting = threading.Thread(target=lambda: statuses.append(tasks.wait(names[0]).status))
        waiting.start()
        tasks.kill(names[0], 9)
        waiting.join(60)
        assert statuses and statuses[0] != 0
        assert tasks.delete_task(names[0]).status == statuses[0]
    node.ctr("container", "rm", names[0])
    expected = [f"create {names[0]}", f"start {names[0]}", "exec-added e1", "exec-started e1"]
    expected += ["exec-added e2", "exec-started e2", "exit e2", "delete e2"]
    node.events.expect(names[0], [*expected, "exit e1", f"exit {names[0]}", f"delete {names[0]}"])
    for name in names[1:]:
        node.remove(name)
    node.expect_clean()


def test_exit_during_containerd_outage_keeps_its_code(
    own_node: Node, stop_containerd: StopContainerd, tmp_path: Path
) -> None:
    node = own_node
    name = node.name()
    node.ctr(*node.run_arguments(name, gated(node, tmp_path, "exit 42"), "-d", "--null-io"))
    eventually((tmp_path / "up").exists, "the process")
    stop_containerd(node)
    (tmp_path / "open").touch()
    eventually(lambda: not node.emulator.descendants(), "the exit of the process")
    start_containerd_again(node)
    assert node.tasks() == {name: "STOPPED"}
    with node.client() as tasks:
        assert tasks.state(name).exit_status == 42
        assert tasks.wait(name).status == 42
        assert tasks.delete_task(name).status == 42
    # The shim kept the event until containerd was up again.
    eventually(lambda: f"delete {name}" in node.events.received(name), f"delete event in {node.events.received(name)}")
    assert dict(node.events.with_fields(name))["delete"]["exit_status"] == 42
    node.ctr("container", "rm", name)
    node.expect_clean()


def test_output_continues_during_containerd_outage(
    own_node: Node, stop_containerd: StopContainerd, tmp_path: Path
) -> None:
    """A reader of the FIFOs, such as a log collector, does not depend on containerd."""
    node = own_node
    name = node.name()
    fifos = tmp_path / "fifos"
    script = "echo while away; while [ ! -e /gate/back ]; do sleep 0.05; done; echo afterwards; exit 6"
    (tmp_path / "gate").mkdir()
    spec = gated(node, tmp_path / "gate", script)
    node.ctr(*node.run_arguments(name, spec, "-d", "--fifo-dir", str(fifos)))
    (fifo,) = fifos.rglob(f"{name}-stdout")
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        stop_containerd(node)
        (tmp_path / "gate" / "open").touch()
        assert reader.stdout.readline() == "while away\n"
        start_containerd_again(node)
        (tmp_path / "gate" / "back").touch()
        assert reader.stdout.readline() == "afterwards\n"
        with node.client() as tasks:
            assert tasks.wait(name).status == 6
        assert reader.stdout.read() == ""  # the shim has closed its end
    node.remove(name)
    node.expect_clean()


def test_attach_after_a_restart(own_node: Node, stop_containerd: StopContainerd, tmp_path: Path) -> None:
    node = own_node
    name = node.name()
    node.ctr(*node.run_arguments(name, gated(node, tmp_path, "echo late; exit 8"), "-d"))
    eventually((tmp_path / "up").exists, "the process")
    stop_containerd(node)
    start_containerd_again(node)
    with node.popen("task", "attach", name) as attached:
        node.expect_open(attached.pid, f"{name}-stdout")
        (tmp_path / "open").touch()
        out, _ = attached.communicate(timeout=60)
    assert out == "late\n"
    assert attached.returncode == 8
    node.ctr("container", "rm", name)  # attach has deleted the task
    node.expect_clean()


def test_shim_killed_during_containerd_outage_is_cleaned_up(own_node: Node, stop_containerd: StopContainerd) -> None:
    node = own_node
    name, other = node.name(), node.name()
    node.detach(name)
    node.detach(other)
    pid = node.shim_pid(name)
    stop_containerd(node)
    os.kill(pid, signal.SIGKILL)
    start_containerd_again(node)
    eventually(lambda: node.tasks() == {other: "RUNNING"}, "the removal of the task of the killed shim")
    node.ctr("container", "rm", name)
    node.remove(other)
    node.expect_clean()


def test_created_tasks_survive_containerd_restart(own_node: Node, stop_containerd: StopContainerd) -> None:
    node = own_node
    name = node.name()
    node.create(name, "cmd", "/c", "exit 7")
    with node.client() as tasks:
        tasks.create_task(name)
    stop_containerd(node)
    start_containerd_again(node)
    assert node.tasks() == {name: "CREATED"}
    with node.client() as tasks:
        tasks.start(name)
        assert tasks.wait(name).status == 7
        assert tasks.delete_task(name).status == 7
    node.ctr("container", "rm", name)
    node.expect_clean()


def test_wait_repeated_after_containerd_restart_returns_exit(
    own_node: Node, stop_containerd: StopContainerd, tmp_path: Path
) -> None:
    """A pending Wait fails when containerd stops. A new Wait returns the exit, before or after it happens."""
    node = own_node
    name = node.name()
    node.ctr(*node.run_arguments(name, gated(node, tmp_path, "exit 9"), "-d", "--null-io"))
    with node.popen("task", "attach", name) as waiting:
        eventually((tmp_path / "up").exists, "the process")
        stop_containerd(node)
        waiting.communicate(timeout=60)
        assert waiting.returncode != 0
    start_containerd_again(node)
    (tmp_path / "open").touch()
    with node.client() as tasks:
        assert tasks.wait(name).status == 9
    node.remove(name)
    node.expect_clean()


def test_repeated_containerd_restarts(own_node: Node, stop_containerd: StopContainerd) -> None:
    node = own_node
    name = node.name()
    node.detach(name)
    pid = node.shim_pid(name)
    node.exec(name, "warm", "cmd", "/c", "exit")
    before = node.resources(pid)
    for _ in range(5):
        stop_containerd(node)
        start_containerd_again(node)
        assert node.status(name) == "RUNNING"
    eventually(lambda: node.resources(pid) <= before, f"{before}; it has {node.resources(pid)}")
    node.remove(name)
    node.expect_clean()
