"""The task API of a real shim process, on the emulator: every RPC in every state."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from runhcs.task_client import TASK_V2, TASK_V3
from shim.api import runhcs_stats
from shim.api.types import Status
from shim.task.process import NOT_EXITED, ZERO_TIME
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims, refused

CONTROL_C_EXIT = 0xC000013A
TERMINATED = 0xFFFFFFFF

SLEEP = ("sleep", "600")


@pytest.mark.parametrize("service", [TASK_V2, TASK_V3])
def test_full_lifecycle(shims: Shims, service: str) -> None:
    shim = shims.start("c1", shims.spec("sh", "-c", "exit 3"), service=service)
    connected = shim.connect()
    assert (connected.shim_pid, connected.task_pid) == (shim.pid, 0)
    refused(status.NOT_FOUND, shim.state)
    assert shim.create(rootfs=shims.rootfs()).pid == 0
    state = shim.state()
    assert (state.id, state.exec_id, state.bundle) == ("c1", "c1", str(shim.path))
    assert (state.status, state.pid) == (Status.CREATED, 0)
    assert (state.exit_status, state.exited_at) == (NOT_EXITED, ZERO_TIME)
    pid = shim.start()
    assert pid > 0
    waited = shim.wait()
    assert waited.exit_status == 3
    state = shim.state()
    assert (state.status, state.pid, state.exit_status) == (Status.STOPPED, pid, 3)
    assert state.exited_at == waited.exited_at
    deleted = shim.delete()
    assert (deleted.pid, deleted.exit_status, deleted.exited_at) == (pid, 3, waited.exited_at)
    shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"])
    for topic in ("exit", "delete"):
        event = shims.events.last(topic, "c1")
        assert (event.pid, event.exit_status, event.exited_at) == (pid, 3, waited.exited_at)
    shim.shutdown()
    shim.wait_exited()
    answer = shim.delete_command()
    assert (answer.exit_status, answer.exited_at) == (3, waited.exited_at)


def test_calls_on_running_task(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    pid = shim.run(rootfs=shims.rootfs())
    state = shim.state()
    assert (state.status, state.pid) == (Status.RUNNING, pid)
    assert (state.exit_status, state.exited_at) == (NOT_EXITED, ZERO_TIME)
    assert shim.connect().task_pid == pid
    assert "running" in refused(status.FAILED_PRECONDITION, shim.start)
    refused(status.FAILED_PRECONDITION, shim.delete)
    refused(status.FAILED_PRECONDITION, shim.resize, 80, 25)
    refused(status.ALREADY_EXISTS, shim.create, rootfs=shims.rootfs())
    refused(status.UNIMPLEMENTED, shim.checkpoint)
    shim.close_io()
    shim.close_io()
    shim.shutdown("another-id")
    assert shim.alive and shim.state().status == Status.RUNNING


class TestExec:
    def test_exec_lifecycle(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        refused(status.NOT_FOUND, shim.exec, "early", shims.process("true"))
        shim.create(rootfs=shims.rootfs())
        refused(status.FAILED_PRECONDITION, shim.exec, "early", shims.process("true"))
        shim.start()
        shim.exec("e1", shims.process("sh", "-c", "exit 7"))
        refused(status.ALREADY_EXISTS, shim.exec, "e1", shims.process("true"))
        state = shim.state("e1")
        assert (state.id, state.exec_id, state.status, state.pid) == ("c1", "e1", Status.CREATED, 0)
        pid = shim.start("e1")
        waited = shim.wait("e1")
        assert waited.exit_status == 7
        state = shim.state("e1")
        assert (state.status, state.pid, state.exited_at) == (Status.STOPPED, pid, waited.exited_at)
        refused(status.NOT_FOUND, shim.kill, 9, "e1")
        deleted = shim.delete("e1")
        assert (deleted.pid, deleted.exit_status, deleted.exited_at) == (pid, 7, waited.exited_at)
        refused(status.NOT_FOUND, shim.delete, "e1")
        refused(status.NOT_FOUND, shim.state, "e1")
        shims.events.expect(["create c1", "start c1", "exec-added e1", "exec-started e1", "exit e1", "delete e1"])
        assert shim.state().status == Status.RUNNING

    def test_exec_exits_are_published_before_init_exit(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        for exec_id in ("e1", "e2"):
            shim.exec(exec_id, shims.process(*SLEEP))
            shim.start(exec_id)
        shim.exec("idle", shims.process(*SLEEP))
        shim.kill(9)
        assert shim.wait().exit_status == TERMINATED
        assert shim.wait("e1").exit_status == TERMINATED
        assert shim.wait("idle").exit_status == 1
        eventually(lambda: "exit c1" in shims.events.received(), "the init's exit event")
        received = shims.events.received()
        assert sorted(received[-3:-1]) == ["exit e1", "exit e2"] and received[-1] == "exit c1"

    def test_args_take_precedence_over_inherited_command_line(self, shims: Shims) -> None:
        spec = shims.spec()
        spec["process"]["commandLine"] = "sleep 600"
        shim = shims.start("c1", spec)
        shim.run(rootfs=shims.rootfs())
        process = {**spec["process"], "args": ["sh", "-c", "exit 5"]}
        shim.exec("e1", process)
        shim.start("e1")
        assert shim.wait("e1").exit_status == 5

    def test_exec_of_missing_program_fails(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        shim.exec("e1", shims.process("no-such-program"))
        assert "no-such-program" in refused(status.UNKNOWN, shim.start, "e1")
        state = shim.state("e1")
        assert (state.status, state.exit_status) == (Status.STOPPED, 1)
        assert shim.wait("e1").exit_status == 1
        shim.delete("e1")
        assert "exit e1" not in shims.events.received()
        assert shim.state().status == Status.RUNNING


class TestKill:
    def test_kill_before_start(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.create(rootfs=shims.rootfs())
        shim.kill(15)
        assert shim.wait().exit_status == 1
        state = shim.state()
        assert (state.status, state.pid, state.exit_status) == (Status.STOPPED, 0, 1)
        refused(status.FAILED_PRECONDITION, shim.start)
        assert shim.delete().exit_status == 1
        shims.events.expect(["create c1", "exit c1", "delete c1"])

    @pytest.mark.parametrize("number", [1, 2, 15])
    def test_signal_stops_program_without_handler(self, shims: Shims, number: int) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        shim.kill(number)
        assert shim.wait().exit_status == CONTROL_C_EXIT
        refused(status.NOT_FOUND, shim.kill, number)

    def test_signal_is_handled_by_program(self, shims: Shims) -> None:
        trap = "trap 'exit 42' TERM; while :; do sleep 0.05; done"
        shim = shims.start("c1", shims.spec("sh", "-c", trap))
        shim.run(rootfs=shims.rootfs())
        eventually(lambda: _has_trap(shim.state().pid, signal.SIGTERM), "the shell's trap")
        shim.kill(15)
        assert shim.wait().exit_status == 42

    def test_sigkill_after_ignored_sigterm(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
        shim.run(rootfs=shims.rootfs())
        eventually(lambda: _has_trap(shim.state().pid, signal.SIGTERM, ignored=True), "the shell's trap")
        shim.kill(15)
        shim.kill(9)
        assert shim.wait().exit_status == TERMINATED
        refused(status.NOT_FOUND, shim.kill, 9)

    def test_unknown_signal_or_id_is_refused(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        assert "99" in refused(status.FAILED_PRECONDITION, shim.kill, 99)
        refused(status.NOT_FOUND, shim.kill, 9, "nosuch")
        refused(status.NOT_FOUND, shim.kill, 9, id="nosuch")

    def test_kill_all(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        shim.exec("e1", shims.process(*SLEEP))
        shim.start("e1")
        refused(status.FAILED_PRECONDITION, shim.kill, 9, "e1", all=True)
        shim.kill(9, all=True)
        assert shim.wait("e1").exit_status == TERMINATED
        assert shim.wait().exit_status == TERMINATED


class TestDelete:
    def test_delete_of_created_task(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.create(rootfs=shims.rootfs())
        assert shim.delete().exit_status == 0
        shims.events.expect(["create c1", "exit c1", "delete c1"])

    def test_repeated_delete_returns_the_same(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec("true"))
        shim.run(rootfs=shims.rootfs())
        shim.wait()
        first = shim.delete()
        assert shim.delete() == first
        refused(status.NOT_FOUND, shim.pids)
        refused(status.NOT_FOUND, shim.stats)

    def test_delete_right_after_exit(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec("true"))
        shim.run(rootfs=shims.rootfs())
        eventually(lambda: shim.state().status == Status.STOPPED, "the exit")
        assert shim.delete().exit_status == 0
        shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"])


class TestWait:
    def test_many_waits(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.create(rootfs=shims.rootfs())
        clients = [shim.dial() for _ in range(4)]
        request = b"\n\x02c1"
        with ThreadPoolExecutor(40) as pool:
            waits = [pool.submit(clients[n % 4].call, TASK_V2, "Wait", request, timeout=30) for n in range(40)]
            shim.start()
            shim.kill(9)
            answers = {future.result(60) for future in waits}
        assert len(answers) == 1
        assert shim.wait().exit_status == TERMINATED

    def test_wait_after_containerd_restart(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.run(rootfs=shims.rootfs())
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(shim.wait)
            shim.client.close()
            assert waiting.exception(10) is not None
        shims.events.expect(["create c1", "start c1"])  # an event in transit might be sent twice
        shims.events.stop()
        back = Shim(shims, "c1", shim.path, shim.address)
        back.kill(9)
        assert back.wait().exit_status == TERMINATED
        assert len(back.pids()) == 1  # or containerd would take the shim for a leaked one
        shims.events.start()
        back.delete()
        shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"])


class TestStartFails:
    def test_start_of_missing_program_fails(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec("no-such-program"))
        shim.create(rootfs=shims.rootfs())
        assert "no-such-program" in refused(status.UNKNOWN, shim.start)
        state = shim.state()
        assert (state.status, state.pid, state.exit_status) == (Status.STOPPED, 0, 1)
        assert shim.wait().exit_status == 1
        shims.events.expect(["create c1", "exit c1"])
        assert shim.delete().exit_status == 1

    def test_start_fails_in_hcs(self, shims: Shims, emulator: Emulator) -> None:
        emulator.fault("HcsStartComputeSystem", error=0x80370109)
        shim = shims.start("c1", shims.spec(*SLEEP))
        shim.create(rootfs=shims.rootfs())
        assert "0x80370109" in refused(status.UNKNOWN, shim.start).lower()
        assert shim.wait().exit_status == 1
        shims.events.expect(["create c1", "exit c1"])
        assert shim.delete().exit_status == 1

    def test_create_of_existing_compute_system_fails(self, shims: Shims, emulator: Emulator) -> None:
        emulator.fault("HcsCreateComputeSystem", error=0x8037010F)
        shim = shims.start("c1", shims.spec(*SLEEP))
        refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())
        refused(status.NOT_FOUND, shim.state)
        refused(status.NOT_FOUND, shim.delete)
        assert shims.events.received() == []
        shim.shutdown()
        shim.wait_exited()


class TestStats:
    def test_stats_in_each_state(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; sleep 600"))
        shim.create(rootfs=shims.rootfs())
        refused(status.NOT_FOUND, shim.stats)
        assert [process.pid for process in shim.pids()] == [0]
        pid = shim.start()
        shim.exec("e1", shims.process(*SLEEP))
        exec_pid = shim.start("e1")
        assert {pid, exec_pid} <= {process.pid for process in shim.pids()}

        def stats() -> runhcs_stats.WindowsContainerStatistics:
            packed = shim.stats()
            assert packed.type_url == "containerd.runhcs.stats.v1.Statistics"
            windows = runhcs_stats.Statistics.decode(packed.value).windows
            assert windows is not None and windows.processor is not None and windows.memory is not None
            return windows

        def total(windows: runhcs_stats.WindowsContainerStatistics) -> int:
            assert windows.processor is not None
            return windows.processor.total_runtime_ns

        eventually(lambda: total(stats()) > 1_000_000, "a millisecond of processor time")
        running = stats()
        assert running.memory is not None and running.memory.memory_usage_commit_bytes > 4096
        assert 0 < running.uptime_ns < 600 * 10**9
        shim.kill(9)
        shim.wait()
        after = stats()
        assert total(after) >= total(running)
        assert [process.pid for process in shim.pids()] == [pid]


def test_pause_is_unimplemented(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    assert "pause" in refused(status.UNIMPLEMENTED, shim.pause)
    assert shim.state().status == Status.RUNNING
    refused(status.UNIMPLEMENTED, shim.resume)


def test_update_modifies_limits(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    refused(status.INVALID_ARGUMENT, shim.update, None)
    refused(status.UNKNOWN, shim.update, {"cpu": {"count": 1, "maximum": 5000}})
    shim.update({"memory": {"limit": 512 << 20}, "cpu": {"maximum": 5000}})
    assert len(emulator.journal("HcsModifyComputeSystem")) == 2


def test_shutdown_with_running_task_leaks_nothing(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    shim.shutdown()
    shim.wait_exited()
    assert emulator.control("status")["systems"] == []


def _has_trap(pid: int, number: int, ignored: bool = False) -> bool:
    """Whether a process handles (or ignores) a signal, according to the kernel."""
    prefix = "SigIgn:" if ignored else "SigCgt:"
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(prefix):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
