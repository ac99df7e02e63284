"""Execs that never exit, whatever is done to them: they delay the container's exit once, not one after the other."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from shim.platform.exit_event import ExitEvent
from shim.task import process as process_module
from shim.task import task as task_module
from shim.task.process import UNKNOWN_EXIT
from shim.uvm.gcs import process as gcs_process
from shim.uvm.gcs.process import VmProcess
from tests.unit.task.fakes import FakeProcess, Harness

EXECS = 30
# Far less than one timeout per exec.
BOUND = 10.0


class StuckProcess(FakeProcess):
    """It accepts a kill and never exits."""

    def terminate(self, timeout: float | None = None) -> bool:
        self.calls.append("terminate")
        return True

    def exit(self, code: int) -> None:
        self.calls.append("exit ignored")


class UnansweredProcess(StuckProcess):
    """HCS or the guest does not answer the kill."""

    def terminate(self, timeout: float | None = None) -> bool:
        threading.Event().wait(1.0)
        raise TimeoutError("the guest did not answer SignalProcess")


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "EXEC_EXIT_TIMEOUT", 0.1)
    monkeypatch.setattr(task_module, "EXIT_NOTIFICATION_TIMEOUT", 0.1)
    monkeypatch.setattr(process_module, "DRAIN_TIMEOUT", 0.1)


@pytest.mark.parametrize("kind", [StuckProcess, UnansweredProcess])
@pytest.mark.parametrize("how", ["exit", "container exit"])
def test_stuck_execs_delay_exit_once(shim: Harness, kind: type[FakeProcess], how: str) -> None:
    init = shim.run()
    container = shim.containers["c1"]
    for number in range(EXECS):
        shim.run_exec(f"e{number}")
    processes = container.processes
    for process in processes[1:]:
        process.__class__ = kind
    begun = time.monotonic()
    if how == "exit":
        init.exit(3)
    else:
        container.die()
    status = shim.wait(timeout=60).exit_status
    assert time.monotonic() - begun < BOUND
    assert status == 3 if how == "exit" else status
    published = shim.publisher.published()
    assert published[-1] == "exit c1" and published.count("exit c1") == 1
    assert sorted(line for line in published if line.startswith("exit e")) == sorted(f"exit e{n}" for n in range(EXECS))
    assert shim.state(exec_id="e7").exit_status == UNKNOWN_EXIT


def test_kill_all_with_unanswered_execs_is_delayed_once(shim: Harness) -> None:
    shim.run()
    for number in range(EXECS):
        shim.run_exec(f"e{number}")
    for process in shim.containers["c1"].processes[1:]:
        process.__class__ = UnansweredProcess
    begun = time.monotonic()
    shim.kill(9, all=True)
    shim.wait(timeout=60)
    assert time.monotonic() - begun < BOUND


class Forgotten:
    count = 0

    def __call__(self) -> None:
        self.count += 1


def vm_process(is_init: bool) -> tuple[VmProcess, list[str], list[str]]:
    process = VmProcess.__new__(VmProcess)
    ExitEvent.__init__(process)
    process._exited, process._watched, process.pid, process._container_id = threading.Event(), False, 7, "c1"
    process.on_exit(lambda _: process._exited.set())
    process.is_init = is_init
    process.stdin = process.stdout = process.stderr = process._stdin = None
    process._forget_exit = Forgotten()
    terminated: list[str] = []
    warnings: list[str] = []
    process._vm = SimpleNamespace(  # type: ignore[assignment]
        terminate_unresponsive=terminated.append,
        warn=warnings.append,
        gcs=SimpleNamespace(signal=lambda *_: None),
        guest=SimpleNamespace(terminate_options=None),
    )
    return process, terminated, warnings


def test_killed_exec_in_vm_that_does_not_exit_counts_as_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_process, "KILL_SECONDS", 0.05)
    process, terminated, warnings = vm_process(is_init=False)
    assert process.terminate()
    assert process.wait(60).code == gcs_process.UNKNOWN_EXIT
    assert not terminated and len(warnings) == 1 and "process 7 of c1" in warnings[0]
    assert forgotten(process) == 1


def forgotten(process: VmProcess) -> int:
    """How often the guest's answer to the wait was forgotten."""
    assert isinstance(process._forget_exit, Forgotten)
    return process._forget_exit.count


@pytest.mark.parametrize("is_init", [False, True])
def test_closed_process_in_vm_forgets_its_exit(is_init: bool) -> None:
    """A container may have exited without the exits of its processes."""
    process, _, _ = vm_process(is_init)
    process.close()
    assert forgotten(process) == 1


def test_closed_process_in_vm_that_is_being_killed_is_still_watched() -> None:
    """Its VM must not be terminated because its exit was forgotten."""
    process, terminated, _ = vm_process(is_init=True)
    assert process.terminate()
    process.close()
    assert forgotten(process) == 0
    process.finish(5)
    assert not terminated


def test_killed_exec_in_vm_that_exits_keeps_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_process, "KILL_SECONDS", 0.05)
    process, _, warnings = vm_process(is_init=False)
    assert process.terminate()
    process.finish(5)
    process._end_watch()
    assert process.wait(60).code == 5 and not warnings
