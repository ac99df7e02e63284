"""Fixtures of the tests with containerd.

`node` is a containerd of each version in turn, with an emulator. All tests of a pytest worker share one node per
version, and no test may leak resources in it. `own_node` is a private one, for tests that stop or break containerd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.containerd.daemon import VERSIONS, Containerd
from tests.containerd.node import Node
from tests.support.emulator import Emulator

PASSED = pytest.StashKey[bool]()


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    emulator = Emulator()
    yield emulator
    emulator.stop()


@pytest.fixture(params=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> str:
    """Each version of containerd in turn. A test of some versions only parametrizes `version` itself."""
    return str(request.param)


@pytest.fixture
def start_containerd(version: str, emulator: Emulator) -> Iterator[Callable[..., Containerd]]:
    """Start containerds with arguments (`cri=True`, …); teardown stops all of them."""
    started: list[Containerd] = []

    def start(**arguments: object) -> Containerd:
        started.append(Containerd(version, emulator.env, **arguments))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for containerd in reversed(started):
        containerd.stop()


@pytest.fixture
def containerd(start_containerd: Callable[..., Containerd]) -> Containerd:
    return start_containerd()


@pytest.fixture(scope="session")
def nodes() -> Iterator[dict[str, Node]]:
    nodes: dict[str, Node] = {}
    yield nodes
    for node in nodes.values():
        node.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Record for fixtures whether the test passed."""
    report = yield
    item.stash[PASSED] = item.stash.get(PASSED, True) and report.passed
    return report


@pytest.fixture
def node(request: pytest.FixtureRequest, version: str, nodes: dict[str, Node]) -> Iterator[Node]:
    node = nodes.get(version)
    if node is None:
        node = nodes[version] = Node(version)
    yield node
    clean = False
    try:
        if request.node.stash.get(PASSED, False):
            node.expect_clean()
            clean = True
    finally:
        if not clean:
            nodes.pop(version).stop()  # a leak of one test must not fail another


@pytest.fixture
def own_node(version: str) -> Iterator[Node]:
    node = Node(version)
    yield node
    node.stop()
