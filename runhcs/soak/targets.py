"""The long-lived shims of a soak, on which slopes are measured: probes, Stats, and restarts of members."""

from __future__ import annotations

import time
from random import Random

from runhcs.soak.containers import FOREVER, SoakContainer, SoakHost
from runhcs.soak.events import AccountError
from shim.api.types import Status

#: After so many probes the container of a pod is replaced, as the kubelet does after a failed liveness probe.
PROBES_PER_RESTART = 40


class Target:
    """A container by itself (`container`, or `vm` in a utility VM), or a pod whose member restarts (`pod`)."""

    def __init__(self, host: SoakHost, kind: str, random: Random, stats_seconds: float) -> None:
        self.kind = kind
        self.probes = self.stats = self.restarts = 0
        #: Set by another thread: connect again before the next call.
        self.must_reconnect = False
        self._host = host
        self._random = random
        self._stats_seconds = stats_seconds
        self._next_stats = time.monotonic()
        self._in_vm = kind == "vm"
        self.shim = SoakContainer(host, kind, FOREVER, in_vm=self._in_vm, is_sandbox=kind == "pod").run()
        self._container = self._member() if kind == "pod" else self.shim

    def _member(self) -> SoakContainer:
        return SoakContainer(self._host, "member", FOREVER, pod=self.shim).run()

    def step(self) -> None:
        """One probe, and what is due besides. Raises AccountError, StatusError and OSError."""
        if self.must_reconnect:
            self.must_reconnect = False
            for one in {self.shim.id: self.shim, self._container.id: self._container}.values():
                one.reconnect()
        if time.monotonic() >= self._next_stats:
            self.query()
            self._next_stats = time.monotonic() + self._stats_seconds
        if self.kind == "pod" and self.probes % PROBES_PER_RESTART == PROBES_PER_RESTART - 1:
            self.restart()
        self._container.probe(f"probe{self.probes}", self._random.randrange(256))
        self.probes += 1

    def query(self) -> None:
        """What containerd asks a running container for metrics."""
        task = self._container.client
        task.stats()
        self.stats += 1
        if not task.pids() or task.state().status != Status.RUNNING:
            raise AccountError(f"{self._container.id} does not run any more")

    def restart(self) -> None:
        self._container.kill()
        self._container.close()
        self._container = self._member()
        self.restarts += 1

    def end(self) -> None:
        if self._container is not self.shim:
            self._container.kill()
            self._container.close()
        self.shim.kill()
        self.shim.close()
