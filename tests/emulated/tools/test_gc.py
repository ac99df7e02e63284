"""`runhcs gc` releases what a killed shim leaked and does not touch resources of living shims."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shim.container.ledger import read_entries
from shim.hcs_bindings import network
from shim.hcs_bindings.system import ComputeSystem
from tests.support.bindings import container
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.runhcs_tools import ToolShims
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims

OWNER = "containerd-shim-runhcs-v1.exe"


def run(tools: ToolShims, id: str = "c1", **members: Any) -> Shim:
    shim = tools.start(id, {**tools.spec(*SLEEP), **members})
    shim.run(rootfs=tools.rootfs())
    return shim


def systems(emulator: Emulator) -> list[str]:
    return [system["Id"] for system in emulator.control("status")["systems"]]


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {f"{left['kind']} {left['id']}": left["outcome"] for left in report["found"]}


def test_gc_of_living_shims_finds_nothing(tools: ToolShims) -> None:
    run(tools)
    assert "no leaked resources" in tools.runhcs("gc")
    assert "no leaked resources" in tools.runhcs("gc", "--yes")


def test_gc_releases_resources_of_a_dead_shim_only(
    tools: ToolShims, emulator: Emulator
) -> None:
    dead, alive = run(tools, "dead"), run(tools, "alive")
    before = alive.state()
    dead.kill_daemon()
    name = os.path.basename(dead.address)[:12]
    expected = {"ledger dead", f"socket {name}"}
    report = tools.json("gc")
    assert report["dry_run"] and set(outcomes(report)) == expected
    entries = next(left for left in report["found"] if left["kind"] == "ledger")["entries"]
    assert [entry["kind"] for entry in entries] == ["system", "mount"]
    # A dry run changes nothing. (A compute system of the host ends with the handle of its shim; its mount does not.)
    assert len(tools.mounts()) == 2 and read_entries(str(dead.path))[0]
    assert "runhcs gc --yes" in tools.runhcs("gc")

    report = tools.json("gc", "--yes")
    assert not report["dry_run"] and set(outcomes(report).values()) == {"released"}
    assert set(outcomes(report)) == expected
    assert systems(emulator) == ["alive"] and tools.mounts() == [f"{alive.path}/rootfs"]
    assert not Path(dead.address.removeprefix("unix://")).exists() and not (dead.path / "ledger.jsonl").exists()
    assert dead.path.exists()  # containerd's
    assert alive.state() == before and alive.alive
    assert "no leaked resources" in tools.runhcs("gc", "--yes")


def test_gc_terminates_the_vm_of_a_dead_pod(tools: ToolShims, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)
    pod = vms.pod()
    vms.run_in(pod, "c1", *SLEEP)
    assert len(vms.workers()) == 1
    pod.kill_daemon()
    report = tools.json("gc", "--yes")
    assert outcomes(report)["ledger pod"] == "released" and set(outcomes(report).values()) == {"released"}
    eventually(lambda: not vms.workers(), "the end of the VM's worker")
    assert not vms.leaked()


def test_gc_releases_a_network_namespace_and_a_layer(hcs: Emulator, tools: ToolShims, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)  # for its layers
    spec = tools.spec(*SLEEP)
    spec["windows"] = {"layerFolders": None, "network": {}}
    shim = tools.start("c1", spec)
    shim.create(rootfs=vms.rootfs("c1"))
    shim.start()
    assert len(network.namespaces()) == 1
    shim.kill_daemon()
    report = tools.json("gc")
    kinds = {entry["kind"] for left in report["found"] for entry in left["entries"]}
    assert kinds == {"system", "namespace", "layer"}
    assert set(outcomes(tools.json("gc", "--yes")).values()) == {"released"}
    assert network.namespaces() == [] and emulator.mounts() == [] and systems(emulator) == []


def test_gc_terminates_a_compute_system_without_a_shim(hcs: Emulator, tools: ToolShims, emulator: Emulator) -> None:
    """Its bundle is gone, and its ledger with it. Systems of others, and those that somebody has open, stay."""
    shim = run(tools)
    held = ComputeSystem.create("held", {**container(), "Owner": OWNER})
    try:
        for name, owner in (("orphan", OWNER), ("others", "somebody else")):
            stays = {"Owner": owner, "ShouldTerminateOnLastHandleClosed": False}
            ComputeSystem.create(name, {**container(), **stays}).close()
        assert outcomes(tools.json("gc")) == {"system orphan": "found"}
        assert outcomes(tools.json("gc", "--yes")) == {"system orphan": "released"}
        assert sorted(systems(emulator)) == ["c1", "held", "others"] and shim.alive
        assert tools.json("gc", "-n", "tests")["found"] == []
    finally:
        held.terminate()
        held.close()
    with ComputeSystem.open("others") as others:
        others.terminate()


def test_gc_releases_in_the_hcs_instance_of_the_ledger(
    tools: ToolShims, emulator: Emulator, start_emulator: Callable[..., Emulator]
) -> None:
    """Run for another instance of HCS, gc frees a ledger's things in their own."""
    shim = run(tools)
    shim.kill_daemon()
    assert read_entries(str(shim.path))[1] == str(emulator.directory)
    other = start_emulator()
    tools.env = {**tools.env, "HCS_EMULATOR_DIR": str(other.directory)}
    report = tools.json("gc", "--yes")
    assert outcomes(report)["ledger c1"] == "released"
    assert systems(emulator) == [] and tools.mounts() == []
    assert other.journal("HcsOpenComputeSystem") == []


