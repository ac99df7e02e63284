"""A host with slow HCS calls: the lifecycle works, the cleanup after a crash fits in containerd's five seconds, and
every call of a client returns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from runhcs.containerd.client import ContainerdError
from tests.containerd.node import Node

# Windows under load: every call has a delay, and creating and starting a compute system takes longer.
SLOW = 'name = "slow"\ndefault = 0.02\n[calls]\nHcsCreateComputeSystem = 0.4\nHcsStartComputeSystem = 0.6\n'
CALL_TIMEOUT = 60.0


@pytest.fixture
def slow_node(version: str, tmp_path: Path) -> Iterator[Node]:
    node = Node(version, has_default_timeouts=True)
    profile = tmp_path / "slow.toml"
    profile.write_text(SLOW)
    node.emulator.control("profile", path=str(profile))
    yield node
    node.stop()


def test_lifecycle_with_slow_hcs_calls(slow_node: Node) -> None:
    node = slow_node
    name = node.name()
    result = node.run(name, node.spec("cmd", "/c", "echo slowly & exit 3"), "--rm")
    assert (result.returncode, result.stdout.split()) == (3, ["slowly"])
    node.events.expect(name, [f"{topic} {name}" for topic in ("create", "start", "exit", "delete")])
    node.expect_clean()


@pytest.mark.parametrize("moment", [0.3, 0.9, 1.6])
def test_shim_killed_during_slow_hcs_call(slow_node: Node, moment: float) -> None:
    """Every pending call returns, and `delete` finishes within containerd's timeout."""
    node = slow_node
    name = node.name()
    node.create(name, "ping", "-t", "localhost")

    def run_lifecycle() -> None:
        with suppress(ContainerdError):
            tasks.create_task(name, timeout=CALL_TIMEOUT)
            tasks.start(name, timeout=CALL_TIMEOUT)
            tasks.wait(name, timeout=CALL_TIMEOUT)

    with node.client() as tasks, ThreadPoolExecutor(1) as client:
        lifecycle = client.submit(run_lifecycle)
        time.sleep(moment)  # some HCS call is in progress
        with suppress(FileNotFoundError):
            node.kill_shim(name)
            lifecycle.result(CALL_TIMEOUT)
        node.ctr("task", "delete", "--force", name, check=False)
        lifecycle.result(CALL_TIMEOUT)
    node.ctr("container", "rm", name)
    node.expect_clean()
    failed = [line for line in node.containerd.log(400).splitlines() if "failed to delete" in line and name in line]
    assert not [line for line in failed if "signal: killed" in line], failed


def test_calls_during_slow_hcs_calls(slow_node: Node) -> None:
    """State and List do not wait for a Create or a Start."""
    node = slow_node
    name = node.name()
    node.create(name, "ping", "-t", "localhost")
    with node.client() as tasks, ThreadPoolExecutor(1) as client:
        tasks.create_task(name)
        started = client.submit(tasks.start, name)
        while not started.done():
            assert node.status(name) in ("CREATED", "RUNNING")
        assert started.result() > 0
    node.remove(name)
    node.expect_clean()
