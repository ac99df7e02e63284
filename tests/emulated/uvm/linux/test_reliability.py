"""A Linux pod with a crash at every step: the shim killed at each HCS call and after each message to the guest, the VM
lost at each message, and guests that do not answer.

A first lifecycle counts the steps. Then, for each of them, another pod runs the same lifecycle and crashes there. Every
pending call must return, and afterwards there is no system, worker, process, mount, socket or entry in a ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from shim.container.ledger import Ledger
from shim.ttrpc import status
from shim.ttrpc.status import ClosedError, StatusError
from tests.support.eventually import eventually
from tests.support.linux_shims import SLEEP, LinuxShims
from tests.support.shims import Shim

PARTS = 3
PATIENCE = 60.0


class PodLifecycle:
    """One pod with one container and one exec, from its creation to its deletion."""

    def __init__(self, lcow: LinuxShims, name: str) -> None:
        self.lcow = lcow
        self.pod = lcow.start(name, *SLEEP, pod=name, role="sandbox")
        self.container = lcow.start(f"{name}c", *SLEEP, pod=name, role="container", namespaces=("pid", "mount"))
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
        pod, container = self.pod, self.container
        steps: list[Callable[[], Any]] = [
            lambda: self.lcow.create(pod),
            pod.start,
            lambda: self.lcow.create(container),
            container.start,
            lambda: container.exec("e1", self.lcow.process(*SLEEP)),
            lambda: container.start("e1"),
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
    emulator = lifecycle.lcow.emulator
    eventually(lambda: not lifecycle.lcow.leaked(), f"nothing left, there is {lifecycle.lcow.leaked()}, {where}", 15)
    eventually(lambda: emulator.control("status")["handles"] == 0, f"no handle left, {where}", 15)
    for shim in lifecycle.tasks:
        assert Ledger(shim.bundle).entries() == [], where


@pytest.fixture
def counted(lcow: LinuxShims) -> list[str]:
    """The calls of a lifecycle without a crash, in order; those to the guest begin with `guest:`."""
    before = len(lcow.emulator.journal())
    lifecycle = PodLifecycle(lcow, "count")
    lifecycle.start()
    lifecycle.join()
    assert not lifecycle.refusals
    lifecycle.pod.shutdown()
    lifecycle.pod.wait_exited()
    entries = sorted(lcow.emulator.journal()[before:], key=lambda entry: int(entry["seq"]))
    calls = [entry["call"] for entry in entries if "call" in entry]
    assert "guest:ExecuteProcess" in calls and "HcsTerminateComputeSystem" in calls and len(calls) > 30
    expect_clean(lifecycle, "undisturbed")
    return calls


def crash_shim(lcow: LinuxShims, name: str, call: str, nth: int, when: str) -> None:
    where = f"{when} number {nth} of {call}"
    lifecycle = PodLifecycle(lcow, name)
    lcow.emulator.control("fault-clear")
    lcow.emulator.fault(call, nth=nth, kill_client=when)
    lifecycle.start()
    eventually(lambda: not lifecycle.pod.alive, f"the shim's end {where}", PATIENCE)
    lifecycle.join()
    lcow.emulator.control("fault-clear")
    for shim in lifecycle.tasks:
        shim.delete_command()
    expect_clean(lifecycle, where)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("linux_guest", ["emulated"])
@pytest.mark.parametrize("part", range(PARTS))
def test_shim_killed_at_every_hcs_call_leaks_nothing(lcow: LinuxShims, counted: list[str], part: int) -> None:
    calls = [call for call in counted if not call.startswith("guest:")]
    for index, call in list(enumerate(calls))[part::PARTS]:
        crash_shim(lcow, f"k{index}", call, calls[: index + 1].count(call), "before")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("linux_guest", ["emulated"])
@pytest.mark.parametrize("part", range(PARTS))
def test_shim_killed_after_every_message_leaks_nothing(lcow: LinuxShims, counted: list[str], part: int) -> None:
    messages = [call for call in counted if call.startswith("guest:")]
    for index, call in list(enumerate(messages))[part::PARTS]:
        crash_shim(lcow, f"m{index}", call, messages[: index + 1].count(call), "after")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("linux_guest", ["emulated"])
@pytest.mark.parametrize("part", range(PARTS))
def test_vm_lost_at_every_message_is_reported(lcow: LinuxShims, counted: list[str], part: int) -> None:
    messages = [call for call in counted if call.startswith("guest:")]
    for index, call in list(enumerate(messages))[part::PARTS]:
        where = f"message {index}, {call}"
        lifecycle = PodLifecycle(lcow, f"v{index}")
        lcow.emulator.control("fault-clear")
        fault: dict[str, Any] = {"crash_vm": True} if index % 2 else {"disconnect": True}
        lcow.emulator.fault(call, nth=messages[: index + 1].count(call), **fault)
        lifecycle.start()
        lifecycle.join()
        lcow.emulator.control("fault-clear")
        lifecycle.pod.shutdown()
        lifecycle.pod.wait_exited()
        for shim in lifecycle.tasks:
            shim.delete_command()
        expect_clean(lifecycle, where)


def test_init_that_cannot_be_killed_ends_with_its_vm(lcow: LinuxShims) -> None:
    """If a killed init does not exit within 30 s, its VM is terminated."""
    shim = lcow.run("c1", *SLEEP)
    lcow.emulator.fault("guest:SignalProcess", no_answer=True)
    threading.Thread(target=_kill, args=(shim,), daemon=True).start()
    assert shim.wait(timeout=PATIENCE).exit_status == 0xFFFFFFFF
    assert shim.delete().exit_status == 0xFFFFFFFF
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")


def _kill(shim: Shim) -> None:
    try:
        shim.kill(9)
    except StatusError:
        pass  # the VM was terminated meanwhile
