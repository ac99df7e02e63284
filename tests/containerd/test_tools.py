"""`runhcs` tools beside a real containerd: what they see while it runs, and what gc does while it is down."""

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


def test_ps_inspect_and_stacks(node: Node) -> None:
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


def test_gc_while_containerd_is_down(own_node: Node) -> None:
    """Both die; gc frees what the shim held; containerd comes back and finds nothing wrong with that."""
    node = own_node
    dead, alive = node.name(), node.name()
    for name in (dead, alive):
        node.detach(name, "ping", "-t", "localhost")
    node.containerd.kill()
    node.kill_shim(dead)
    report = runhcs(node, "gc", "--yes")
    assert {left["outcome"] for left in report["found"]} == {"released"}
    assert [left["id"] for left in report["found"] if left["kind"] == "ledger"] == [dead]

    def left() -> list[str]:
        return [system["Id"] for system in node.emulator.control("status")["systems"]]

    eventually(lambda: left() == [alive], "the living one only")
    node.containerd.start()
    assert node.status(alive) == "RUNNING"
    node.ctr("task", "delete", "--force", dead, check=False)
    node.ctr("container", "rm", dead)
    node.remove(alive)
    node.expect_clean()
