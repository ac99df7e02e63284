"""Start and stop a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path

import attrs

from deploy.cluster import certificates, control_plane, host, images, leaks, network, pods, programs
from deploy.cluster.containerd import RUNTIMES, Containerd, Emulator
from deploy.cluster.kubelet import Kubelet
from deploy.cluster.processes import with_text_in_environment
from deploy.cluster.settings import NODE, ClusterError, Settings
from runhcs.config import runtimeclass
from runhcs.config.runtimes import runtimes
from runhcs.containerd.client import ContainerdError

NODE_TIMEOUT = 300.0
LEAK_TIMEOUT = 60.0
KILL_TIMEOUT = 30.0


class Cluster:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.emulator = Emulator(settings)
        self.containerd = Containerd(settings)
        self.kubelet = Kubelet(settings)

    def up(self) -> None:
        """Start everything. When this returns, the node is ready."""
        settings = self.settings
        if os.geteuid():
            raise ClusterError("namespaces, mounts and control groups need root: use sudo")
        programs.check(control_plane=settings.with_control_plane)
        if _file(settings.directory).exists():
            raise ClusterError(f"{settings.directory} has a cluster already: use it, or stop it with `down`")
        if settings.directory.exists() and any(settings.directory.iterdir()):
            raise ClusterError(f"{settings.directory} is not empty: choose another --directory, or empty it")
        settings.directory.mkdir(parents=True, exist_ok=True)
        _file(settings.directory).write_text(json.dumps(attrs.asdict(settings), default=str))
        certificates.create(settings)
        network.create(settings)
        host.prepare(settings)
        self._start_node_services()
        if settings.with_control_plane:
            control_plane.start(settings)
        self.kubelet.configure()
        self.kubelet.start_serving()
        if settings.with_control_plane:
            self._wait_for_node()

    def _start_node_services(self) -> None:
        if self.settings.with_shim:
            self.emulator.start_serving()
        self.containerd.configure()
        self.containerd.start_serving()
        for name in (images.BUSYBOX, images.SANDBOX):
            archive = self.settings.directory / "image.tar"
            self.containerd.load(images.write_busybox(archive, name))
            archive.unlink()

    def _wait_for_node(self) -> None:
        def is_ready() -> bool:
            path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
            shown = control_plane.kubectl(self.settings, "get", "node", NODE, "-o", path, check=False)
            return shown.stdout == "True"

        self.kubelet.wait_for(is_ready, "the node is ready", NODE_TIMEOUT)
        # The controller manager creates it a moment later; pods need it.
        account = ("get", "serviceaccount", "default")
        self.kubelet.wait_for(
            lambda: control_plane.kubectl(self.settings, *account, check=False).returncode == 0,
            "the namespace `default` has a service account",
            NODE_TIMEOUT,
        )

    def apply_runtime_classes(self) -> None:
        """Create the RuntimeClasses of the shim's runtimes, as `runhcs config runtimeclass` prints them."""
        text = runtimeclass.text(runtimes(list(RUNTIMES)), emulator=True)
        control_plane.kubectl(self.settings, "apply", "-f", "-", stdin=text)

    def down(self) -> list[str]:
        """Stop everything and remove all files. Returns what pods had left on the machine; that is removed, too."""
        if not _file(self.settings.directory).exists():
            raise ClusterError(f"{self.settings.directory} has no cluster")
        problems = self.stop_pods()
        for daemon in reversed(control_plane.daemons(self.settings)):
            daemon.stop()
        self.containerd.stop()
        self.emulator.stop()
        self._remove()
        return problems

    def stop_pods(self) -> list[str]:
        """Stop the kubelet and remove all pods. Returns what they have left."""
        self.kubelet.stop()
        try:
            if not self.containerd.pid:
                self.containerd.start_serving()
            pods.remove_all(self.settings)
        except (ClusterError, ContainerdError) as error:
            return [f"pods: {error}"]
        # The kubelet would have removed the volumes and groups of the pods. What is in the groups is the runtime's.
        host.unmount(self.settings.directory / "kubelet" / "pods")
        host.remove_pod_cgroups(self.settings)
        deadline = time.monotonic() + LEAK_TIMEOUT
        while (found := leaks.pod_resources(self.settings)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _remove(self) -> None:
        """Remove what is left, whatever it is."""
        settings = self.settings
        deadline = time.monotonic() + KILL_TIMEOUT
        while (left := with_text_in_environment(f"={settings.directory}/")) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        host.unmount(settings.directory)
        network.delete(settings)
        host.restore(settings)
        shutil.rmtree(settings.directory)


def read(directory: Path) -> Cluster:
    """The cluster that was started in a directory."""
    try:
        stored = json.loads(_file(directory).read_text())
    except OSError:
        raise ClusterError(f"{directory} has no cluster: start one with `up`, or give its --directory") from None
    return Cluster(Settings(**stored | {"directory": Path(stored["directory"])}))


def _file(directory: Path) -> Path:
    return directory / "cluster.json"
