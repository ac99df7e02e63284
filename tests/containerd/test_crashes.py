"""The shim is killed at every HCS call of a container's lifecycle: all its resources are released after containerd's
cleanup."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runhcs.containerd.client import ContainerdError
from tests.containerd.daemon import VERSIONS
from tests.containerd.lifecycles import crash_at_every_call
from tests.containerd.node import Node
from tests.support.emulator import is_alive
from tests.support.eventually import eventually

# Every call with the oldest and the newest containerd, every fourth with the one between.
EVERY = {"1.6": 1, "1.7": 4, "2.3": 1}
# The calls are split over this number of tests, so that pytest workers share them.
PARTS = 4


STEPS = [
    pytest.param(version, when, part, id=f"{version}-{when}-{part + 1}of{PARTS}")
    for version in VERSIONS
    for when in ("before", "after")
    for part in range(PARTS)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "when", "part"), STEPS)
def test_shim_killed_at_any_hcs_call_leaks_nothing(node: Node, version: str, when: str, part: int) -> None:
    crash_at_every_call(node, when, 1 + part * EVERY[version], PARTS * EVERY[version])


def test_killed_shim_is_reported_as_exit(node: Node) -> None:
    name = node.name()
    node.detach(name)
    # The shim publishes these itself: wait until it has.
    node.events.expect(name, [f"create {name}", f"start {name}"])
    node.kill_shim(name)
    node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])
    assert dict(node.events.with_fields(name))["exit"]["exit_status"] == 255
    eventually(lambda: node.status(name) == "", "the removal of the task")
    node.ctr("container", "rm", name)


def test_wait_returns_when_shim_is_killed(node: Node) -> None:
    name = node.name()
    arguments = node.run_arguments(name, node.spec("ping", "-t", "localhost"))
    with node.popen(*arguments) as client:
        node.expect_status(name, "RUNNING")
        node.kill_shim(name)
        client.communicate(timeout=60)
        assert client.returncode != 0
    node.ctr("task", "delete", "--force", name, check=False)
    node.ctr("container", "rm", name)


def test_container_runs_again_after_shim_crash(node: Node) -> None:
    name = node.name()
    node.create(name, "cmd", "/c", "exit 4")
    with node.client() as tasks:
        tasks.create_task(name)
        node.kill_shim(name)
        eventually(lambda: node.status(name) == "", "the removal of the task")
    eventually(lambda: node.ctr("task", "start", name, check=False).returncode == 4, "the next task's exit code")
    node.ctr("container", "rm", name)


def test_processes_of_killed_shim_are_terminated(node: Node, tmp_path: Path) -> None:
    name = node.name()
    mounts = [{"source": str(tmp_path), "destination": "C:\\data"}]
    node.detach(name, "sh", "-c", "echo $$ > /data/up; sleep 1000", mounts=mounts)
    eventually((tmp_path / "up").exists, "the process")
    processes = node.emulator.descendants()
    assert len(processes) >= 2
    node.kill_shim(name)
    eventually(lambda: not any(is_alive(pid) for pid in processes), "the exit of the container's processes")
    node.ctr("container", "rm", name)


def test_hanging_shim_can_be_removed(own_node: Node) -> None:
    """A shim stopped by SIGSTOP does not respond. The call times out; after SIGKILL of the shim cleanup works."""
    node = own_node
    name = node.name()
    node.detach(name)
    pid = node.shim_pid(name)
    os.kill(pid, signal.SIGSTOP)
    with node.client(timeout=1) as tasks, pytest.raises(ContainerdError) as late:
        tasks.kill(name, 9)
    # The client reports the deadline, or containerd does, or its transport reports a cancelled call.
    assert any(word in str(late.value).lower() for word in ("deadline", "cancelled")), late.value
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: node.status(name) == "", "the removal of the task")
    node.ctr("container", "rm", name)
    node.expect_clean()
