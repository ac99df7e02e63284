"""`runhcs record` beside a real containerd, and the replay of what it recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containerd.node import Node
from tests.containerd.pods import CriPod, connect
from tests.support.agent import PlacesOf
from tests.support.recording import Recording
from tests.support.vm_image import options

REPLAY_SECONDS = 120


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
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "replay", "--json", str(recording.path)],
        capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    assert found["id"] == pod.id and found["differences"] == []
    assert {"Create", "Start", "Exec", "Wait", "Kill", "Delete"} <= {one["method"] for one in found["requests"]}
