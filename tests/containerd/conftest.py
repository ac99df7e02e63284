"""What tests under containerd share.

`node` is a containerd of each version in turn, on an emulator; one of each serves all tests of a worker, and every
test must leave it as clean as it was. `own_node` is for those who are going to break it.
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
    """Each containerd in turn. A test that is about some of them only parametrises `version` itself."""
    return str(request.param)


@pytest.fixture
def start_containerd(version: str, emulator: Emulator) -> Iterator[Callable[..., Containerd]]:
    """Start containerds with arguments (`cri=True`, …); all are stopped at the end."""
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
    """Let fixtures know how the test went."""
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
            nodes.pop(version).stop()  # one test's dirt is no other's


@pytest.fixture
def own_node(version: str) -> Iterator[Node]:
    node = Node(version)
    yield node
    node.stop()
