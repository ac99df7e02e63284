"""`runhcs record` beside a real containerd, and the replay of what it recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.containerd.node import Node
from tests.containerd.pods import CriPod, connect
from tests.containerd.test_lcow_cri import expect_clean, linux_kubelet
from tests.support.agent import PlacesOf
from tests.support.recording import Recording
from tests.support.vm_image import options

REPLAY_SECONDS = 120


def replay(path: Path) -> dict[str, Any]:
    """The replay of the only pod, which must be as recorded."""
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "replay", "--json", str(path)],
        capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    only: dict[str, Any] = found
    return only


@pytest.mark.parametrize("version", ["1.7", "2.3"])
def test_pod_in_a_vm_is_recorded_and_replayed(version: str, tmp_path: Path) -> None:
    node = Node(version)
    try:
        places = ["--state", str(node.containerd.state), "--socket-dir", str(node.containerd.sockets)]
        recording = Recording(PlacesOf(places, node.containerd.env), tmp_path / "pod.jsonl", "--new", "--until-exit")
        try:
            with connect(node) as client:
                pod = CriPod(node, client, options=options())
                pod.run()
                name = pod.add()
                assert pod.exec(name, "cmd", "/c", "exit 4")[0] == 4
                pod.stop()
                pod.remove()
            recording.wait()
        finally:
            recording.kill()
        node.expect_clean()
    finally:
        node.stop()
    found = replay(recording.path)
    assert found["id"] == pod.id and found["differences"] == []
    assert {"Create", "Start", "Exec", "Wait", "Kill", "Delete"} <= {one["method"] for one in found["requests"]}


@pytest.mark.parametrize("kind", ["2.3", "2.3-shim"])
def test_pod_of_linux_containers_is_recorded_and_replayed(kind: str, tmp_path: Path) -> None:
    """By CRI, with its sandbox container, and with the Sandbox service (`sandboxer = "shim"`)."""
    with linux_kubelet(tmp_path, kind, "emulated") as kubelet:
        containerd = kubelet.node.containerd
        places = ["--state", str(containerd.state), "--socket-dir", str(containerd.sockets)]
        recording = Recording(PlacesOf(places, containerd.env), tmp_path / "pod.jsonl", "--new", "--until-exit")
        try:
            pod = kubelet.run_pod()
            container = kubelet.run(pod, "one", "sleep", "infinity")
            assert kubelet.exec(container, "sh", "-c", "exit 5")[0] == 5
            kubelet.stop_pod(pod)
            recording.wait()
        finally:
            recording.kill()
        expect_clean(kubelet)
    found = replay(recording.path)
    assert found["id"] == pod and found["differences"] == []
    methods = {one["method"] for one in found["requests"]}
    assert {"Create", "Start", "Exec", "Wait", "Kill", "Delete"} <= methods
    assert ("CreateSandbox" in methods) == (kind == "2.3-shim")
