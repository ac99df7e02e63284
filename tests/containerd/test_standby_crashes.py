"""Many lifecycles, and a crash at every HCS call, with shims that are forks of a standby."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.containerd.lifecycles import crash_at_every_call
from tests.containerd.node import Node


@pytest.fixture
def warm_node(version: str) -> Iterator[Node]:
    node = Node(version, standby=True)
    node.run(node.name(), node.spec("cmd", "/c", "exit"), "--rm")  # this one starts the standby
    yield node
    node.stop()


def test_containers_sequentially_and_concurrently(warm_node: Node) -> None:
    node = warm_node

    def run(code: int) -> tuple[int, list[str]]:
        result = node.run(node.name(), node.spec("cmd", "/c", f"echo {code} & exit {code}"), "--rm")
        return result.returncode, result.stdout.split()

    for code in range(10):
        assert run(code) == (code, [str(code)])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(16))) == [(code, [str(code)]) for code in range(16)]
    node.expect_clean()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["2.3"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_shim_killed_at_any_hcs_call_leaks_nothing(warm_node: Node, when: str) -> None:
    crash_at_every_call(warm_node, when, 1, 3)
