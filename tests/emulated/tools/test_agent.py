"""`runhcs agent` with real shims: what it counts, and that it never delays or fails a task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.telemetry import MAX_QUEUED
from tests.support.agent import Agent
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.runhcs_tools import ToolShims
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims


@pytest.fixture
def agent(tools: ToolShims) -> Iterator[Agent]:
    agent = Agent(tools)
    yield agent
    agent.close()


def run(tools: ToolShims, id: str, *command: str) -> Shim:
    shim = tools.start(id, tools.spec(*command))
    shim.run(rootfs=tools.rootfs())
    return shim


def end(shim: Shim) -> None:
    shim.delete()
    shim.shutdown()
    shim.wait_exited()


def loads_telemetry(shim: Shim) -> bool:
    """Whether the shim has a connection to an agent, or ever had: the module is loaded with it."""
    return "telemetry.py" in shim.client.call("containerd.runhcs.v1.diag.ShimDiag", "DiagStacks", timeout=30).decode(
        "utf-8", "replace"
    )


def test_lifecycle_is_counted_also_after_the_shim_has_exited(tools: ToolShims, agent: Agent) -> None:
    shim = run(tools, "c1", "cmd", "/c", "exit 3")
    shim.wait()
    end(shim)
    for method in ("Create", "Start", "Wait", "Delete", "Shutdown"):
        agent.expect(1, "runhcs_rpc_duration_seconds_count", method=method)
    agent.expect(1, "runhcs_task_exits_total", result="failure")
    for topic in ("create", "start", "exit", "delete"):
        assert agent.value("runhcs_task_events_total", topic=topic) == 1
    assert agent.value("runhcs_hcs_call_duration_seconds_count", call="HcsCreateComputeSystem") == 1
    assert agent.value("runhcs_hcs_operation_duration_seconds_count", operation="hcs::System::Start") == 1
    assert agent.value("runhcs_phase_duration_seconds_count", phase="layers") >= 1
    assert agent.value("runhcs_shim_starts_total") == 1
    assert 0 < agent.value("runhcs_shim_start_duration_seconds_sum") < 60
    assert agent.value("runhcs_telemetry_dropped_total") == 0
    assert agent.value("runhcs_shims", state="ok") == 0


def test_state_of_the_node_is_in_each_scrape(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    shim = run(tools, "c1", *SLEEP)
    vms = VmShims(emulator, tools)
    vms.run_in(vms.pod(), "c2", *SLEEP)
    assert agent.value("runhcs_shims", state="ok") == 2
    assert agent.value("runhcs_tasks", state="running", isolation="process") == 1
    assert agent.value("runhcs_tasks", state="running", isolation="hypervisor") == 2
    assert agent.value("runhcs_vms") == 1
    labels = {"namespace": "tests", "id": "pod"}
    assert agent.value("runhcs_vm_processors", **labels) >= 1
    assert agent.value("runhcs_vm_memory_working_set_bytes", **labels) > 0
    assert agent.value("runhcs_vm_memory_size_bytes", **labels) > 0
    assert agent.value("runhcs_shim_resident_memory_bytes", id="c1") > 1 << 20
    assert agent.value("runhcs_shim_handles", id="c1") > 3
    agent.expect(1, "runhcs_guest_message_duration_seconds_count", message="Create")
    shim.kill_daemon()
    eventually(lambda: agent.value("runhcs_shims", state="dead") == 1, "the dead shim", interval=0.5)


def test_hcs_failure_is_counted_with_its_catalogue_name(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    emulator.fault("HcsStartComputeSystem", error=0x80370109)
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.create(rootfs=tools.rootfs())
    with pytest.raises(Exception, match="80370109"):
        shim.start()
    agent.expect(1, "runhcs_hcs_errors_total", code="0x80370109")
    samples = agent.metrics()["runhcs_hcs_errors_total"]
    assert {one.labels["name"] for one in samples if one.labels["code"] == "0x80370109"} == {"HCS_E_CONNECTION_TIMEOUT"}
    assert agent.value("runhcs_rpc_errors_total", method="Start", code="HCS_E_CONNECTION_TIMEOUT") == 1


def test_shim_without_agent_loads_nothing_for_it(tools: ToolShims) -> None:
    shim = run(tools, "c1", *SLEEP)
    assert "agent" not in Path(f"/proc/{shim.pid}/maps").read_text()
    assert not loads_telemetry(shim)


def test_stopped_agent_delays_no_task_and_drops_are_counted(tools: ToolShims, agent: Agent) -> None:
    """The agent's process is stopped: its socket accepts connections, and nothing answers."""
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        shim = run(tools, "c1", "cmd", "/c", "exit 0")
        shim.wait()
        # More records than a report in flight and the queue together can hold.
        for _ in range(2 * MAX_QUEUED + 1):
            shim.state()
        shim.delete()
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    agent.expect(1, "runhcs_telemetry_dropped_total", where="shim")
    agent.expect(1, "runhcs_rpc_duration_seconds_count", method="Create")


def test_shims_report_to_a_restarted_agent(tools: ToolShims) -> None:
    first = Agent(tools)
    shim = run(tools, "c1", *SLEEP)
    first.kill()  # leaves its socket
    second = Agent(tools)
    try:
        shim.state()
        second.expect(1, "runhcs_rpc_duration_seconds_count", method="State")
    finally:
        second.close()


def test_second_agent_is_refused(tools: ToolShims, agent: Agent) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "agent", "--listen", "127.0.0.1:0", *tools.places],
        env=tools.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "already" in done.stderr