def test_gc_does_not_start_a_stopped_emulator(
    tools: ToolShims, start_emulator: Callable[..., Emulator]
) -> None:
    other = start_emulator()
    before, tools.env = tools.env, {**tools.env, "HCS_EMULATOR_DIR": str(other.directory)}
    shim = run(tools)
    shim.kill_daemon()
    other.control("stop")
    other.process.wait(30)
    assert len(tools.mounts()) == 1
    report = tools.json("gc", "--yes")
    assert outcomes(report)["ledger c1"] == "released" and tools.mounts() == []
    assert not (other.directory / "hcs.sock").exists()
    tools.env = before


def test_gc_keeps_resources_of_a_shim_that_does_not_answer(tools: ToolShims, emulator: Emulator) -> None:
    shim = run(tools)
    os.kill(shim.pid, signal.SIGSTOP)
    try:
        assert tools.json("gc", "--yes")["found"] == []
    finally:
        os.kill(shim.pid, signal.SIGCONT)
    assert systems(emulator) == ["c1"] and shim.alive


def test_gc_recognizes_a_reused_pid(tools: ToolShims) -> None:
    shim = run(tools)
    shim.kill_daemon()
    (shim.path / "shim.pid").write_text(str(os.getpid()))
    os.utime(shim.path / "shim.pid", (1, 1))  # written long before this process began
    assert outcomes(tools.json("gc"))["ledger c1"] == "found"
    os.utime(shim.path / "shim.pid")  # this process could be the shim: better not
    assert "ledger c1" not in outcomes(tools.json("gc"))


def test_gc_keeps_bundles_and_sockets_of_other_runtimes(tools: ToolShims) -> None:
    bundle = tools.directory / "io.containerd.runtime.v2.task" / "tests" / "runc"
    bundle.mkdir(parents=True)
    path = tools.directory / "s2"
    path.mkdir()
    name = path / ("a" * 64)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(name))
    (bundle / "address").write_text(f"unix://{name}")
    (bundle / "shim.pid").write_text("1")
    state = ["--state", str(tools.directory)]
    assert tools.json("gc", *state)["found"] == []
    # In a directory that is only for these shims it is stale.
    found = tools.json("gc", *state, "--socket-dir", str(path), "--yes")["found"]
    assert [left["kind"] for left in found] == ["socket"] and not name.exists()


def test_gc_reports_and_keeps_entries_that_cannot_be_released(tools: ToolShims) -> None:
    shim = run(tools)
    shim.kill_daemon()
    ledger = shim.path / "ledger.jsonl"
    with ledger.open("a") as file:
        file.write('{"n":"9","enter":"comet","id":"x"}\n')  # a kind that only a later version knows
    done = tools.run_tool("gc", "--yes")
    assert done.returncode == 1 and "release a comet" in done.stderr and "failed" in done.stdout
    assert [entry.kind for entry in read_entries(str(shim.path))[0]] == ["comet"] and tools.mounts() == []
    with ledger.open("a") as file:
        file.write('{"n":"9","strike":"comet"}\n')
    assert tools.json("gc", "--yes")["found"] == []
