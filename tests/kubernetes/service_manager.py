"""What systemd is on a node: it starts containerd again whenever it exits. A pod cannot: a containerd that it started
would be in the pod's control group, and end with the pod."""

from __future__ import annotations

import threading
from pathlib import Path

from deploy.cluster.containerd import Containerd
from deploy.cluster.processes import reap

INTERVAL = 0.1
TIMEOUT = 120.0


class ServiceManager:
    def __init__(self, containerd: Containerd) -> None:
        self.restarts = 0
        self._containerd = containerd
        self._stopped = threading.Event()
        settings = containerd.settings
        #: A program that restarts containerd, as `systemctl restart containerd` does.
        self.restart: Path = settings.directory / "restart-containerd"
        self.restart.write_text(f"#!/bin/sh\nkill $(cut -d' ' -f1 {settings.directory}/run/containerd.pid)\n")
        self.restart.chmod(0o755)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        pid = self._containerd.pid
        while not self._stopped.wait(INTERVAL):
            reap(pid)
            if not self._containerd.pid:
                self.restarts += 1
                self._containerd.start_serving()
                pid = self._containerd.pid

    def stop(self) -> None:
        """Leaves containerd running."""
        self._stopped.set()
        self._thread.join(TIMEOUT)
