"""kill -9 of the shim at every HCS call of a container's lifecycle: `delete` leaves no leaked resources.

A first run counts the calls. Then, for each of them, a shim runs the same lifecycle with that call delayed, and is
killed while it waits for the result; the call itself completes, as it does when the calling process dies. After
`delete`, in a new process and within containerd's 5 s, there must be no system, process, layer, mount, socket or entry
in the ledger.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.container.ledger import Ledger
from shim.ttrpc.status import ClosedError, StatusError
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims
from tests.support.wire_client import WireClient

DELAY = 0.3
GENERIC_ALL = 0x10000000


def lifecycle(shim: Shim, shims: Shims) -> None:
    shim.create()
    shim.start()
    shim.exec("e1", shims.process("sleep", "600"))
    shim.start("e1")
    shim.stats()
    shim.pids()
    shim.kill(15, "e1")
    shim.wait("e1")
    shim.delete("e1")
    shim.kill(9)
    shim.wait()
    shim.delete()


@pytest.mark.timeout(600)
def test_shim_killed_at_every_hcs_call_leaks_nothing(shims: Shims, emulator: Emulator) -> None:
    """One test for all calls: their number is known only after the first run."""
    shims.rootfs()
    before = emulator.journal()
    shim = begin(shims, "count")
    lifecycle(shim, shims)
    shim.shutdown()
    shim.wait_exited()
    calls = [entry["call"] for entry in emulator.journal()[len(before) :] if "call" in entry]
    assert len(calls) > 15 and "HcsStartComputeSystem" in calls
    expect_clean(shims, emulator, shim)

    for index, call in enumerate(calls):
        shim = begin(shims, f"c{index}")
        emulator.control("fault-clear")
        emulator.fault(call, nth=calls[: index + 1].count(call), delay=DELAY)
        journal = len(emulator.journal(call))
        running = threading.Thread(target=tolerating(lambda shim=shim: lifecycle(shim, shims)))
        running.start()
        called = lambda: emulator.control("fault-list")["faults"][0]["triggered"]  # noqa: E731
        eventually(called, f"call {index}, {call}, being made")
        shim.kill_daemon()
        running.join(60)
        assert not running.is_alive()
        expected = journal + calls[: index + 1].count(call)
        eventually(lambda call=call, expected=expected: len(emulator.journal(call)) >= expected, f"{call} to return")
        shim.delete_command()
        expect_clean(shims, emulator, shim)


def begin(shims: Shims, name: str, annotations: dict[str, str] | None = None) -> Shim:
    """A shim for a container on Windows layers, so that layer calls are among those counted."""
    scratch = shims.directory / f"scratch-{name}"
    spec = shims.spec("sleep", "600")
    spec["windows"]["layerFolders"] = [str(shims.image), str(scratch)]
    return shims.start(name, {**spec, "annotations": annotations or {}})


def tolerating(function: Callable[[], Any]) -> Callable[[], None]:
    """The lifecycle of a killed shim ends with a closed connection."""

    def run() -> None:
        try:
            function()
        except (ClosedError, StatusError):
            pass

    return run


def expect_clean(shims: Shims, emulator: Emulator, *pods: Shim) -> None:
    where = f"{pods[0].id}: {json.dumps([entry.get('call') for entry in emulator.journal()][-8:])}"
    eventually(lambda: emulator.control("status")["systems"] == [], f"no system left, {where}", 10)
    eventually(lambda: emulator.control("status")["handles"] == 0, f"no handle left, {where}", 10)
    eventually(lambda: not emulator.descendants(), f"no process left, {where}", 10)
    assert emulator.mounts() == [], where
    assert shims.mounts() == [], where
    assert not list((shims.directory / "s").glob("*")), where
    for shim in pods:
        assert Ledger(str(Path(shim.bundle))).entries() == [], where


@pytest.mark.parametrize("code", [0x80370110, 0x80070490], ids=["already stopped", "element not found"])
def test_delete_of_a_system_without_exit_event(shims: Shims, emulator: Emulator, code: int) -> None:
    """HCS accepts a terminate before it knows that the system has stopped: the error is the operation's result, and no
    event follows. `delete` opens the system again instead of waiting for the event until its deadline.
    """
    shim = shims.start("c1", shims.spec("sleep", "600"))
    shim.run(rootfs=shims.rootfs())
    with WireClient(emulator.directory) as other:
        (system_id,) = (system["Id"] for system in emulator.control("status")["systems"])
        other.ok("HcsOpenComputeSystem", system_id, number=GENERIC_ALL)  # without it the system would stop by itself
        shim.kill_daemon()
        emulator.fault("HcsTerminateComputeSystem", nth=1, error=code)
        shim.delete_command()
    terminated = [line["result"] for line in emulator.journal("HcsTerminateComputeSystem")]
    assert terminated == [f"0x{code:08X}", "0x00000000"]
    assert not emulator.control("status")["systems"] and not Ledger(str(shim.path)).entries()
