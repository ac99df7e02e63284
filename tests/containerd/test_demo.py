"""`runhcs demo` with each version of containerd: its commands work, and it reports and terminates leaked processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.containerd.daemon import VERSIONS

TIMEOUT = 110
DEMO = [sys.executable, "-m", "runhcs", "demo", "--json"]


@pytest.fixture
def environment(version: str) -> Iterator[dict[str, str]]:
    directory = tempfile.mkdtemp(prefix="d-", dir="/tmp")
    path = f"{directory}/bin:{VERSIONS[version]}:{os.environ['PATH']}"
    os.mkdir(f"{directory}/bin")
    yield os.environ | {"TMPDIR": directory, "PATH": path}
    remaining = os.listdir(directory)
    shutil.rmtree(directory, ignore_errors=True)
    assert remaining == ["bin"]


def run(environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(DEMO, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, json.loads(done.stdout)


def test_json_result(environment: dict[str, str], version: str) -> None:
    code, result = run(environment)
    assert code == 0 and result["ok"], result
    part = next(part for part in result["parts"] if part["name"] == "containerd")
    assert version in part["containerd"]
    commands = {" ".join(command["command"].split()[1:3]): command for command in part["commands"]}
    assert commands["run --rm"]["exit_code"] == 3
    assert "Hello from a Windows base layer." in commands["run --rm"]["output"]
    assert "WEB" in commands["task exec"]["output"]
    assert "RUNNING" in commands["task ls"]["output"]
    for command in ("task ps", "task metrics", "task kill", "task delete", "container delete"):
        assert commands[command]["exit_code"] == 0
    tasks = [topic for topic in part["events"]["hello"] if topic.startswith("/tasks/")]
    assert tasks == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    assert not any(result["left"].values())


@pytest.mark.parametrize("version", ["1.6"])
def test_leaked_process_is_reported_and_terminated(environment: dict[str, str], version: str) -> None:
    """A wrapper of `ctr` leaks an orphaned process."""
    ctr = Path(environment["TMPDIR"]) / "bin" / "ctr"
    ctr.write_text(
        '#!/bin/sh\n[ "$1" = container ] && setsid sleep 654321 </dev/null >/dev/null 2>&1 &\n'
        f'exec {VERSIONS[version] / "ctr"} "$@"\n'
    )
    ctr.chmod(0o755)
    code, result = run(environment)
    assert code == 1 and not result["ok"]
    assert result["error"] is None  # everything else worked
    (found,) = result["left"]["processes"]
    pid = found.split()[0]
    assert "sleep 654321" in found and not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("version", ["1.6"])
def test_containers_created_during_keep_are_removed(environment: dict[str, str], version: str) -> None:
    process = subprocess.Popen(
        [*DEMO, "--keep"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        directory = None
        for line in process.stderr:
            if line.strip().startswith("cd "):
                directory = line.split()[1]
            if "hello.json" in line:  # the last command that it suggests
                break
        assert directory is not None
        command = ["ctr", "-a", f"{directory}/c.sock", "-n", "demo", "run", "-d", "--null-io"]
        command += ["--runtime", "io.containerd.runhcs.v1", "--config", f"{directory}/web.json", "mine"]
        subprocess.run(command, env=environment, check=True, timeout=60, capture_output=True)
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert not any(json.loads(out)["left"].values())
