"""critest against each runtime handler: runc as the baseline, and Linux containers in utility VMs with both guests and
both sandboxers, and with pods that share a shim.

`exceptions.toml` lists what does not pass. A run leaves nothing: no VM, process, mount, address or file.
Each run writes its results into the directory that RUNHCS_CRI_RESULTS names.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runhcs.containerd.api.cri import runtime_pb2
from runhcs.containerd.api.cri.runtime_pb2_grpc import RuntimeServiceStub
from runhcs.containerd.client import Client
from tests.containerd.node import Node
from tests.cri import critest, expectations, images
from tests.support.eventually import eventually
from tests.support.oci_registry import Store

PROCESSES = int(os.environ.get("CRITEST_PROCESSES", "4"))
WATCH_INTERVAL = 0.1
RESULTS = os.environ.get("RUNHCS_CRI_RESULTS", "")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return images.make_store(tmp_path_factory.mktemp("images"))


@pytest.mark.timeout(critest.TIMEOUT + 300)
@pytest.mark.parametrize("name", critest.RUNS)
def test_specs_pass_but_for_the_listed_exceptions(name: str, store: Store, tmp_path: Path) -> None:
    run = critest.RUNS[name]
    with critest.started(run, store, tmp_path) as node:
        with watched_shims(node) as pods_of_shim:
            results = critest.run_critest(node, run, tmp_path, processes=PROCESSES)
        log = node.containerd.log()
        remove_pods(node)
        if run.guest:
            node.expect_clean()
        eventually(lambda: not list((tmp_path / "leases").glob("*/10.*")), "the release of all addresses")
    if RESULTS:
        Path(RESULTS).mkdir(parents=True, exist_ok=True)
        (Path(RESULTS) / f"{name}.json").write_text(json.dumps([result._asdict() for result in results], indent=1))
    assert results, "critest ran no spec"
    if run.guest:
        assert (max(pods_of_shim) > 1) == bool(run.scope), f"a shim had {max(pods_of_shim)} pods"
    found = expectations.differences(name, results, expectations.load())
    counted = Counter(result.state for result in results)
    if not found and counted != expectations.counts()[name]:
        found = [f"{dict(counted)}: correct {expectations.RESULTS.name} and run `make docs`"]
    assert not found, "\n".join([*found, "", critest.tail(tmp_path / "critest.log"), "containerd's log:", log])


@contextmanager
def watched_shims(node: Node) -> Iterator[list[int]]:
    """While the block runs, how many pods the shim with the most pods has, again and again. Containers have the address
    of their pod."""
    found: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(WATCH_INTERVAL):
            pods: dict[str, set[str]] = {}
            for path in node.containerd.bundles.parent.parent.glob("*/k8s.io/*/shim.pid"):
                try:
                    pods.setdefault(path.read_text(), set()).add((path.parent / "address").read_text())
                except OSError:
                    continue  # its container has just been removed
            found.append(max(map(len, pods.values()), default=0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        is_over.set()
        watcher.join()


def remove_pods(node: Node) -> None:
    """Remove the pods that specs left when they failed."""
    with Client(str(node.containerd.address), "k8s.io") as client:
        stub = RuntimeServiceStub(client.channel)
        for pod in client.call(stub.ListPodSandbox, runtime_pb2.ListPodSandboxRequest()).items:
            client.call(stub.StopPodSandbox, runtime_pb2.StopPodSandboxRequest(pod_sandbox_id=pod.id))
            client.call(stub.RemovePodSandbox, runtime_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.id))
