"""A pod in a VM with a crash at every step: the shim killed at each of its HCS calls, the VM killed at each call to HCS
and to its guest.

A first lifecycle counts the steps. Then, for each of them, another pod runs the same lifecycle and crashes there. Every
pending call must return, every task that was created must report one exit, and afterwards there is no system, worker,
process, mount, socket or entry in a ledger.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shim.container.ledger import Ledger
from shim.ttrpc import status
from shim.ttrpc.status import ClosedError, StatusError
from tests.support.eventually import eventually
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims

PARTS = 3
PATIENCE = 60.0


class PodLifecycle:
    """One pod with one container and one exec, from its creation to its deletion."""

    def __init__(self, vms: VmShims, name: str, annotations: dict[str, str] | None = None) -> None:
        self.vms = vms
        self.pod = vms.shims.start(name, vms.spec("pause", pod=name, role="sandbox", annotations=annotations or {}))
        self.container = vms.workload(self.pod, f"{name}c", *SLEEP)
        self.refusals: list[str] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def tasks(self) -> list[Shim]:
        return [self.container, self.pod]

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a client call does not return"

    def _run(self) -> None:
        pod, container, process = self.pod, self.container, self.vms.shims.process(*SLEEP)
        steps: list[Callable[[], Any]] = [
            lambda: self.vms.create(pod),
            pod.start,
            lambda: self.vms.create(container),
            container.start,
            lambda: container.exec("e1", process),
            lambda: container.start("e1"),
            pod.stats,
            container.stats,
            lambda: container.kill(15, "e1"),
            lambda: container.wait("e1", timeout=PATIENCE),
            lambda: container.delete("e1"),
            lambda: container.kill(9),
            lambda: container.wait(timeout=PATIENCE),
            container.delete,
            lambda: pod.kill(9),
            lambda: pod.wait(timeout=PATIENCE),
            pod.delete,
        ]
        for step in steps:
            try:
                step()
            except (StatusError, ClosedError, OSError) as error:
                self.refusals.append(str(error))
                assert getattr(error, "code", None) != status.DEADLINE_EXCEEDED, error


def expect_clean(lifecycle: PodLifecycle, where: str) -> None:
    emulator = lifecycle.vms.emulator
    eventually(lambda: not lifecycle.vms.leaked(), f"nothing left, there is {lifecycle.vms.leaked()}, {where}", 15)
    eventually(lambda: emulator.control("status")["handles"] == 0, f"no handle left, {where}", 15)
    assert not emulator.mounts(), where
    for shim in lifecycle.tasks:
        assert Ledger(shim.bundle).entries() == [], where


@pytest.fixture
def counted(vms: VmShims) -> list[str]:
    """The calls of a lifecycle without a crash, in order; those to the guest begin with `guest:`."""
    before = len(vms.emulator.journal())
    lifecycle = PodLifecycle(vms, "count")
    lifecycle.start()
    lifecycle.join()
    assert not lifecycle.refusals
    lifecycle.pod.shutdown()
    lifecycle.pod.wait_exited()
    calls = [entry["call"] for entry in vms.emulator.journal()[before:] if "call" in entry]
    assert "guest:ExecuteProcess" in calls and "HcsTerminateComputeSystem" in calls and len(calls) > 30
    expect_clean(lifecycle, "undisturbed")
    return calls


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_shim_killed_at_every_hcs_call_leaks_nothing(vms: VmShims, counted: list[str], part: int) -> None:
    calls = [call for call in counted if not call.startswith("guest:")]
    for index, call in list(enumerate(calls))[part::PARTS]:
        where = f"call {index}, {call}"
        lifecycle = PodLifecycle(vms, f"k{index}")
        vms.emulator.control("fault-clear")
        vms.emulator.fault(call, nth=calls[: index + 1].count(call), kill_client="before")
        lifecycle.start()
        eventually(lambda: not lifecycle.pod.alive, f"the shim's end at {where}", PATIENCE)  # noqa: B023
        lifecycle.join()
        vms.emulator.control("fault-clear")
        for shim in lifecycle.tasks:
            shim.delete_command()
        expect_clean(lifecycle, where)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_vm_killed_at_every_call_is_reported(vms: VmShims, counted: list[str], part: int) -> None:
    first = counted.index("HcsStartComputeSystem") + 1
    last = counted.index("HcsTerminateComputeSystem")
    for index in range(first + part, last, PARTS):
        where = f"after call {index}, {counted[index]}"
        lifecycle = PodLifecycle(vms, f"v{index}")
        before = len(calls_so_far(vms))
        lifecycle.start()
        eventually(lambda: len(calls_so_far(vms)) > before + index, where, PATIENCE)  # noqa: B023
        for worker in vms.workers():
            os.kill(worker, signal.SIGKILL)
        lifecycle.join()
        expect_all_exited(lifecycle, where)
        expect_clean(lifecycle, where)


def calls_so_far(vms: VmShims) -> list[str]:
    return [entry["call"] for entry in vms.emulator.journal() if "call" in entry]


def expect_all_exited(lifecycle: PodLifecycle, where: str) -> None:
    """Every task that was created has reported one exit, and can be deleted."""
    for shim in lifecycle.tasks:
        events = lifecycle.vms.events.received(shim.id)
        if f"create {shim.id}" not in events:
            continue
        try:
            shim.wait(timeout=PATIENCE)
            shim.delete()
        except StatusError as error:  # the lifecycle's own Delete was first
            assert error.code == status.NOT_FOUND, error
        eventually(lambda: f"delete {shim.id}" in lifecycle.vms.events.received(shim.id), where)  # noqa: B023
        assert lifecycle.vms.events.received(shim.id).count(f"exit {shim.id}") == 1, where
    lifecycle.pod.shutdown()
    lifecycle.pod.wait_exited()


def test_vm_exit_unblocks_waits(vms: VmShims) -> None:
    """With a definite status that is not zero, for the init, an exec, a created container and the sandbox."""
    pod = vms.pod()
    running = vms.run_in(pod, "c1", *SLEEP)
    running.exec("e1", vms.shims.process(*SLEEP))
    running.start("e1")
    created = vms.workload(pod, "c2", *SLEEP)
    vms.create(created)
    answers: dict[str, int] = {}

    def wait(name: str, shim: Shim, exec_id: str = "") -> None:
        answers[name] = shim.wait(exec_id, timeout=PATIENCE).exit_status

    waits = [("init", running, ""), ("exec", running, "e1"), ("created", created, ""), ("sandbox", pod, "")]
    threads = [threading.Thread(target=wait, args=arguments) for arguments in waits]
    for thread in threads:
        thread.start()
    os.kill(vms.workers()[0], signal.SIGKILL)
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == {"init": 0xFFFFFFFF, "exec": 0xFFFFFFFF, "created": 1, "sandbox": 1}
    for shim in (running, created, pod):
        assert shim.delete().exit_status != 0
    vms.expect_one_exit("c1", "e1", "c2", "pod")
    assert not vms.leaked()


def test_hanging_guest_is_terminated(vms: VmShims) -> None:
    """If a killed init does not exit within 30 s, its VM is terminated."""
    shim = vms.run("c1", *SLEEP)
    os.kill(vms.workers()[0], signal.SIGSTOP)
    threading.Thread(target=_kill, args=(shim,), daemon=True).start()
    assert shim.wait(timeout=PATIENCE).exit_status == 0xFFFFFFFF
    assert shim.delete().exit_status == 0xFFFFFFFF
    assert not vms.leaked()


def _kill(shim: Shim) -> None:
    try:
        shim.kill(9)
    except StatusError:
        pass  # it ends either way
