"""Lifecycles under a real containerd, through its gRPC API: latency as a client of containerd sees it.

The containerd is a private one, of the baseline's version, with root, state and sockets below the run's directory.
Every candidate is a runtime of it, given by its path.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from bench.harness import bundles, leaks, standby
from bench.harness.candidates import STANDBY, Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import new_id
from bench.harness.go_programs import cache_directory
from bench.harness.prerequisites import PrerequisiteError
from runhcs.containerd.client import Client, ContainerdError
from runhcs.install.linux import write_launcher

PROFILE = "containerd"
MEASURES = ("Create", "Start", "Exec and Start", "Kill to exit", "Delete", "Create to running")
EXEC = "probe"
TIMEOUT = 60.0
# Plugins that use paths outside of the directory or are not needed. Names of 1.x and of 2.x.
DISABLED = [
    "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]  # fmt: skip


def find_containerd(context: SuiteContext) -> Path:
    """The containerd beside the baseline's shim, which may not work under another one; else the newest."""
    for one in context.central:
        sibling = one.program.parent / "containerd"
        if one.name == context.run.baseline and sibling.exists():
            return sibling
    built = sorted(cache_directory().glob("containerd-v*/containerd"))
    installed = shutil.which("containerd")
    if not built and installed is None:
        raise PrerequisiteError("measure containerd needs containerd: install it or run scripts/go-programs.sh")
    return built[-1] if built else Path(str(installed))


class Containerd:
    """A running containerd; use as a context manager."""

    def __init__(self, binary: Path, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.address = directory / "c.sock"
        self.state = directory / "state"
        directory.mkdir()
        config = directory / "config.toml"
        config.write_text(
            f'version = 2\nroot = "{directory / "root"}"\nstate = "{self.state}"\ndisabled_plugins = {DISABLED}\n'
            f'[grpc]\naddress = "{self.address}"\n[debug]\naddress = "{directory / "debug.sock"}"\n'
        )
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [binary, "--config", config, "--log-level", "warn"], cwd=directory, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Containerd:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.address)) == 0:
                    return self
            time.sleep(0.05)
        log = self._log.read_text(errors="replace")[-2000:]
        self.__exit__()
        raise RuntimeError(f"containerd does not start: {log}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def bundles(self) -> list[str]:
        return [f"bundle {path}" for path in self.state.glob("io.containerd.runtime.v2.task/*/*")]


def measure(context: SuiteContext) -> None:
    binary = find_containerd(context)
    directory = context.node.directory / "containerd"
    environment = context.node.environment | {"RUNHCS_SOCKET_DIR": str(context.node.directory / "sc")}
    candidates = [_as_runtime(context, one) for one in context.central]
    try:
        with Containerd(binary, directory, environment) as daemon, Client(str(daemon.address), "bench") as client:
            deadline = time.monotonic() + TIMEOUT
            context.run.environment["containerd"] = _version(client, deadline)
            sizes = context.sizes
            rounds = context.rounds("under containerd", candidates, sizes.containerd_rounds, sizes.short_warm_up)
            for candidate, is_kept in rounds:
                times = context.attempt(candidate, PROFILE, lifecycle, context, candidate, client)
                if times is not None and is_kept:
                    for name in MEASURES:
                        context.measure(name, "ms", "latency", PROFILE).add(candidate.name, times[name])
            for text in leaks.wait_none(daemon.bundles):
                context.run.violation("all", "leak", f"leaked {text}", PROFILE)
    finally:
        for candidate in candidates:
            for pid in standby.pids(candidate):
                os.kill(pid, signal.SIGKILL)


def _version(client: Client, deadline: float) -> str:
    while True:
        try:
            return client.version().version
        except ContainerdError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _as_runtime(context: SuiteContext, candidate: Candidate) -> Candidate:
    """All shims inherit containerd's environment, so a candidate's own settings have to be in its program."""
    if not candidate.is_ours:
        return candidate
    has_standby = candidate.name == STANDBY
    binaries = context.node.directory / ("bin-standby" if has_standby else "bin-cold")
    binaries.mkdir(exist_ok=True)
    variables = {"RUNHCS_SOCKET_DIR": str(context.node.directory / "sc"), "RUNHCS_STANDBY": "1" if has_standby else "0"}
    return Candidate(candidate.name, write_launcher(binaries, has_standby), variables)


def lifecycle(context: SuiteContext, candidate: Candidate, client: Client) -> dict[str, float]:
    """Milliseconds of each step."""
    times: dict[str, float] = {}
    name = new_id()
    bundle = bundles.Bundle(context.node.directory, name, bundles.PROCESS, windows=candidate.is_ours)
    context.node.ids.add(name)
    try:
        options = candidate.options(context.node.directory)
        client.create_container(name, bundle.spec, runtime=str(candidate.program), options=options)
        try:
            begin = time.perf_counter()
            client.create_task(name)
            times["Create"] = _since(begin)
            try:
                _task(client, name, candidate.is_ours, times)
                times["Create to running"] = times["Create"] + times["Start"]
            finally:
                begin = time.perf_counter()
                client.delete_task(name)
                times["Delete"] = _since(begin)
        finally:
            client.delete_container(name)
    except ContainerdError as error:
        raise RuntimeError(str(error)) from error
    finally:
        if not leaks.mounts(bundle.path):
            shutil.rmtree(bundle.path, ignore_errors=True)
    return times


def _task(client: Client, id: str, windows: bool, times: dict[str, float]) -> None:
    begin = time.perf_counter()
    client.start(id)
    times["Start"] = _since(begin)
    try:
        begin = time.perf_counter()
        client.exec(id, EXEC, bundles.process(id, bundles.EXEC_EXIT, windows=windows))
        client.start(id, EXEC)
        times["Exec and Start"] = _since(begin)
        client.wait(id, EXEC)
        client.delete_exec(id, EXEC)
    finally:
        waiting = client.begin_wait(id, timeout=TIMEOUT)
        begin = time.perf_counter()
        client.kill(id, signal.SIGKILL)
        waiting.result()
        times["Kill to exit"] = _since(begin)


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3
