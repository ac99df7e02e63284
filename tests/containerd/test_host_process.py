"""Host process containers through containerd and ctr: processes on the host, with the files of an image."""

from __future__ import annotations

import os
from pathlib import Path

from tests.containerd.node import Node
from tests.support.eventually import eventually

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT = "microsoft.com/hostprocess-rootfs-location"
SLEEP_LOOP = ("sh", "-c", "while :; do sleep 1; done")


def annotations(node: Node, name: str) -> dict[str, str]:
    place = "C:" + str(node.directory / "hpc" / name).replace("/", "\\")
    return {HOST_PROCESS: "true", INHERIT_USER: "true", ROOT: place}


def test_run_reports_output_and_exit_code(node: Node) -> None:
    name = node.name()
    (node.layer / "Files" / "tool.txt").write_text("from the image\n")
    script = f"cat {node.directory}/hpc/{name}/tool.txt; readlink /proc/self/ns/pid; exit 7"
    result = node.run(name, node.spec("sh", "-c", script, annotations=annotations(node, name)), "--rm")
    assert result.returncode == 7, result.stderr
    assert result.stdout.splitlines() == ["from the image", os.readlink("/proc/self/ns/pid")]
    node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])


def test_exec_pids_and_kill(node: Node) -> None:
    name = node.name()
    node.detach(name, *SLEEP_LOOP, annotations=annotations(node, name))
    result = node.exec(name, "e1", "sh", "-c", "echo from exec; exit 9")
    assert result.returncode == 9 and result.stdout == "from exec\n", result.stderr
    listed = [int(line.split()[0]) for line in node.ctr("task", "ps", name).stdout.splitlines()[1:]]
    assert len(listed) >= 2 and all(Path(f"/proc/{pid}").exists() for pid in listed)  # pids of the host
    node.remove(name)
    assert not any(Path(f"/proc/{pid}").exists() for pid in listed)


def test_killed_shim_leaks_nothing(node: Node) -> None:
    name = node.name()
    node.detach(name, *SLEEP_LOOP, annotations=annotations(node, name))
    listed = [int(line.split()[0]) for line in node.ctr("task", "ps", name).stdout.splitlines()[1:]]
    node.kill_shim(name)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in listed), "the exit of its processes", 60)
    eventually(lambda: node.status(name) == "", "the removal of the task", 60)
    node.ctr("container", "rm", name)
