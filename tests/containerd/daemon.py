"""A private containerd for a test: its own root, state, sockets and configuration, and our launcher first in its PATH.

    containerd.ctr("run", "--runtime", RUNTIME, "--config", str(config), "c1")

Every process it starts inherits its environment, which names its directory. By that `leaked_processes` finds them, and
`stop` kills them by pid. When a test fails, containerd's log is in the report.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runhcs.install.linux import write_launcher
from tests.support.eventually import eventually

RUNTIME = "io.containerd.runhcs.v1"
NAMESPACE = "tests"

CACHE = Path(
    os.environ.get("RUNHCS_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"
)
# The tested versions: the distribution's, and two that scripts/go-programs.sh builds.
VERSIONS = {
    "1.6": Path("/usr/bin"),
    "1.7": CACHE / "containerd-v1.7.34",
    "2.3": CACHE / "containerd-v2.3.4",
}

# Plugins that work outside of the test's directory, or that no test of this level needs.
DISABLED_1 = [
    "io.containerd.internal.v1.opt",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
]
DISABLED_2 = [*DISABLED_1, "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
TRACING = ("io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing")
CRI_1 = ["io.containerd.grpc.v1.cri"]
CRI_2 = [*CRI_1, "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]

# A process that holds a network namespace with a loopback interface, and an IPC namespace.
NETWORK_HOLDER = ("unshare", "--net", "--ipc", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0
# By default containerd kills a `delete` after five seconds, and takes a shim for dead that does not answer for five
# seconds after a restart. Whether a busy machine is fast enough is not what these tests test.
SHIM_TIMEOUTS = {"cleanup": "60s", "load": "60s", "shutdown": "30s"}
DELETE_SECONDS = "50"
COMMAND_TIMEOUT = 60.0


def shim_timeouts() -> str:
    """A section of containerd's configuration."""
    values = [f'"io.containerd.timeout.shim.{name}" = "{value}"\n' for name, value in SHIM_TIMEOUTS.items()]
    return "".join(["[timeouts]\n", *values])


