"""The output of a process after its exit: child processes that hold it open, and clients that are waited for."""

from __future__ import annotations

import pytest

from shim.api.types import Status
from tests.support.eventually import eventually
from tests.unit.task.fakes import KILLED, FakeIO, Harness


class TestChildProcesses:
    """Child processes that hold the stdio of an exited process open."""

    @pytest.fixture(autouse=True)
    def _no_drain_ends_by_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.task.process.DRAIN_TIMEOUT", 60)

    def test_sigkill_of_init_stops_the_container(self, shim: Harness) -> None:
        init = shim.run()
        container, io = shim.containers["c1"], shim.ios["c1"]
        io.drained.clear()
        container.on_stop = io.drained.set
        shim.kill(9)
        assert shim.wait(timeout=30).exit_status == KILLED
        assert container.calls[-3:] == [("properties", "Statistics"), "stop", "teardown"], "stats come before the stop"
        eventually(lambda: init.calls[:2] == ["terminate", "close"])

    def test_killed_init_without_children_drains_before_teardown(self, shim: Harness) -> None:
        shim.run()
        shim.kill(9)
        assert shim.wait(timeout=30).exit_status == KILLED
        assert shim.containers["c1"].calls[-2:] == [("properties", "Statistics"), "teardown"]

    def test_teardown_ends_output_of_execs(self, shim: Harness) -> None:
        init = shim.run()
        container, io = shim.containers["c1"], shim.add_exec("e1")
        shim.start("e1")
        io.drained.clear()
        container.on_stop = io.drained.set
        init.exit(0)
        assert shim.wait(timeout=30).exit_status == 0
        assert shim.publisher.published()[-2:] == ["exit e1", "exit c1"]

    @pytest.mark.parametrize("ends", ["by itself", "by a signal"])
    def test_other_exit_of_init_does_not_stop_the_container(self, shim: Harness, ends: str) -> None:
        init = shim.run()
        container, io = shim.containers["c1"], shim.ios["c1"]
        io.drained.clear()
        if ends == "by a signal":
            shim.kill(15)
            eventually(lambda: bool(init.calls))
        init.exit(3)
        eventually(lambda: io.waits_for_late_client is not None)
        assert "stop" not in container.calls and "teardown" not in container.calls
        io.drained.set()
        assert shim.wait(timeout=30).exit_status == 3

    def test_sigkill_of_exec_does_not_stop_the_container(self, shim: Harness) -> None:
        shim.run()
        process = shim.run_exec("e1")
        shim.kill(9, exec_id="e1")
        assert shim.wait(exec_id="e1", timeout=30).exit_status == KILLED
        eventually(lambda: process.calls == ["terminate", "close"])
        assert "stop" not in shim.containers["c1"].calls


class TestLateClients:
    """Whether the drain waits for a client that opens its FIFO late: not after a kill or delete."""

    def waits_for_late_client(self, io: FakeIO) -> bool:
        eventually(lambda: io.waits_for_late_client is not None)
        assert io.waits_for_late_client is not None
        return io.waits_for_late_client()

    def test_exit_waits_for_late_client(self, shim: Harness) -> None:
        process = shim.run()
        shim.ios["c1"].drained.clear()
        process.exit(0)
        assert self.waits_for_late_client(shim.ios["c1"])
        shim.ios["c1"].drained.set()
        shim.wait()

    @pytest.mark.parametrize("signal", [9, 15])
    def test_signal_does_not_wait_for_late_client(self, shim: Harness, signal: int) -> None:
        process = shim.run()
        shim.kill(signal)
        process.exit(0)
        assert not self.waits_for_late_client(shim.ios["c1"])

    def test_container_exit_ends_the_wait(self, shim: Harness) -> None:
        process = shim.run()
        shim.ios["c1"].drained.clear()
        process.exit(0)
        assert self.waits_for_late_client(shim.ios["c1"])
        shim.containers["c1"].die()
        eventually(lambda: not self.waits_for_late_client(shim.ios["c1"]))

    def test_delete_ends_the_wait(self, shim: Harness) -> None:
        process = shim.run()
        shim.ios["c1"].drained.clear()
        process.exit(0)
        eventually(lambda: shim.state().status == Status.STOPPED)
        shim.delete()
        assert not self.waits_for_late_client(shim.ios["c1"])

    def test_init_exit_ends_the_wait_of_exec(self, shim: Harness) -> None:
        init = shim.run()
        io = shim.add_exec("e1")
        shim.start("e1")
        io.drained.clear()
        shim.containers["c1"].processes[-1].exit(0)
        assert self.waits_for_late_client(io)
        init.exit(0)
        eventually(lambda: not self.waits_for_late_client(io))


class TestConnectedClients:
    """Whether the drain waits for a client that has its FIFO open and reads nothing: not after SIGKILL or delete."""

    def waits_for_reader(self, io: FakeIO) -> bool:
        eventually(lambda: io.waits_for_reader is not None)
        assert io.waits_for_reader is not None
        return io.waits_for_reader()

    @pytest.mark.parametrize("signal", [None, 15])
    def test_exit_waits_for_reader(self, shim: Harness, signal: int | None) -> None:
        process = shim.run()
        if signal is not None:
            shim.kill(signal)
        process.exit(0)
        assert self.waits_for_reader(shim.ios["c1"])

    def test_lost_container_waits_for_reader(self, shim: Harness) -> None:
        shim.run()
        shim.containers["c1"].die()
        assert self.waits_for_reader(shim.ios["c1"])

    def test_sigkill_does_not_wait_for_reader(self, shim: Harness) -> None:
        shim.run()
        shim.kill(9)
        assert not self.waits_for_reader(shim.ios["c1"])

    def test_delete_ends_the_wait(self, shim: Harness) -> None:
        process = shim.run()
        shim.ios["c1"].drained.clear()
        process.exit(0)
        assert self.waits_for_reader(shim.ios["c1"])
        eventually(lambda: shim.state().status == Status.STOPPED)
        shim.delete()
        assert not self.waits_for_reader(shim.ios["c1"])

    def test_exec_that_ends_with_init_does_not_wait_for_reader(self, shim: Harness) -> None:
        init = shim.run()
        io = shim.add_exec("e1")
        shim.start("e1")
        init.exit(0)
        assert not self.waits_for_reader(io)


def test_stdio_is_closed_if_draining_fails(shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sees the end of the output."""
    process = shim.run()
    io = shim.ios["c1"]
    monkeypatch.setattr(io, "drain", lambda *_, **__: 1 / 0)
    process.exit(3)
    assert shim.wait().exit_status == 3
    assert io.closed == 1
