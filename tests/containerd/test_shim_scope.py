"""Pods that share a daemon, under each containerd: lifecycles, restarts of containerd, and crashes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.containerd.daemon import VERSIONS
from tests.containerd.lifecycles import crash_at_every_call
from tests.containerd.node import Node
from tests.support.emulator import is_alive
from tests.support.eventually import eventually


@pytest.fixture(params=["namespace", "node"])
def shared(request: pytest.FixtureRequest, version: str) -> Iterator[Node]:
    """A node whose pods share a daemon."""
    node = Node(version, scope=request.param)
    yield node
    node.stop()


def test_containers_share_daemon_until_the_last_ends(shared: Node) -> None:
    node = shared
    names = [node.name() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(node.detach, names))
    pids = {node.shim_pid(name) for name in names}
    assert len(pids) == 1
    assert node.exec(names[0], "e1", "cmd", "/c", "exit 3").returncode == 3
    for name in names[:-1]:
        node.remove(name)
        assert node.status(names[-1]) == "RUNNING"
    assert all(is_alive(pid) for pid in pids)
    node.remove(names[-1])
    node.expect_clean()


def test_output_and_exit_codes_are_separate(shared: Node) -> None:
    node = shared

    def run(code: int) -> tuple[int, list[str]]:
        result = node.run(node.name(), node.spec("cmd", "/c", f"echo {code} & exit {code}"), "--rm")
        return result.returncode, result.stdout.split()

    keeper = node.name()
    node.detach(keeper)
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, range(12))) == [(code, [str(code)]) for code in range(12)]
    node.remove(keeper)
    node.expect_clean()


def test_restarted_containerd_finds_all_pods(shared: Node) -> None:
    node = shared
    names = [node.name() for _ in range(3)]
    for name in names:
        node.detach(name)
    pid = node.shim_pid(names[0])
    node.containerd.restart()
    assert node.tasks() == dict.fromkeys(names, "RUNNING")
    late = node.name()
    node.detach(late)
    assert node.shim_pid(late) == pid, "the restarted containerd uses the same daemon"
    assert node.exec(names[1], "e1", "cmd", "/c", "exit 4").returncode == 4
    for name in (*names, late):
        node.remove(name)
    node.expect_clean()


def test_killed_daemon_is_reported_for_each_pod(shared: Node) -> None:
    node = shared
    names = [node.name() for _ in range(3)]
    for name in names:
        node.detach(name)
        node.events.expect(name, [f"create {name}", f"start {name}"])
    node.kill_shim(names[0])
    for name in names:
        node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])
    eventually(lambda: not node.tasks(), "the removal of all tasks")
    for name in names:
        node.ctr("container", "rm", name)
    node.expect_clean()


def test_daemon_killed_while_containerd_is_down(shared: Node) -> None:
    node = shared
    names = [node.name() for _ in range(2)]
    for name in names:
        node.detach(name)
    pid = node.shim_pid(names[0])
    node.containerd.terminate()
    os.kill(pid, signal.SIGKILL)
    node.containerd.start()
    eventually(lambda: not node.tasks(), "the removal of all tasks")
    for name in names:
        node.ctr("container", "rm", name)
    node.expect_clean()


# Every call, before and after its result, each with one of the containerds and its scope: what differs between the
# scopes is the name of the control socket only.
SCOPES = ("node", "namespace", "node")
CRASHES = [
    (version, when, scope, first)
    for first, (version, scope) in enumerate(zip(VERSIONS, SCOPES, strict=True), 1)
    for when in ("before", "after")
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "when", "scope", "first"), CRASHES)
def test_daemon_killed_at_any_hcs_call_leaks_nothing_of_any_pod(
    version: str, when: str, scope: str, first: int
) -> None:
    node = Node(version, scope=scope)
    try:
        crash_at_every_call(node, when, first, len(VERSIONS))
    finally:
        node.stop()
