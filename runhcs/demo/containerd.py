"""A private containerd, below the demo's directory, and `ctr` on it: the machine's own containerd is not touched."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from runhcs.demo import DemoError, process_tree
from runhcs.demo.workspace import NAMESPACE, Workspace

RUNTIME = "io.containerd.runhcs.v1"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
COMMAND_TIMEOUT = 60.0
# What would look at other places of the machine, and what no container of the demo needs. Names of 1.x and of 2.x.
_DISABLED = [
    "io.containerd.cri.v1.images",
    "io.containerd.cri.v1.runtime",
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]


def is_installed() -> bool:
    return shutil.which("containerd") is not None and shutil.which("ctr") is not None


class Containerd:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.address = workspace.directory / "c.sock"
        self.state = workspace.directory / "state"
        self._log = workspace.directory / "containerd.log"
        # The launcher comes first in the path, so this containerd runs this shim, whatever is installed.
        self.env = workspace.env | {
            "PATH": f"{workspace.directory / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "CONTAINERD_ADDRESS": str(self.address),
            "CONTAINERD_NAMESPACE": NAMESPACE,
        }
        config = workspace.directory / "containerd.toml"
        config.write_text(
            f'version = 2\nroot = "{workspace.directory / "root"}"\nstate = "{self.state}"\n'
            f"disabled_plugins = {_DISABLED}\n"
            f'[grpc]\naddress = "{self.address}"\n[debug]\naddress = "{workspace.directory / "debug.sock"}"\n'
        )
        with self._log.open("wb") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                ["containerd", "--config", str(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=workspace.directory,
                start_new_session=True,
            )  # fmt: skip

    def wait_until_it_answers(self) -> str:
        """Its version."""
        deadline = time.monotonic() + START_TIMEOUT
        while self._process is not None and self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.address)) == 0:
                    done = self.ctr("version")
                    if done.returncode == 0:
                        server = done.stdout.decode().partition("Server:")[2]
                        return server.partition("Version:")[2].split()[0]
            time.sleep(0.02)
        raise DemoError(f"containerd does not start:\n{self.log()}")

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return process_tree.run(
            ["ctr", *arguments], cwd=self._workspace.directory, env=self.env, timeout=COMMAND_TIMEOUT
        )

    def follow_events(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ctr", "events"], env=self.env, cwd=self._workspace.directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def log(self, lines: int = 10) -> str:
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def tasks(self) -> list[Path]:
        """The bundles of tasks that containerd knows."""
        return list(self.state.glob("io.containerd.runtime.v2.task/*/*"))

    def remove_containers(self) -> None:
        """Those that somebody made meanwhile."""
        for namespace in self._words("namespaces", "ls", "-q"):
            for task in self._words("-n", namespace, "task", "ls", "-q"):
                self._words("-n", namespace, "task", "delete", "-f", task)
            for container in self._words("-n", namespace, "container", "ls", "-q"):
                self._words("-n", namespace, "container", "delete", container)

    def _words(self, *arguments: str) -> list[str]:
        try:
            return self.ctr(*arguments).stdout.decode().split()
        except (OSError, subprocess.SubprocessError):
            return []

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            self.remove_containers()
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for path in (self.address, Path(f"{self.address}.ttrpc"), self._workspace.directory / "debug.sock"):
            path.unlink(missing_ok=True)  # some versions leave their own sockets
