"""`runhcs ps`, `inspect` and `stacks` on real shims."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from shim.commands import SHIM_SCOPE
from tests.support.emulator import Emulator
from tests.support.runhcs_tools import ToolShims
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims


def run(tools: ToolShims, id: str = "c1") -> Shim:
    shim = tools.start(id, tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    return shim


def test_ps_without_shims_prints_the_searched_places(tools: ToolShims) -> None:
    assert "no shims" in tools.runhcs("ps")
    assert tools.json("ps") == []


def test_ps_lists_shims_and_their_states(tools: ToolShims) -> None:
    shim = run(tools)
    tools.start("c2", tools.spec(*SLEEP))
    found = tools.json("ps")
    assert [(one["namespace"], one["id"], one["state"]) for one in found] == [
        ("tests", "c1", "running"),
        ("tests", "c2", "none"),
    ]
    assert found[0]["pid"] == shim.pid and found[0]["address"] == shim.address and found[0]["bundle"] == shim.bundle
    assert found[0]["kind"] == "container" and found[0]["vm"] is None and found[0]["started"]
    head, first, *_ = tools.runhcs("ps").splitlines()
    assert head.split()[:5] == ["NAMESPACE", "ID", "PID", "KIND", "STATE"]
    assert first.split()[:5] == ["tests", "c1", str(shim.pid), "container", "running"]
    assert tools.json("ps", "-n", "other") == []


def test_pods_of_a_shared_daemon_are_told_apart(tools: ToolShims) -> None:
    spec = {**tools.spec(*SLEEP), "annotations": {SHIM_SCOPE: "node"}}
    first, second = tools.start("c1", spec), tools.start("c2", spec)
    for shim in (first, second):
        shim.run(rootfs=tools.rootfs())
    found = [(one["id"], one["pid"], one["scope"]) for one in tools.json("ps")]
    assert found == [("c1", first.pid, "node"), ("c2", first.pid, "node")]
    inspected = tools.json("inspect", "c2")
    assert (inspected["id"], inspected["scope"]) == ("c2", "node")
    assert [task["id"] for task in inspected["tasks"]] == ["c2"] and inspected["tasks"][0]["ledger"]
    (one,) = tools.json("stacks", "c2")
    assert "of pod tests/c2" in one["stacks"] and "of pod tests/c1" not in one["stacks"]
    assert "no leaked resources" in tools.runhcs("gc")


def test_ps_finds_a_shim_by_its_socket_or_by_its_bundle(tools: ToolShims) -> None:
    run(tools)
    nowhere = str(tools.directory / "nowhere")
    sockets = tools.json("ps", "--socket-dir", str(tools.directory / "s"), "--state", nowhere)
    bundles = tools.json("ps", "--socket-dir", nowhere, "--state", str(tools.directory))
    assert [one["id"] for one in sockets] == [one["id"] for one in bundles] == ["c1"]


def test_ps_of_a_pod_lists_its_vm_and_tasks(tools: ToolShims, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)
    pod = vms.pod()
    vms.run_in(pod, "c1", *SLEEP)
    one = tools.json("ps")[0]
    assert one["id"] == "pod" and one["kind"] == "pod" and one["vm"] == "pod@vm" and one["state"] == "running"
    assert {task["id"]: task["state"] for task in one["tasks"]} == {"pod": "running", "c1": "running"}
    assert "c1 running" in tools.runhcs("ps")


def test_ps_of_a_killed_shim_is_dead(tools: ToolShims) -> None:
    run(tools).kill_daemon()
    one = tools.json("ps")[0]
    assert one["state"] == "dead" and one["id"] == "c1"
    assert "runhcs gc" in tools.runhcs("ps")


def test_inspect_shows_properties_ledger_and_execs(tools: ToolShims, emulator: Emulator) -> None:
    shim = run(tools)
    shim.exec("e1", tools.process(*SLEEP))
    found = tools.json("inspect", "c1")
    assert found["state"] == "running" and found["pid"] == shim.pid and found["address"] == shim.address
    assert found["hcs"] == str(emulator.directory) and found["logs"]["panic_log"] == f"{shim.bundle}/panic.log"
    task = found["tasks"][0]
    assert task["properties"]["State"] == "Running" and task["execs"][0]["state"] == "created"
    assert [entry["kind"] for entry in task["ledger"]] == ["system", "mount"]
    assert task["hcs"] == str(emulator.directory)
    text = tools.runhcs("inspect", "c")  # a prefix of the id
    assert "state: running" in text and "kind: system" in text


def test_inspect_of_a_pod_member_and_of_a_dead_shim(tools: ToolShims, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)
    pod = vms.pod()
    vms.run_in(pod, "c1", *SLEEP)
    found = tools.json("inspect", "c1")
    assert found["id"] == "pod" and found["vm"]["properties"]["State"] == "Running"
    assert {task["id"] for task in found["tasks"]} == {"pod", "c1"}
    pod.kill_daemon()
    found = tools.json("inspect", "pod")
    assert found["state"] == "dead"
    held = {entry["kind"] for task in found["tasks"] for entry in task["ledger"]}
    assert "vm" in held


def test_inspect_unknown_or_ambiguous_id_fails(tools: ToolShims) -> None:
    run(tools, "c1")
    run(tools, "c2")
    assert "runhcs ps" in tools.fails("inspect", "unknown")
    assert "several" in tools.fails("inspect", "c")


def test_stacks_of_one_and_of_all_shims(tools: ToolShims) -> None:
    shim = run(tools)
    (one,) = tools.json("stacks")
    assert one["pid"] == shim.pid and "in serve" in one["stacks"] and one["problem"] is None
    assert "shim/commands/serve.py" in tools.runhcs("stacks", "c1")
    assert "runhcs ps" in tools.fails("stacks", "unknown")


def test_stacks_from_panic_log_after_sigusr1(tools: ToolShims, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback for a shim that does not answer."""
    from runhcs import stacks
    from runhcs.shims import Shim as Found

    shim = run(tools)
    text = stacks.from_panic_log(Found(shim.address, "tests", "c1", shim.pid, shim.bundle))
    assert "serve.py" in text and "ShutdownRequest.wait" in text
    Path(shim.bundle, "panic.log").write_text("")


def test_ps_of_a_stopped_process_is_no_answer(tools: ToolShims) -> None:
    shim = run(tools)
    os.kill(shim.pid, signal.SIGSTOP)
    try:
        (one,) = tools.json("ps")
    finally:
        os.kill(shim.pid, signal.SIGCONT)
    assert one["state"] == "no answer" and one["id"] == "c1" and "5 s" in one["problem"]


@pytest.mark.parametrize("command", ["ps", "inspect", "stacks", "gc", "doctor"])
def test_help_has_examples(tools: ToolShims, command: str) -> None:
    text = tools.runhcs(command, "--help")
    assert f"runhcs {command}" in text and "--json" in text and len(text.splitlines()) > 12


def test_gc_json_without_leaks_is_an_empty_report(tools: ToolShims) -> None:
    assert json.loads(tools.runhcs("gc", *tools.places, "--json")) == {"dry_run": True, "found": [], "unsure": []}
