"""`ctr task` commands for running and stopped containers: kill, pause, metrics, ps, ls, delete."""

from __future__ import annotations

import json
import re

import grpc
import pytest

from runhcs.containerd.client import ContainerdError
from tests.containerd.node import Node
from tests.support.eventually import eventually


def exit_status(node: Node, name: str) -> int:
    exits = [fields for topic, fields in node.events.with_fields(name) if topic == "exit" and fields["id"] == name]
    return int(exits[-1]["exit_status"])


def test_kill_with_each_signal(node: Node) -> None:
    for flags in (["-s", "15"], ["-s", "9"], [], ["-s", "SIGKILL", "--all"]):
        name = node.name()
        node.detach(name)
        node.ctr("task", "kill", *flags, name)
        node.expect_status(name, "STOPPED")
        again = node.ctr("task", "kill", *flags, name, check=False)
        assert again.returncode == 1 and "not found" in again.stderr, again.stderr
        node.ctr("task", "delete", name, check=False)
        node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])
        assert exit_status(node, name) != 0
        node.ctr("container", "rm", name)


def test_unsupported_signal_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.ctr("task", "kill", "-s", "SIGUSR1", name, check=False)
    assert result.returncode == 1 and "10" in result.stderr, result.stderr
    assert node.status(name) == "RUNNING"
    node.remove(name)


def test_kill_exec_and_kill_all(node: Node) -> None:
    name = node.name()
    node.detach(name)
    for exec_id in ("e1", "e2"):
        node.ctr("task", "exec", "--detach", "--exec-id", exec_id, name, "ping", "-t", "localhost")
    node.ctr("task", "kill", "-s", "9", "--exec-id", "e1", name)
    started = [f"create {name}", f"start {name}"]
    for exec_id in ("e1", "e2"):
        started += [f"exec-added {exec_id}", f"exec-started {exec_id}"]
    node.events.expect(name, [*started, "exit e1"])
    assert node.status(name) == "RUNNING"
    node.ctr("task", "delete", "--exec-id", "e1", name, check=False)
    node.ctr("task", "kill", "-s", "9", "--all", name)
    node.expect_status(name, "STOPPED")
    node.ctr("task", "delete", name, check=False)
    eventually(lambda: f"delete {name}" in node.events.received(name), "the container's delete event")
    published = node.events.received(name)
    assert published.index("exit e2") < published.index(f"exit {name}") < published.index(f"delete {name}")
    node.ctr("container", "rm", name)


def test_pause_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    for verb in ("pause", "resume"):
        result = node.ctr("task", verb, name, check=False)
        assert result.returncode == 1
        assert verb in result.stderr, result.stderr
    assert "not implemented" in node.ctr("task", "pause", name, check=False).stderr
    assert node.status(name) == "RUNNING"
    assert node.exec(name, "e1", "cmd", "/c", "echo alive").stdout.split() == ["alive"]
    node.remove(name)


def test_metrics(node: Node) -> None:
    name = node.name()
    node.detach(name)
    metrics = node.ctr("task", "metrics", name)
    assert re.search(r"[1-9]\d*", metrics.stdout), metrics.stdout
    assert json.loads(node.ctr("task", "metrics", "--format", "json", name).stdout)
    node.remove(name)


def test_ps_lists_processes(node: Node) -> None:
    name = node.name()
    node.detach(name)
    node.ctr("task", "exec", "--detach", "--exec-id", "e1", name, "ping", "-t", "localhost")
    rows = [line.split() for line in node.ctr("task", "ps", name).stdout.splitlines()[1:]]
    listed = {row[0] for row in rows}
    assert len(listed) >= 2
    listing = node.ctr("task", "ls").stdout.splitlines()[1:]
    pid = next(line.split()[1] for line in listing if line.split()[0] == name)
    assert pid in listed and int(pid) > 0
    assert any("e1" in " ".join(row) for row in rows), rows
    node.remove(name)


