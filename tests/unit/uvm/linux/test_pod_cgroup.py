"""The control group of a pod's VM, where HCS is emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.oci.annotations import container as names
from shim.oci.spec import Spec
from shim.platform import host
from shim.uvm.linux import pod_cgroup


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pod_cgroup, "_HIERARCHIES", (str(tmp_path / "unified"), str(tmp_path / "memory")))
    (tmp_path / "memory" / "kubepods" / "pod1").mkdir(parents=True)
    return tmp_path


def spec(path: str, role: str = "sandbox") -> Spec:
    annotations = {names.CONTAINER_TYPE: role, names.SANDBOX_ID: "c1"}
    return Spec({"linux": {"cgroupsPath": path}, "annotations": annotations})


def test_sandbox_is_in_the_group_of_its_pod(hierarchy: Path) -> None:
    assert pod_cgroup.pod_cgroup(spec("/kubepods/pod1/c1")) == "/kubepods/pod1"
    assert pod_cgroup.pod_cgroup(spec("/kubepods/pod1/c1/")) == "/kubepods/pod1"


@pytest.mark.parametrize(
    "path", ["", "/c1", "relative/c1", "/kubepods/pod2/c1", "kubepods-pod1.slice:cri-containerd:c1"]
)
def test_path_without_an_existing_group_has_none(hierarchy: Path, path: str) -> None:
    assert pod_cgroup.pod_cgroup(spec(path)) == ""


def test_other_containers_and_windows_have_none(hierarchy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pod_cgroup.pod_cgroup(spec("/kubepods/pod1/c1", role="container")) == ""
    monkeypatch.setattr(host, "IS_EMULATED", False)
    assert pod_cgroup.pod_cgroup(spec("/kubepods/pod1/c1")) == ""
