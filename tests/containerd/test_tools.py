"""`runhcs ps`, `inspect`, `stacks` and `gc` with a real containerd."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.containerd.daemon import NAMESPACE
from tests.containerd.node import Node
from tests.support.eventually import eventually


def runhcs(node: Node, *arguments: str) -> Any:
    places = ["--state", str(node.containerd.state), "--socket-dir", str(node.containerd.sockets)]
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", *arguments, *places, "--json"],
        env=node.containerd.env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_ps_inspect_and_stacks_of_a_running_container(node: Node) -> None:
    name = node.name()
    node.detach(name, "ping", "-t", "localhost")
    (one,) = [shim for shim in runhcs(node, "ps") if shim["id"] == name]
    assert one["namespace"] == NAMESPACE and one["pid"] == node.shim_pid(name) and one["state"] == "running"
    found = runhcs(node, "inspect", name)
    kinds = {entry["kind"] for entry in found["tasks"][0]["ledger"]}
    assert "system" in kinds and found["tasks"][0]["properties"]["State"] == "Running"
    assert "in serve" in runhcs(node, "stacks", name)[0]["stacks"]
    assert runhcs(node, "gc", "--yes")["found"] == []
    assert node.status(name) == "RUNNING"
    node.remove(name)
    node.expect_clean()
    assert name not in [shim["id"] for shim in runhcs(node, "ps")]


def test_gc_releases_a_dead_shim_while_containerd_is_down(own_node: Node) -> None:
    """containerd and a shim are killed; gc releases the resources of the shim; containerd starts again."""
    node = own_node
    dead, alive = node.name(), node.name()
    for name in (dead, alive):
        node.detach(name, "ping", "-t", "localhost")
    node.containerd.kill()
    node.kill_shim(dead)
    report = runhcs(node, "gc", "--yes")
    assert {leak["outcome"] for leak in report["found"]} == {"released"}
    assert [leak["id"] for leak in report["found"] if leak["kind"] == "ledger"] == [dead]

    def systems() -> list[str]:
        return [system["Id"] for system in node.emulator.control("status")["systems"]]

    eventually(lambda: systems() == [alive], "only the running container")
    node.containerd.start()
    assert node.status(alive) == "RUNNING"
    node.ctr("task", "delete", "--force", dead, check=False)
    node.ctr("container", "rm", dead)
    node.remove(alive)
    node.expect_clean()
