"""`runhcs soak` on the emulator: a healthy shim passes, a planted leak and a lost event are found, Ctrl-C cleans up."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.install.linux import write_launcher
from runhcs.task_events import SERVICE, exec_of, read
from shim.platform import endpoint
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Method, Server
from tests.support.emulator import Emulator
from tests.support.eventually import eventually

TIMEOUT = 240


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where the soak creates its own directory. Paths of sockets are short, and pytest's directories are not."""
    with tempfile.TemporaryDirectory(prefix="st", dir="/tmp") as path:
        yield Path(path)
        assert not list(Path(path).glob("runhcs-soak-*")), "the soak has left its directory"


def start(emulator: Emulator, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runhcs", "soak", "--json", str(directory / "soak.json"), *arguments],
        env=emulator.env | {"TMPDIR": str(directory)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(soak: subprocess.Popen[str], directory: Path) -> tuple[int, dict[str, Any], str]:
    """The exit code, the results, and what it printed."""
    try:
        out, errors = soak.communicate(timeout=TIMEOUT)
    finally:
        soak.kill()
    path = directory / "soak.json"
    assert path.exists(), errors
    return soak.returncode, json.loads(path.read_text()), out + errors


def expect_nothing_left(emulator: Emulator) -> None:
    status = emulator.control("status")
    assert (status["systems"], status["handles"]) == ([], 0)
    eventually(lambda: not emulator.descendants(), "no process left")
    assert not emulator.mounts()


def test_healthy_shim_passes_and_everything_is_accounted_for(emulator: Emulator, directory: Path) -> None:
    page = directory / "soak.html"
    arguments = ("--lifecycles", "24", "--probes", "120", "--restart-seconds", "1", "--sample-seconds", "0.2",
                 "--stats-seconds", "0.5", "--seed", "5", "--html", str(page))  # fmt: skip
    code, results, output = finish(start(emulator, directory, *arguments), directory)
    assert results["problems"] == [], output
    counts = results["counts"]
    assert counts["lifecycles"] >= 24 and counts["probes"] >= 120, counts
    assert counts["stats"] and counts["containerd restarts"], counts
    assert sum(counts[kind] for kind in ("exits", "killed", "pod", "vm", "crash") if kind in counts) >= 24
    # Each probe has four events, and each lifecycle at least its own, also those before the samples begin.
    assert counts["events"] >= 4 * counts["probes"], counts
    processes = {trend["process"] for trend in results["trends"]}
    assert processes == {"shim of container", "shim of pod", "shim of vm", "guest of vm", "emulator", "node"}
    metrics = {trend["metric"] for trend in results["trends"]}
    assert metrics == {"memory", "handles", "threads", "files", "compute systems", "HCS handles"}
    # So short a run may see memory grow; nothing else does.
    growing = {trend["metric"] for trend in results["trends"] if trend["is_significant"]}
    assert growing <= {"memory"} and code == (1 if growing else 0), output
    assert "<svg" in page.read_text() and "shim of pod" in page.read_text()
    expect_nothing_left(emulator)


def leak_connections(directory: Path, ended: threading.Event, kept: list[socket.socket]) -> None:
    """Each connection that nobody closes is a descriptor of the shim, and a thread: more of them would slow it down."""
    while not ended.wait(0.25):
        for path in directory.glob("runhcs-soak-*/s/*"):
            client = socket.socket(socket.AF_UNIX)
            try:
                client.connect(str(path))
            except OSError:
                client.close()
            else:
                kept.append(client)


def test_leak_of_the_shim_is_found(emulator: Emulator, directory: Path) -> None:
    ended = threading.Event()
    kept: list[socket.socket] = []
    leaking = threading.Thread(target=leak_connections, args=(directory, ended, kept))
    # By lifecycles, not by time: on a busy machine the run is longer, and has as many samples.
    limits = ("--hours", "0.04", "--lifecycles", "30")
    soak = start(emulator, directory, *limits, "--sample-seconds", "0.2", "--workers", "1")
    leaking.start()
    try:
        code, results, output = finish(soak, directory)
    finally:
        ended.set()
        leaking.join(30)
        for client in kept:
            client.close()
    assert code == 1 and not results["passed"], output
    found = {(trend["process"], trend["metric"]) for trend in results["trends"] if trend["is_significant"]}
    assert {("shim of container", "handles"), ("shim of pod", "handles")} <= found, output
    assert ("emulator", "handles") not in found, output
    assert "handles of shim of container grows by" in output and "runhcs soak: failed: " in output
    expect_nothing_left(emulator)


class LossyEvents:
    """Between shims and their containerd: forwards all events but the first exit of a member of a pod."""

    def __init__(self, directory: Path) -> None:
        self.address = str(directory / "lossy")
        self.target = directory / "target"
        self.lost: list[str] = []
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.address)
        listener.listen(64)
        self._server = Server({SERVICE: {"Forward": Method.worker(self._forward)}})
        threading.Thread(target=self._server.serve, args=(listener,), daemon=True).start()

    def _forward(self, call: Call) -> bytes:
        found = read(call.payload)
        assert found is not None
        kind, event = found
        if kind == "exit" and not exec_of(event) and event.container_id.endswith("-member") and not self.lost:
            self.lost.append(event.container_id)
            return b""
        client = Client(endpoint.connect(self.target.read_text().strip(), 10))
        try:
            return client.call(SERVICE, "Forward", call.payload, timeout=30)
        finally:
            client.close()

    def close(self) -> None:
        self._server.shutdown(2)


def test_lost_event_is_found(emulator: Emulator, directory: Path) -> None:
    launcher = write_launcher(directory / "bin")
    lossy = LossyEvents(directory)
    shim = directory / "shim"
    shim.write_text(
        f'#!/bin/sh\necho "$TTRPC_ADDRESS" > {lossy.target}.new && mv {lossy.target}.new {lossy.target}\n'
        f'TTRPC_ADDRESS={lossy.address} exec {launcher} "$@"\n'
    )
    shim.chmod(0o755)
    try:
        soak = start(emulator, directory, "--shim", str(shim), "--lifecycles", "4", "--probes", "20")
        code, results, output = finish(soak, directory)
    finally:
        lossy.close()
    assert lossy.lost and code == 1 and not results["passed"], output
    expected = f"the events of {lossy.lost[0]} are create, start, delete "
    assert any(expected in problem for problem in results["problems"]), output
    # It is shown when it happens, and at the end.
    assert output.count(expected) >= 2, output
    expect_nothing_left(emulator)


def test_interrupt_removes_everything_and_reports(emulator: Emulator, directory: Path) -> None:
    soak = start(emulator, directory, "--hours", "1")
    eventually(lambda: len(list(directory.glob("runhcs-soak-*/bundles/*"))) >= 3, "containers of the soak", 120)
    os.kill(soak.pid, signal.SIGINT)
    code, results, output = finish(soak, directory)
    assert code == 130 and results["interrupted"] and results["problems"] == [], output
    expect_nothing_left(emulator)


def test_nothing_begins_while_the_pause_file_exists_and_that_time_does_not_count(
    emulator: Emulator, directory: Path
) -> None:
    pause = directory / "pause"
    pause.touch()
    begun = time.monotonic()
    soak = start(emulator, directory, "--lifecycles", "4", "--probes", "20", "--pause-file", str(pause))
    assert soak.stderr is not None
    assert "0 lifecycles" in soak.stderr.readline()
    calls: list[int] = []

    def is_idle() -> bool:
        calls.append(emulator.control("status")["calls"])
        return len(calls) > 1 and calls[-1] == calls[-2]

    eventually(is_idle, "no HCS call for two seconds", interval=2.0)
    paused = time.monotonic()
    calls.clear()
    eventually(is_idle, "no HCS call for two seconds more", interval=2.0)
    paused = time.monotonic() - paused
    pause.unlink()
    code, results, output = finish(soak, directory)
    assert code == 0 and results["problems"] == [], output
    assert results["counts"]["pauses"] == 1 and results["counts"]["lifecycles"] >= 4, results["counts"]
    assert results["seconds"] <= time.monotonic() - begun - paused
    expect_nothing_left(emulator)


def test_missing_directory_of_the_results_is_refused_before_the_run(emulator: Emulator, directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "soak", "--html", str(directory / "none" / "soak.html")],
        env=emulator.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "its directory is missing" in done.stderr
