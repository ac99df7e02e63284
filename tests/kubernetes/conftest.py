"""Fixtures: a kubelet alone, and a cluster, one each for the tests of a module. Their teardown checks for leaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes.api import TestCluster
from tests.kubernetes.standalone import StandaloneKubelet


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
