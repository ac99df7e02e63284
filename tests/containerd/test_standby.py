"""A standby with a real containerd: a task served by a spare behaves like any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.containerd.node import Node
from tests.support.eventually import eventually
from tests.support.shim_commands import standbys


@pytest.fixture
def warm_node(version: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A containerd whose shims use a standby, which exits when idle for 20 seconds."""
    monkeypatch.setenv("RUNHCS_STANDBY_IDLE", "20")
    node = Node(version, standby=True)
    yield node
    node.stop()


def test_spares_outlive_containerd_and_standby(warm_node: Node) -> None:
    node = warm_node
    first = node.run("c1", node.spec("cmd", "/c", "echo cold"))
    assert (first.returncode, first.stdout.strip()) == (0, "cold"), first.stderr
    node.ctr("container", "rm", "c1", check=False)
    eventually(lambda: len(standbys(node.containerd.leaked_processes())) == 2, "a standby and its spare")
    warm = standbys(node.containerd.leaked_processes())

    node.detach("c2")
    assert node.shim_pid("c2") in warm
    eventually(lambda: len(standbys(node.containerd.leaked_processes())) == 2, "another spare")
    done = node.run("c3", node.spec("cmd", "/c", "echo warm & exit 7"))
    assert (done.returncode, done.stdout.strip()) == (7, "warm"), done.stderr
    node.ctr("container", "rm", "c3", check=False)

    node.containerd.restart()
    node.expect_status("c2", "RUNNING")
    eventually(lambda: not standbys(node.containerd.leaked_processes()), "the exit of the idle standby")
    node.expect_status("c2", "RUNNING")
    node.remove("c2")
    node.expect_clean()