def test_delete_of_a_created_task(node: Node) -> None:
    name = node.name()
    node.create(name, "cmd", "/c", "exit")
    with node.client() as tasks:
        assert tasks.create_task(name) == 0
        assert node.status(name) == "CREATED"
        assert tasks.delete_task(name).status == 0
    node.ctr("container", "rm", name)
    node.events.expect(name, [f"create {name}", f"exit {name}", f"delete {name}"])


def test_kill_of_a_created_task(node: Node) -> None:
    name = node.name()
    node.create(name, "cmd", "/c", "exit")
    with node.client() as tasks:
        tasks.create_task(name)
        tasks.kill(name, 9)
        assert tasks.wait(name).status == 1
        with pytest.raises(ContainerdError) as refused:
            tasks.start(name)
        assert refused.value.code == grpc.StatusCode.FAILED_PRECONDITION
        assert tasks.delete_task(name).status == 1
    node.ctr("container", "rm", name)


def test_update_changes_limits_of_running_task(node: Node) -> None:
    name = node.name()
    node.detach(name)
    with node.client() as tasks:
        tasks.update(name, {"memory": {"limit": 64 << 20}})
        with pytest.raises(ContainerdError) as refused:
            tasks.update(name, {"cpu": {"count": 1, "shares": 5}})
        assert refused.value.code == grpc.StatusCode.UNKNOWN
    changes = [entry["arguments"] for entry in node.emulator.journal("HcsModifyComputeSystem")]
    assert any("'Memory'" in str(change) or "Memory" in str(change) for change in changes), changes
    node.remove(name)


def test_delete_of_a_running_task_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.ctr("task", "delete", name, check=False)
    assert result.returncode == 1 and "must be stopped" in result.stderr, result.stderr
    assert node.status(name) == "RUNNING"
    node.remove(name)


def test_delete_of_stopped_task_returns_exit_code(node: Node) -> None:
    name = node.name()
    spec = node.spec("cmd", "/c", "exit 5")
    node.ctr(*node.run_arguments(name, spec, "-d", "--null-io"))
    node.expect_status(name, "STOPPED")
    result = node.ctr("task", "delete", name, check=False)
    assert "exit code 5" in result.stderr
    node.events.expect(name, [f"{topic} {name}" for topic in ("create", "start", "exit", "delete")])
    assert dict(node.events.with_fields(name))["delete"]["exit_status"] == 5
    node.ctr("container", "rm", name)


def test_container_runs_new_task_after_exit(node: Node) -> None:
    """A container can have several tasks, one after another."""
    name = node.name()
    node.create(name, "cmd", "/c", "exit 4")
    for _ in range(3):
        assert node.ctr("task", "start", name, check=False).returncode == 4
    node.ctr("container", "rm", name)


def test_duplicate_container_id_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.run(name, node.spec("cmd", "/c", "exit"))
    assert result.returncode == 1 and "already exists" in result.stderr
    again = node.ctr("task", "start", name, check=False)
    assert again.returncode == 1 and "already exists" in again.stderr
    assert node.status(name) == "RUNNING"
    node.remove(name)


def test_checkpoint_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.ctr("task", "checkpoint", "--image-path", str(node.directory / "image-path"), name, check=False)
    assert result.returncode == 1, result.stdout
    assert node.status(name) == "RUNNING"
    node.remove(name)


def test_same_id_in_other_namespace(node: Node) -> None:
    """Ids of compute systems are unique per host: the second Create fails, and the first container keeps running."""
    name = node.name()
    node.detach(name)
    result = node.ctr("--namespace", "other", *node.run_arguments(name, node.spec("cmd", "/c", "exit 3")), check=False)
    assert result.returncode == 1 and "exists" in result.stderr, result.stderr
    node.ctr("--namespace", "other", "container", "rm", name)
    assert node.status(name) == "RUNNING"
    node.remove(name)
