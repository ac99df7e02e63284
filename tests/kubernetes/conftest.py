"""Fixtures: a kubelet alone, and a cluster, one each for the tests of a module. Their teardown checks for leaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.api import TestCluster
from tests.kubernetes.standalone import StandaloneKubelet

# Of a test with the set-up and the teardown of its module; each wait in them has its own.
TIMEOUT = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="module")
def kubelet() -> Iterator[StandaloneKubelet]:
    kubelet = StandaloneKubelet()
    yield kubelet
    kubelet.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    cluster = TestCluster()
    yield cluster
    cluster.stop()
