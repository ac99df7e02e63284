"""The containerd of a cluster's node, its runtimes, and the HCS emulator that they use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.cluster import images, programs
from deploy.cluster.processes import Daemon
from deploy.cluster.settings import ClusterError, Settings
from runhcs.config import containerd as runtimes_toml
from runhcs.config.runtimes import LCOW, PROCESS, runtimes
from runhcs.install.linux import write_launcher

NAMESPACE = "k8s.io"
START_TIMEOUT = 60.0
COMMAND_TIMEOUT = 120.0
#: The runtimes of this shim that the node offers, as named by `runhcs config`. A release and a size select what a pod
#: gets; hypervisor runtimes for Windows images need images that Linux nodes do not have.
RUNTIMES = (LCOW, f"{LCOW}-1vp2gb", f"{LCOW}-2vp4gb", PROCESS)

# Plugins that work outside of the cluster's directory, or that it does not need.
DISABLED = (
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
)
CONFIG = """\
version = 3
root = "{directory}/root"
state = "{state}"
imports = ["{imports}/*.toml"]
disabled_plugins = [{disabled}]
[grpc]
  address = "{socket}"
[debug]
  address = "{directory}/debug.sock"
  level = "info"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{sandbox}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  # Root of a container or VM may lack the right to lower it.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{plugins}"]
  conf_dir = "{directory}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "{runtime}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{runc}"
"""


class Containerd(Daemon):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "containerd")
        self.programs = programs.containerd_directory()
        self.env = {
            **os.environ,
            "PATH": f"{settings.bin}:{self.programs}:{programs.PATH}",
            "HCS_EMULATOR_DIR": str(settings.emulator),
            "RUNHCS_SOCKET_DIR": str(settings.shim_sockets),
        }

    def configure(self) -> None:
        settings = self.settings
        settings.containerd_imports.mkdir(exist_ok=True)
        settings.bin.mkdir(exist_ok=True)
        (settings.directory / "containerd.toml").write_text(
            CONFIG.format(
                directory=settings.directory,
                state=settings.containerd_state,
                imports=settings.containerd_imports,
                disabled=", ".join(f'"{name}"' for name in DISABLED),
                socket=settings.containerd_socket,
                sandbox=images.SANDBOX,
                plugins=programs.CNI_PLUGINS,
                runtime=settings.runtime,
                runc=programs.system("runc"),
            )
        )
        if settings.with_shim:
            write_launcher(settings.bin)
            text = runtimes_toml.text(runtimes(list(RUNTIMES)), 2, with_default=False, emulator=True)
            (settings.containerd_imports / "runhcs.toml").write_text(text)

    def start_serving(self) -> None:
        """Start it and wait until it answers."""
        config = self.settings.directory / "containerd.toml"
        self.start([str(self.programs / "containerd"), "--config", str(config)], self.env)
        self.wait_for(lambda: self.ctr("version", check=False).returncode == 0, "it answers", START_TIMEOUT)

    def ctr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(self.programs / "ctr"), "--address", str(self.settings.containerd_socket), "-n", NAMESPACE]
        result = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=COMMAND_TIMEOUT, env=self.env, check=False
        )
        if check and result.returncode:
            raise ClusterError(f"ctr {' '.join(arguments)} failed: {result.stderr.strip()}")
        return result

    def load(self, archive: Path) -> None:
        """Import the images of an archive."""
        self.ctr("images", "import", str(archive))


class Emulator(Daemon):
    """The HCS emulator of the node, in the directory `hcs` of the cluster."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "hcs-emulator")

    def start_serving(self) -> None:
        # It serves compute systems of the whole machine: it is the machine's Host Compute Service.
        directory = str(self.settings.emulator)
        self.start(
            [sys.executable, "-m", "hcs_emulator.service", "--directory", directory,
             "--linux-guest", self.settings.guest],
            os.environ | {"HCS_EMULATOR_DIR": directory, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        control = self.settings.emulator / "control.sock"
        self.wait_for(control.exists, "it listens", START_TIMEOUT)
