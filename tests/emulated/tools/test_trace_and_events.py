"""`runhcs trace` and `runhcs events`, on real shims and an agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Agent
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.runhcs_tools import ToolShims
from tests.support.vm_image import SLEEP, VmShims


@pytest.fixture
def agent(tools: ToolShims) -> Iterator[Agent]:
    agent = Agent(tools)
    yield agent
    agent.close()


def live(tools: ToolShims, agent: Agent, id: str = "c1") -> None:
    shim = tools.start(id, tools.spec("cmd", "/c", "exit 3"))
    shim.run(rootfs=tools.rootfs())
    shim.wait()
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    agent.expect(1, "runhcs_rpc_duration_seconds_count", method="Shutdown")


def events(tools: ToolShims) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tools.runhcs("events", "--json").splitlines()]


def test_trace_of_a_container_that_has_exited(tools: ToolShims, agent: Agent, tmp_path: Path) -> None:
    live(tools, agent)
    found = tools.json("trace", "c1")
    names = [section["whole"]["name"] for section in found["sections"]]
    assert names.index("Create") < names.index("Start") < names.index("exit (status 3)") < names.index("Delete")
    assert found["isolation"] == "process" and found["namespace"] == "tests"
    created = found["sections"][names.index("Create")]
    assert created["events"] == ["create"] and "layers" in {row["name"] for row in created["inside"]}
    text = tools.runhcs("trace", "c")  # a prefix
    assert "tests/c1, process isolation" in text and "hcs::System::Start" in text and "█" in text
    assert "HcsCloseOperation" not in tools.runhcs("trace", "c1", "--min-ms", "100000")
    path = tmp_path / "c1.html"
    assert tools.runhcs("trace", "c1", "--html", str(path)) == f"{path}\n"
    assert "hcs::System::Start" in path.read_text() and "<script" not in path.read_text()


def test_trace_of_a_failure_has_the_next_step(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    emulator.fault("HcsStartComputeSystem", error=0x80370109)
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.create(rootfs=tools.rootfs())
    with pytest.raises(Exception, match="80370109"):
        shim.start()
    agent.expect(1, "runhcs_rpc_errors_total", method="Start")
    assert "failed: HCS_E_CONNECTION_TIMEOUT; " in tools.runhcs("trace", "c1")


def test_trace_of_a_container_in_a_vm_has_guest_messages(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)
    vms.run_in(vms.pod(), "c1", *SLEEP)
    agent.expect(2, "runhcs_rpc_duration_seconds_count", method="Start")
    found = tools.runhcs("trace", "c1")
    assert "c1 in pod pod, hypervisor isolation" in found and "guest Create" in found


def test_unknown_id_and_missing_agent_are_errors(tools: ToolShims) -> None:
    assert "runhcs agent" in tools.fails("trace", "c1")
    assert "runhcs agent" in tools.fails("events")
    agent = Agent(tools)
    try:
        assert "no report about 'c1'" in tools.fails("trace", "c1")
    finally:
        agent.close()


def test_events_are_listed_and_followed(tools: ToolShims, agent: Agent) -> None:
    live(tools, agent)
    assert [one["topic"] for one in events(tools)] == ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    exited = next(line for line in tools.runhcs("events").splitlines() if " exit " in line)
    assert "tests c1 exit c1" in exited and "exit_status=3" in exited
    assert tools.runhcs("events", "-n", "other") == ""
    command = [sys.executable, "-m", "runhcs", "events", "-f", "--json", *tools.places]
    with subprocess.Popen(command, env=tools.env, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert follower.stdout is not None
            past = [json.loads(follower.stdout.readline()) for _ in range(4)]
            assert [one["container_id"] for one in past] == ["c1"] * 4
            live(tools, agent, "c2")
            new = [json.loads(follower.stdout.readline()) for _ in range(4)]
            assert [one["topic"] for one in new][-1] == "/tasks/delete" and new[0]["container_id"] == "c2"
            agent.close()
            eventually(lambda: follower.poll() is not None, "the end of the follower")
        finally:
            follower.kill()
