"""Kills shims at any point of any lifecycle, runs `delete` as containerd does, and checks that nothing is left.

The point is a call of HCS or HCN, counted from the start of the shim: it is delayed, and the shim is killed while it
waits for the result. If the lifecycle makes fewer calls, the shim is killed after its last step.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from shim.container.ledger import Ledger
from shim.ttrpc.status import ClosedError, StatusError
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims
from tests.support.vm_image import SLEEP, VmShims

PROCESS, HYPERVISOR, POD = "process", "hypervisor", "pod"
#: Calls that acquire or release something, of all kinds of containers.
CALLS = (
    "HcsCreateComputeSystem", "HcsStartComputeSystem", "HcsModifyComputeSystem", "HcsTerminateComputeSystem",
    "HcsShutDownComputeSystem", "HcsGetComputeSystemProperties", "HcsCreateProcess", "HcsTerminateProcess",
    "HcsSignalProcess", "HcsCloseComputeSystem", "HcsCloseProcess", "HcsGrantVmAccess",
    "PrepareLayer", "ActivateLayer", "UnprepareLayer", "DeactivateLayer", "GetLayerMountPath", "CreateSandboxLayer",
)  # fmt: skip
DELAY = 0.25


@dataclass(frozen=True)
class Crash:
    """`steps` are those of the lifecycle, in any order; what fails is ignored. `delayed` is a call, and which one."""

    kind: str
    steps: tuple[str, ...]
    delayed: tuple[str, int] | None
    repeats: int


class LedgerHost:
    def __init__(self, emulator: Emulator, shims: Shims) -> None:
        self.steps = 0
        self._emulator = emulator
        self._shims = shims
        self._vms = VmShims(emulator, shims)

    def run(self, crash: Crash) -> None:
        self.steps += 1
        name = f"k{self.steps}"
        started = [self._start(crash.kind, name)]
        self._emulator.control("fault-clear")
        if crash.delayed is not None:
            self._emulator.fault(crash.delayed[0], nth=crash.delayed[1], delay=DELAY)
        try:
            self._run_until_killed(crash, started)
        finally:
            self._emulator.control("fault-clear")
            started[0].owner.clients.clear()
        # containerd runs it for each container, the pod's sandbox last, and may repeat it.
        for _ in range(crash.repeats):
            for shim in reversed(started):
                shim.delete_command()
        self._expect_clean(started, crash)
        for shim in started:
            self._shims.shims.remove(shim)
            shutil.rmtree(shim.path, ignore_errors=True)

    def _run_until_killed(self, crash: Crash, started: list[Shim]) -> None:
        shim = started[0]
        running = threading.Thread(target=self._perform, args=(crash, started))
        running.start()
        eventually(lambda: self._is_delayed(crash) or not running.is_alive(), "the point of the crash", 120)
        if shim.alive:
            shim.kill_daemon()
        running.join(120)
        assert not running.is_alive()

    def _is_delayed(self, crash: Crash) -> bool:
        return crash.delayed is not None and bool(self._emulator.control("fault-list")["faults"][0]["triggered"])

    def _start(self, kind: str, id: str) -> Shim:
        if kind == PROCESS:
            spec = self._shims.spec("sleep", "600")
            self._shims.rootfs()
            spec["windows"]["layerFolders"] = [str(self._shims.image), str(self._shims.directory / "scratch" / id)]
            return self._shims.start(id, spec)
        if kind == HYPERVISOR:
            return self._vms.start(id, *SLEEP)
        return self._shims.start(id, self._vms.spec("pause", pod=id, role="sandbox"))

    def _perform(self, crash: Crash, started: list[Shim]) -> None:
        for step in crash.steps:
            try:
                self._step(crash.kind, step, started)
            except StatusError:
                pass  # a step that this state does not allow
            except (ClosedError, OSError):
                return  # killed

    def _step(self, kind: str, step: str, started: list[Shim]) -> None:
        shim = started[0]
        if step == "create":
            if kind == PROCESS:
                shim.create()
            else:
                self._vms.create(shim)
        elif step == "workload" and kind == POD and len(started) == 1 and shim.alive:
            spec = self._vms.spec(*SLEEP, pod=shim.id, role="container")
            try:
                workload = self._shims.start(f"{shim.id}w", spec)
            except AssertionError:
                return  # `start` of a workload fails when the pod's shim has been killed
            started.append(workload)
            self._vms.create(workload)
            workload.start()
        elif step == "exec":
            shim.exec("e1", self._shims.process("sleep", "600"))
            shim.start("e1")
        elif step == "kill":
            shim.kill(9)
            shim.wait()
        else:
            {"start": shim.start, "stats": shim.stats, "pids": shim.pids, "delete": shim.delete}.get(step, lambda: 0)()

    def _expect_clean(self, started: Sequence[Shim], crash: Crash) -> None:
        emulator = self._emulator
        eventually(lambda: emulator.control("status")["systems"] == [], f"no system left after {crash}", 30)
        eventually(lambda: emulator.control("status")["handles"] == 0, f"no handle left after {crash}", 30)
        eventually(lambda: not emulator.descendants(), f"no process left after {crash}", 30)
        assert not emulator.mounts() and not self._shims.mounts(), crash
        assert not list((self._shims.directory / "s").glob("*")), crash
        assert not list((emulator.directory / "hvsock").glob("*/*")), crash
        for shim in started:
            assert not Ledger(str(shim.path)).entries(), crash
            assert not shim.panic_log(), shim.panic_log()
