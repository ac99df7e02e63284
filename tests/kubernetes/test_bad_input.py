"""Pods that cannot run: what `kubectl describe pod` shows. docs/how-to/troubleshooting.md has the same table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.api import INTERVAL, TIMEOUT, TestCluster
from tests.kubernetes.manifests import container, pod
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
POLICY = ROOT / "deploy" / "kustomize" / "base" / "podpolicy.yaml"
VM = "io.microsoft.virtualmachine"
UNKNOWN = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "unknown"},
    "handler": "runhcs-unknown",
}
DIRECTORY = {"name": "data", "hostPath": {"path": "/no/such/directory", "type": "Directory"}}

# Name of the pod -> its manifest, and what is in the output of `kubectl describe pod`.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "handler": (
        pod("handler", container(), runtimeClassName="unknown"),
        'no runtime for "runhcs-unknown" is configured',
    ),
    "boot-files": (
        pod("boot-files", container(), metadata={"annotations": {f"{VM}.bootfilesrootpath": "/nowhere"}}),
        "not found: install the boot files of Linux VMs in /nowhere",
    ),
    "image": (
        pod("image", container(image="localhost/none:1", imagePullPolicy="Never")),
        "is not present with pull policy of Never",
    ),
    "registry": (
        pod("registry", container(image="example.test/none:1")),
        "failed to resolve image",
    ),
    "program": (
        pod("program", container(command=["/no/such/program"])),
        "/no/such/program: no such file or directory",
    ),
    "limit": (
        pod("limit", container(resources={"limits": {"memory": "1Mi"}}), runtimeClassName="runhcs-lcow"),
        "unable to set memory limit to 1048576",
    ),
    # Without the overhead of a RuntimeClass the VM must do with the memory of its containers.
    "overhead": (
        pod("overhead", container(resources={"limits": {"memory": "16Mi"}})),
        "raise the limits of its containers, or use a RuntimeClass with overhead",
    ),
    "size": (
        pod("size", container(), metadata={"annotations": {f"{VM}.computetopology.memory.sizeinmb": "900000000"}}),
        "or give the VM less",
    ),
    "request": (
        pod("request", container(resources={"requests": {"memory": "900Gi"}})),
        "Insufficient memory",
    ),
    "volume": (
        pod("volume", container(volumeMounts=[{"name": "data", "mountPath": "/data"}]), volumes=[DIRECTORY]),
        "hostPath type check failed: /no/such/directory is not a directory",
    ),
}


@pytest.fixture(scope="module")
def bad_pods(cluster: TestCluster) -> Iterator[TestCluster]:
    """A cluster with all of them; their deletion must not hang."""
    cluster.apply(UNKNOWN, *(manifest for manifest, _ in CASES.values()))
    yield cluster
    cluster.delete("pods", "--all")


@pytest.mark.parametrize("name", CASES)
def test_describe_shows_the_reason(bad_pods: TestCluster, name: str) -> None:
    expected = CASES[name][1]

    def shown() -> bool:
        return expected in bad_pods.kubectl("describe", "pod", name).stdout

    eventually(shown, f"{expected!r} in the description of pod {name}", TIMEOUT, INTERVAL)


@pytest.mark.parametrize("name", CASES)
def test_troubleshooting_page_has_the_message(name: str) -> None:
    words = CASES[name][1]
    for value in ("runhcs-unknown", "/nowhere", "1048576", "/no/such/program", "/no/such/directory"):
        words = words.replace(value, "…")
    assert words in PAGE.read_text()


def test_pod_of_a_missing_runtime_class_is_refused_at_once(cluster: TestCluster) -> None:
    manifest = pod("missing-class", container(), runtimeClassName="no-such-class")
    result = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert result.returncode and 'RuntimeClass "no-such-class" not found' in result.stderr


WRONG_VALUES = {
    f"{VM}.computetopology.memory.sizeinmb": ("abc", "4Gi", "-1", "1.5", "", "18446744073709551616"),
    f"{VM}.computetopology.processor.count": ("two", "2147483648"),
    f"{VM}.fullyphysicallybacked": ("yes",),
}
RIGHT_VALUES = {
    f"{VM}.computetopology.memory.sizeinmb": "0018446744073709551",
    f"{VM}.computetopology.processor.count": "2147483647",
    f"{VM}.fullyphysicallybacked": "T",
    f"{VM}.no-such-setting": "any",
}


@pytest.fixture(scope="module")
def policy(cluster: TestCluster) -> TestCluster:
    """A cluster with the admission policy of deploy/, which rejects values that the shim would ignore."""
    cluster.kubectl("apply", "-f", str(POLICY))
    # The API server uses a new policy some moments later.
    wrong = {f"{VM}.computetopology.processor.count": "x"}
    eventually(lambda: created(cluster, wrong).returncode, "the policy rejects", TIMEOUT, INTERVAL)
    return cluster


def created(cluster: TestCluster, annotations: dict[str, str]) -> subprocess.CompletedProcess[str]:
    manifest = pod("annotated", container(), metadata={"annotations": annotations})
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest), check=False)


@pytest.mark.parametrize("annotation", WRONG_VALUES)
def test_wrong_value_of_an_annotation_is_rejected_by_the_policy(policy: TestCluster, annotation: str) -> None:
    for value in WRONG_VALUES[annotation]:
        result = created(policy, {annotation: value, "example.test/other": "x"})
        assert result.returncode and f"annotation {annotation} has a wrong value: use " in result.stderr, value


def test_right_values_are_accepted_by_the_policy(policy: TestCluster) -> None:
    result = created(policy, RIGHT_VALUES)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("annotation", [f"{VM}.computetopology.memory.sizeinmbb", f"{VM}.no-such-setting"])
def test_unknown_annotation_is_in_the_log_of_containerd(cluster: TestCluster, annotation: str) -> None:
    """The pod runs, as with Microsoft's shim."""
    name = cluster.run(pod("annotated", container(), metadata={"annotations": {annotation: "1"}}))
    log = cluster.cluster.containerd.log.read_text()
    assert f"annotation {annotation} is not known to this shim and has no effect" in log
    cluster.delete("pod", name)
