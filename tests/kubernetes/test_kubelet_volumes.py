"""Volumes of static pods: directories and files of the host, shared with the VM of the pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster import host
from tests.kubernetes.manifests import SLEEP, container, pod
from tests.kubernetes.standalone import INTERVAL, TIMEOUT, StandaloneKubelet
from tests.support.eventually import eventually


def mount(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def host_path(name: str, path: Path, kind: str = "Directory") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": str(path), "type": kind}}


def test_empty_dirs_are_shared_by_the_containers_of_a_pod_and_survive_a_restart(kubelet: StandaloneKubelet) -> None:
    """On disk and in memory; what a container wrote is there after it has exited."""
    volumes = [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
    mounts = [mount("disk", "/disk"), mount("memory", "/memory")]
    script = f"[ -e /disk/again ] && {{ {SLEEP}; }}; echo a > /disk/again; echo b > /memory/file; exit 3"
    kubelet.run(pod("shared", container(script=script, volumeMounts=mounts), container("other", volumeMounts=mounts),
                    volumes=volumes))  # fmt: skip
    kubelet.expect_restarts("shared", 1)
    kubelet.expect_ready("shared")
    assert kubelet.exec("shared", "cat", "/disk/again", "/memory/file", container="other") == "a\nb\n"
    assert kubelet.exec("shared", "cat", "/disk/again", "/memory/file") == "a\nb\n"
    assert "tmpfs" in kubelet.exec("shared", "grep", "/memory", "/proc/mounts")
    kubelet.remove("shared")


def test_host_paths_are_directories_and_files_of_the_node(kubelet: StandaloneKubelet, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "read-only").mkdir()
    (tmp_path / "read-only" / "file").write_text("from the node\n")
    (tmp_path / "single").write_text("one file\n")
    (tmp_path / "part" / "below").mkdir(parents=True)
    (tmp_path / "part" / "below" / "file").write_text("a part\n")
    volumes = [
        host_path("node", tmp_path),
        host_path("read-only", tmp_path / "read-only"),
        host_path("single", tmp_path / "single", "File"),
    ]
    mounts = [
        mount("node", "/node"),
        mount("read-only", "/read-only", readOnly=True),
        mount("single", "/single"),
        mount("node", "/part", subPath="part/below"),
    ]
    kubelet.run(pod("paths", container(volumeMounts=mounts), volumes=volumes))
    kubelet.expect_ready("paths")
    shown = kubelet.exec("paths", "cat", "/read-only/file", "/single", "/part/file")
    assert shown == "from the node\none file\na part\n"
    # Both sides see what the other writes.
    kubelet.exec("paths", "cp", "/single", "/node/copied")
    assert (tmp_path / "copied").read_text() == "one file\n"
    (tmp_path / "single").write_text("changed\n")
    assert kubelet.exec("paths", "cat", "/single") == "changed\n"
    with pytest.raises(AssertionError, match="Read-only file system"):
        kubelet.exec("paths", "touch", "/read-only/x")
    assert os.listdir(tmp_path / "read-only") == ["file"]
    kubelet.remove("paths")


def test_downward_api_files_have_the_fields_of_the_pod(kubelet: StandaloneKubelet) -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "limit", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
    ]
    volumes = [{"name": "info", "downwardAPI": {"items": items}}]
    main = container(
        resources={"limits": {"memory": "64Mi"}},
        volumeMounts=[mount("info", "/info")],
        env=[{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        script=f"echo $NAME; {SLEEP}",
    )
    manifest = pod("info", main, container("other"), volumes=volumes, metadata={"labels": {"colour": "blue"}})
    kubelet.run(manifest)
    kubelet.expect_ready("info")
    assert kubelet.exec("info", "cat", "/info/labels") == 'colour="blue"'
    assert kubelet.exec("info", "cat", "/info/name") == "info-node"
    assert kubelet.exec("info", "cat", "/info/limit") == str(64 << 20)
    assert kubelet.log("info") == "info-node\n"
    kubelet.remove("info")


def test_volume_below_another_stays_in_the_pod_and_its_files_survive(
    kubelet: StandaloneKubelet, tmp_path: Path
) -> None:
    """The kubelet's directory is a shared mount: a mount of the pod that propagated to the node would make the kubelet
    delete the files of the hostPath with the emptyDir."""
    tmp_path.chmod(0o777)
    (tmp_path / "precious").write_text("data\n")
    # Those of an earlier pod may still be there, and disappear meanwhile.
    before = set(host.mounts(kubelet.settings.directory))
    volumes = [{"name": "outer", "emptyDir": {}}, host_path("inner", tmp_path)]
    mounts = [mount("outer", "/a"), mount("inner", "/a/b")]
    kubelet.run(pod("nested", container(volumeMounts=mounts), container("other", volumeMounts=mounts), volumes=volumes))
    kubelet.expect_ready("nested")
    assert kubelet.exec("nested", "cat", "/a/b/precious") == "data\n"
    kubelet.exec("nested", "cp", "/a/b/precious", "/a/own")
    (directory,) = (kubelet.settings.directory / "kubelet" / "pods").glob("*/volumes/kubernetes.io~empty-dir/outer")
    assert sorted(os.listdir(directory)) == ["b", "own"]
    assert os.listdir(directory / "b") == []
    assert not [point for point in host.mounts(kubelet.settings.directory) if point.startswith(f"{directory}/")]
    kubelet.remove("nested")
    eventually(lambda: not directory.exists(), "the removal of the emptyDir", TIMEOUT, INTERVAL)
    assert (tmp_path / "precious").read_text() == "data\n"
    eventually(lambda: before >= set(host.mounts(kubelet.settings.directory)), "no further mount", TIMEOUT, INTERVAL)
