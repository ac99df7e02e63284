"""Unmodified containerd.exe and ctr.exe, with the shim of the distribution in their directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tests.support.eventually import eventually
from tests.wine.node import EventWatch, Node

MANY = 20


def test_run(node: Node) -> None:
    done = node.run(node.new_name(), "cmd /c echo hello from ctr& exit 3", "--rm")
    assert b"hello from ctr" in done.stdout, done.stdout.decode(errors="replace") + node.log()
    assert done.returncode == 3
    node.expect_clean()


def test_exec_and_kill_in_detached_container(node: Node) -> None:
    name = node.new_name()
    node.run_detached(name)
    assert node.tasks()[name] == "RUNNING"
    assert "second" in node.checked("task", "exec", "--exec-id", "two", name, "cmd", "/c", "echo second")
    assert node.ctr("task", "exec", "--exec-id", "three", name, "cmd", "/c", "exit 7").returncode == 7
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_stdin(node: Node) -> None:
    text = b"".join(b"line %06d of what goes in and must come out\r\n" % number for number in range(2000))
    done = node.run(node.new_name(), "cat", "--rm", input=text)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace") + node.log()
    count = b"%d\r\n" % len(text)  # by cat, on stderr, possibly in the middle of a line
    assert count in done.stdout
    assert done.stdout.replace(count, b"") == text
    node.expect_clean()


def test_exec_stdin(node: Node) -> None:
    name = node.new_name()
    node.run_detached(name)
    output = node.checked("task", "exec", "--exec-id", "reader", name, "cat", input=b"only this\r\n")
    assert "only this" in output
    assert "11" in output.split()
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_metrics(node: Node) -> None:
    name = node.new_name()
    node.run_detached(name)

    def metrics() -> dict[str, int]:
        lines = (line.split() for line in node.checked("task", "metrics", name).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}

    eventually(lambda: metrics()["cpu.total_runtime_ns"], "a tick of a processor's clock")
    found = metrics()
    used = found["cpu.total_runtime_ns"]
    assert used == found["cpu.runtime_user_ns"] + found["cpu.runtime_kernel_ns"]
    assert used <= found["uptime_ns"] * (os.cpu_count() or 1)
    # Two programs under Wine, cmd and ping, use a few private megabytes.
    assert found["memory.private_working_set_bytes"] > 1 << 20, found
    assert found["memory.commit_peak_bytes"] >= found["memory.commit_bytes"] > 1 << 20, found
    assert found["storage.read_count_normalized"] > 0, found
    pids = node.checked("task", "ps", name)
    assert re.search(r"^\d+\s", pids, re.MULTILINE), pids
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_events(node: Node) -> None:
    name = node.new_name()
    with EventWatch(node) as events:
        assert node.run(name, "cmd /c exit 0", "--rm").returncode == 0
        eventually(lambda: "/tasks/delete" in events.topics(name), "the event of the delete")
    assert events.topics(name) == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    node.expect_clean()


def test_running_tasks_survive_containerd_restart(node: Node) -> None:
    name = node.new_name()
    node.run_detached(name)
    node.stop()
    node.start()
    assert node.tasks()[name] == "RUNNING", node.log()
    assert "again" in node.checked("task", "exec", "--exec-id", "two", name, "cmd", "/c", "echo again")
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_sigkill_of_shim(node: Node) -> None:
    """containerd detects it and runs `delete`: the container stops, and nothing leaks."""
    name = node.new_name()
    with EventWatch(node) as events:
        node.run_detached(name)
        pid = (node.bundle(name) / "shim.pid").read_text()
        done = node.machine.run("taskkill", "/f", "/pid", pid)
        assert done.returncode == 0, done.stdout
        eventually(lambda: {"/tasks/exit", "/tasks/delete"} <= set(events.topics(name)), "the cleanup")
    eventually(lambda: name not in node.tasks(), "the removal of the task")
    eventually(lambda: node.bundles() == [], "the removal of the bundle")
    node.checked("container", "rm", name)
    node.expect_clean()


def test_secrets_are_not_logged(node: Node) -> None:
    """Neither in containerd's log, which includes the shim's, nor in the output of ctr."""
    secret = "Xyzzy-4711"
    process = {"env": [f"PASSWORD={secret}"]}
    windows = {"credentialSpec": json.dumps({"CmsPlugins": ["ActiveDirectory"], "Secret": secret})}
    value = {"Key": {"Hive": "Software", "Name": "Vendor"}, "Name": "Token", "Type": "String", "StringValue": secret}
    annotations = {"io.microsoft.container.wcow.test-registry-annotation": json.dumps([value])}
    members = {"process": process, "windows": windows, "annotations": annotations}
    done = node.run(node.new_name(), "cmd /c exit 3", "--rm", **members)
    assert done.returncode == 3, done.stdout.decode(errors="replace") + node.log()
    failed = node.run(node.new_name(), "nobody-has-this.exe", "--rm", **members)
    assert failed.returncode not in (0, 3)
    text = (node.directory / "containerd.log").read_bytes()
    assert b"starting containerd-shim-runhcs-v1" in text
    assert secret.encode() not in text + done.stdout + failed.stdout
    for name in node.names:
        node.ctr("container", "rm", name)
    node.expect_clean()


def test_containers_concurrently(node: Node) -> None:
    names = [node.new_name() for _ in range(MANY)]

    def run(name: str) -> subprocess.CompletedProcess[bytes]:
        return node.run(name, f"cmd /c echo I am {name}.& exit 5", "--rm", timeout=300)

    with ThreadPoolExecutor(MANY) as pool:
        results = list(pool.map(run, names))
    for name, done in zip(names, results, strict=True):
        assert f"I am {name}.".encode() in done.stdout, done.stdout.decode(errors="replace") + node.log()
        assert done.returncode == 5
    node.expect_clean()


def test_pod_lifecycle(node: Node) -> None:
    """A sandbox and two containers, marked by annotations: one shim serves them."""
    pod = node.new_name("pod")

    def annotations(kind: str) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": pod}

    members = [node.new_name("member"), node.new_name("member")]
    node.run_detached(pod, annotations=annotations("sandbox"))
    for member in members:
        node.run_detached(member, annotations=annotations("container"))
    tasks = node.tasks()
    assert [tasks[name] for name in (pod, *members)] == ["RUNNING"] * 3
    addresses = {(node.bundle(name) / "address").read_bytes() for name in (pod, *members)}
    assert len(addresses) == 1
    assert len(node.shims()) == 1
    assert "inside" in node.checked("task", "exec", "--exec-id", "e", members[1], "cmd", "/c", "echo inside")
    for member in members:
        node.kill(member)
        node.remove(member)
    assert node.tasks()[pod] == "RUNNING"
    node.kill(pod)
    node.remove(pod)
    node.expect_clean()