class Containerd:
    """A running containerd. `directory` holds all its files; `bundles` is the directory of its tasks."""

    def __init__(
        self,
        version: str,
        env: Mapping[str, str],
        *,
        cri: bool = False,
        config: str = "",
        log_level: str = "debug",
        own_network: bool = False,
        tracing: str = "",
        has_default_timeouts: bool = False,
    ) -> None:
        """`own_network`: run it in a network namespace of its own, for networks of CNI. `tracing`: the endpoint of an
        OTLP receiver, over HTTP. `has_default_timeouts`: containerd's own instead of SHIM_TIMEOUTS."""
        self.version = version
        self.programs = VERSIONS[version]
        assert (self.programs / "containerd").exists(), (
            f"no containerd {version} in {self.programs}: run scripts/go-programs.sh, or apt-get install containerd"
        )
        # The length of Unix socket paths is limited, so the directory is short.
        self.directory = Path(tempfile.mkdtemp(prefix="ctd-", dir="/tmp"))
        self.address = self.directory / "c.sock"
        self.state = self.directory / "state"
        self.bundles = self.state / "io.containerd.runtime.v2.task" / NAMESPACE
        self.sockets = self.directory / "s"
        self.log_path = self.directory / "containerd.log"
        (self.directory / "bin").mkdir()
        self.launcher = write_launcher(self.directory / "bin")
        self.env = {
            **env,
            "PATH": f"{self.directory / 'bin'}:{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "RUNHCS_SOCKET_DIR": str(self.sockets),
        }
        self._tracing = bool(tracing)
        self._has_default_timeouts = has_default_timeouts
        if not has_default_timeouts:
            self.env["RUNHCS_DELETE_SECONDS"] = DELETE_SECONDS
        if tracing:
            self.env |= {
                "OTEL_EXPORTER_OTLP_ENDPOINT": tracing,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_BSP_SCHEDULE_DELAY": "50",
            }
        self.config_path = self.directory / "config.toml"
        self.config_path.write_text(self._config(cri, config))
        self._command = [str(self.programs / "containerd"), "--config", str(self.config_path), "--log-level", log_level]
        self._network: subprocess.Popen[bytes] | None = None
        self.process: subprocess.Popen[bytes] | None = None
        try:
            if own_network:
                self._hold_network()
            self.start()
        except BaseException:
            self.stop()
            raise

    def _config(self, cri: bool, more: str) -> str:
        second = self.version.startswith("2")
        disabled = DISABLED_2 if second else DISABLED_1
        if not cri:
            disabled = disabled + (CRI_2 if second else CRI_1)
        if self._tracing:
            disabled = [name for name in disabled if name not in TRACING]
        listed = ", ".join(f'"{name}"' for name in disabled)
        return (
            f"version = {3 if second else 2}\n"
            f'root = "{self.directory / "root"}"\n'
            f'state = "{self.state}"\n'
            f"disabled_plugins = [{listed}]\n"
            f'[grpc]\naddress = "{self.address}"\n'
            f'[debug]\naddress = "{self.directory / "debug.sock"}"\n'
            f"{'' if self._has_default_timeouts else shim_timeouts()}"
            f"{more}\n"
        )

    # Start and stop.

    def _hold_network(self) -> None:
        holder = self._network = subprocess.Popen(NETWORK_HOLDER, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
        self._command = [*self.enter_network(), *self._command]

    def enter_network(self) -> list[str]:
        """The command that runs another one in the network and IPC namespaces of this containerd."""
        assert self._network is not None, "containerd was started without `own_network`"
        namespaces = Path(f"/proc/{self._network.pid}/ns")
        return ["nsenter", f"--net={namespaces / 'net'}", f"--ipc={namespaces / 'ipc'}", "--"]

    def network_namespace(self) -> str:
        assert self._network is not None, "containerd was started without `own_network`"
        return f"/proc/{self._network.pid}/ns/net"

    def start(self) -> None:
        """Start containerd, also after `terminate` or `kill`. It serves requests when this returns."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.directory,
                start_new_session=True,
            )  # fmt: skip
        eventually(self._is_ready, f"containerd {self.version} serves requests; its log:\n{self.log()}", START_TIMEOUT)

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, f"containerd exited:\n{self.log()}"
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.address))
            except OSError:
                return False
        return self.ctr("version", check=False).returncode == 0

    def terminate(self) -> None:
        """SIGTERM, as in an upgrade: the shims keep running."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as in a crash."""
        self._signal(signal.SIGKILL)

    def restart(self) -> None:
        self.terminate()
        self.start()

    def _signal(self, number: int) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Stop it, kill all processes that it started, and remove its directory."""
        self._signal(signal.SIGTERM)
        for _ in range(50):
            leaked_processes = self.leaked_processes()
            if not leaked_processes:
                break
            for pid in leaked_processes:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
        for point in reversed(self.mounts()):
            subprocess.run(["umount", "-l", point], check=False, timeout=COMMAND_TIMEOUT)
        if self._network is not None:
            self._network.kill()
            self._network.communicate()
        shutil.rmtree(self.directory, ignore_errors=True)

    # Clients.

    def ctr(
        self, *arguments: str, check: bool = True, timeout: float = COMMAND_TIMEOUT, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `ctr` of the same version. With `check`, a failure fails the test and shows containerd's log."""
        result = subprocess.run(
            self.ctr_command(*arguments),
            input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout, env=self.env, check=False,
        )  # fmt: skip
        if check and result.returncode:
            raise AssertionError(
                f"ctr {' '.join(arguments)}: exit code {result.returncode}\n{result.stdout}{result.stderr}\n"
                f"containerd's log:\n{self.log()}"
            )
        return result

    def ctr_command(self, *arguments: str) -> list[str]:
        """The command line, for `Popen`."""
        return [str(self.programs / "ctr"), "--address", str(self.address), "--namespace", NAMESPACE, *arguments]

    def rootfs(self) -> Path:
        """The file system of this machine as a root for containers, which run its programs. `stop` unmounts it."""
        path = self.directory / "rootfs"
        if not path.exists():
            path.mkdir()
            subprocess.run(["mount", "--bind", "/", path], check=True, timeout=COMMAND_TIMEOUT)
        return path

    def config(self, *command: str) -> str:
        """A file with a Windows spec that runs a command with `rootfs` as the container's root."""
        spec = {
            "ociVersion": "1.0.2",
            "process": {"args": list(command), "cwd": "C:\\", "user": {"username": "ContainerAdministrator"}},
            "root": {"path": str(self.rootfs())},
            "windows": {},
        }
        path = self.directory / "spec.json"
        path.write_text(json.dumps(spec))
        return str(path)

    def run(
        self, id: str, *command: str, runtime: str = RUNTIME, flags: Sequence[str] = ("--rm",), check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """`ctr run` of a command in a container with `rootfs` as its root."""
        return self.ctr("run", *flags, "--runtime", runtime, "--config", self.config(*command), id, check=check)

    def log(self, lines: int = 60) -> str:
        """The last lines of containerd's log, which includes the logs of the shims."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def expect_log(self, pattern: str) -> str:
        """Wait for a line of the log that matches, and return it."""

        def search() -> str | None:
            found = re.search(f"^.*(?:{pattern}).*$", self.log_path.read_text(errors="replace"), re.MULTILINE)
            return found.group(0) if found else None

        return str(eventually(search, f"{pattern!r} in containerd's log:\n{self.log()}"))

    # Leak checks.

    def leaked_processes(self) -> list[int]:
        """Processes that containerd or its shims started, without containerd itself: those with its directory in their
        environment."""
        marker = str(self.directory).encode() + b"/"
        own = {os.getpid(), self.process.pid if self.process is not None else -1}
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) in own:
                continue
            try:
                if marker in Path(f"/proc/{entry}/environ").read_bytes():
                    found.append(int(entry))
            except OSError:
                continue  # it exited, or is a kernel thread
        return found

    def mounts(self) -> list[str]:
        points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [point for point in points if point.startswith(str(self.directory) + "/")]

    def shim_mounts(self) -> list[str]:
        """Mounts of containerd and the shims, without that of `rootfs`."""
        return [point for point in self.mounts() if point != str(self.directory / "rootfs")]

    def expect_clean(self) -> None:
        """Wait until containerd has removed every shim, bundle, socket and mount."""

        def leaked() -> list[str]:
            found = [f"process {pid}" for pid in self.leaked_processes()]
            found += [str(path) for path in self.bundles.glob("*")] if self.bundles.exists() else []
            found += [str(path) for path in self.sockets.glob("*")] if self.sockets.exists() else []
            return found + self.shim_mounts()

        try:
            eventually(lambda: not leaked(), "no leaked resource")
        except AssertionError:
            raise AssertionError(f"leaked: {leaked()}\ncontainerd's log:\n{self.log()}") from None
