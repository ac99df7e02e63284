"""Pods that share a daemon on Windows: by the commands of the shim, and with containerd.exe."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from shim.commands import SHIM_SCOPE
from tests.support.eventually import eventually
from tests.wine.conftest import Machine
from tests.wine.node import EventWatch, Node, ask_emulator

# The pods of `handles_of_pods`.
MANY = 4
# The HCS calls of `crashes` and `vm_crashes` are split over this number of tests, so that none is long.
PARTS = 6
CALLS, VM_CALLS = 15, 10
SHARED = {"annotations": {SHIM_SCOPE: "node"}}


@pytest.fixture
def drive(machine: Machine) -> Any:
    return lambda scenario: machine.drive_shim(scenario, script="scope_driver.py")


@pytest.fixture
def drive_faults(machine: Machine, control: ControlProxy) -> Any:
    return lambda scenario: machine.drive_shim(scenario, script="scope_faults_driver.py")


def test_pods_share_daemon_that_exits_with_the_last(drive: Any) -> None:
    result = drive("lifecycles")
    files = ["address", "config.json", "daemon-panic.log", "exit", "ledger.jsonl", "panic.log", "shim.pid"]
    for one in result["found"]:
        assert one["pods"] == [[number, True, files] for number in range(3)]
        assert one["pids"] == 1
        assert one["served"] == [[True, True, True], [True, True]], "the end of a pod does not affect the others"
        assert one["last"] == [True, True, []]
    assert result["native"] and result["ended"] == [True, True], "joined without Python"


def test_scope_environment_limits_and_version_decide_which_pods_share(drive: Any) -> None:
    assert drive("which_pods_share") == {
        "pids": 3, "own": False, "same": True, "other environment": True, "limited": [True, False], "old": True,
        "upgraded": [True, True, True],
    }  # fmt: skip


def test_starts_while_the_last_pod_ends_are_served(drive: Any) -> None:
    assert drive("concurrent_starts") == {
        "codes": [0] * 4, "served": [True] * 4, "ended": [True] * 4, "exited": True, "crash logs": [],
    }  # fmt: skip


def test_killed_start_gives_up_its_pod_only(drive: Any) -> None:
    assert drive("killed_start") == {
        "prefix": r"\\.\pipe\ProtectedPrefix\Administrators", "descriptor": "D:P(A;;GA;;;BA)(A;;GA;;;SY)",
        "greeted": True, "ready": "R", "served": True, "ended": True, "first": [True, True, True],
    }  # fmt: skip


def test_delete_after_the_end_of_the_daemon_releases_each_pod(drive: Any, machine: Machine) -> None:
    before = ask_emulator(machine, "status")["systems"]
    both = {"shared": True, "gone": [True, True], "codes": [0, 0]}
    assert drive("terminated_or_crashed") == [
        {**both, "printed": [False, False], "crash logs": 0},
        {**both, "printed": [True, True], "crash logs": 1},
    ]
    assert ask_emulator(machine, "status")["systems"] == before


def test_hung_daemon_and_foreign_program_get_no_pods(drive: Any) -> None:
    assert drive("hung_or_foreign_daemon") == {
        "hung": [True, True, True, True], "exited": [True, True], "foreign": [False, True],
    }  # fmt: skip


def test_pods_that_ended_leave_no_handle(drive: Any) -> None:
    before, after, last = drive("handles_of_pods")
    assert last < before + MANY, f"{before} handles before {MANY} pods, {after} and {last} after them"


class ControlProxy:
    """The emulator's control commands for a driver, since no program under Wine opens a Unix socket: over TCP, a line
    of JSON each way for a connection."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as lines:
                lines.write(json.dumps(ask_emulator(self._machine, **json.loads(lines.readline()))) + "\n")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def control(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlProxy]:
    proxy = ControlProxy(machine)
    monkeypatch.setitem(machine.environment, "RUNHCS_TEST_CONTROL", proxy.address)
    yield proxy
    ask_emulator(machine, "fault-clear")
    proxy.close()


def test_blocked_hcs_call_does_not_delay_another_pod(drive_faults: Any) -> None:
    assert drive_faults("blocked_call") == {
        "shared": 1, "codes": [3, 4], "ended": [True, True], "blocked": [True, True], "deleted": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "calls", "part"),
    [(*one, part) for part in range(1, PARTS + 1) for one in (("crashes", CALLS), ("vm_crashes", VM_CALLS))],
)
def test_daemon_killed_at_every_hcs_call_leaks_nothing_of_any_pod(
    drive_faults: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch, scenario: str, calls: int, part: int
) -> None:
    monkeypatch.setitem(machine.environment, "RUNHCS_TEST_PART", f"{part}/{PARTS}")
    result = drive_faults(scenario)
    assert result["left"] == {}
    assert result["survived"][0] > calls, "a lifecycle has more HCS calls than that"


# containerd


def test_containers_share_daemon_across_restart_of_containerd(node: Node) -> None:
    first, second, late = (node.new_name() for _ in range(3))
    for name in (first, second):
        node.run_detached(name, **SHARED)
    pid = node.shim_pid(first)
    assert node.shim_pid(second) == pid
    node.stop()
    node.start()
    assert {first: node.tasks()[first], second: node.tasks()[second]} == {first: "RUNNING", second: "RUNNING"}
    node.run_detached(late, **SHARED)
    assert node.shim_pid(late) == pid, "the restarted containerd uses the same daemon"
    node.kill(first)
    node.remove(first)
    assert node.ctr("task", "exec", "--exec-id", "e1", second, "cmd", "/c", "exit 4").returncode == 4
    for name in (second, late):
        node.kill(name)
        node.remove(name)
    node.expect_clean()


def test_terminated_daemon_is_reported_for_each_container(node: Node) -> None:
    names = [node.new_name() for _ in range(2)]
    with EventWatch(node) as events:
        for name in names:
            node.run_detached(name, **SHARED)
        assert len({node.shim_pid(name) for name in names}) == 1
        listed = json.loads(node.runhcs("ps", "--json").stdout)
        assert {(one["id"], one["scope"], one["pid"]) for one in listed} == {
            (name, "node", node.shim_pid(name)) for name in names
        }
        stacks = node.runhcs("stacks", names[0]).stdout.decode()
        assert f"of pod default/{names[0]}" in stacks and f"of pod default/{names[1]}" not in stacks
        node.terminate_shim(names[0])
        eventually(lambda: not {*names} & {*node.tasks()}, "the removal of all tasks")
        expected = [f"/tasks/{kind}" for kind in ("create", "start", "exit", "delete")]
        eventually(lambda: all(events.topics(name) == expected for name in names), "the events of each")
    for name in names:
        node.checked("container", "rm", name)
    node.expect_clean()
