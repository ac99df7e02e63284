"""Processes of a task: execs, signals, terminals, pause, update, and the exit of their container."""

from __future__ import annotations

import threading

import pytest

from shim.api import task as api
from shim.api.types import Status
from shim.api.wellknown import Any as PackedAny
from shim.hcs_bindings import windows_version
from shim.hcs_bindings.errors import HcsError
from shim.task.process import UNKNOWN_EXIT
from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.unit.task.fakes import KILLED, Harness, refused


class TestExec:
    def test_exec_lifecycle(self, shim: Harness) -> None:
        shim.run()
        shim.add_exec("e1")
        state = shim.state(exec_id="e1")
        assert (state.id, state.exec_id, state.status, state.pid) == ("c1", "e1", Status.CREATED, 0)
        assert shim.start(exec_id="e1") == 101
        process = shim.containers["c1"].processes[1]
        process.exit(7)
        waited = shim.wait(exec_id="e1")
        assert waited.exit_status == 7
        assert shim.state(exec_id="e1").status == Status.STOPPED
        refused(status.NOT_FOUND, shim.kill, 9, exec_id="e1")
        assert shim.delete(exec_id="e1") == api.DeleteResponse(pid=101, exit_status=7, exited_at=waited.exited_at)
        refused(status.NOT_FOUND, shim.delete, exec_id="e1")
        refused(status.NOT_FOUND, shim.state, exec_id="e1")
        assert shim.state().status == Status.RUNNING
        assert shim.publisher.published() == [
            "create c1", "start c1", "exec-added e1", "exec-started e1", "exit e1", "delete e1",
        ]  # fmt: skip
        assert process.calls == ["close"]

    @pytest.mark.parametrize("exec_id", ["", "c1", "e1"])
    def test_duplicate_exec_id_is_refused(self, shim: Harness, exec_id: str) -> None:
        shim.run()
        shim.add_exec("e1")
        refused(status.ALREADY_EXISTS, shim.add_exec, exec_id)

    def test_exec_requires_running_init(self, shim: Harness) -> None:
        shim.create()
        refused(status.FAILED_PRECONDITION, shim.add_exec, "e1")
        shim.start()
        shim.containers["c1"].processes[0].exit(0)
        shim.wait()
        refused(status.FAILED_PRECONDITION, shim.add_exec, "e1")

    def test_unknown_exec_id_is_not_found(self, shim: Harness) -> None:
        shim.run()
        for call in (shim.state, shim.start, shim.wait, shim.delete):
            refused(status.NOT_FOUND, call, exec_id="nosuch")  # type: ignore[operator]
        refused(status.NOT_FOUND, shim.kill, 9, exec_id="nosuch")

    def test_failed_start_publishes_no_exit(self, shim: Harness) -> None:
        shim.run()
        shim.add_exec("e1")
        shim.containers["c1"].errors["create_process"] = RuntimeError("no such program")
        refused(status.UNKNOWN, shim.start, exec_id="e1")
        assert shim.wait(exec_id="e1").exit_status == 1
        assert "exit e1" not in shim.publisher.published()
        assert shim.state().status == Status.RUNNING

    def test_kill_before_start_stops_exec(self, shim: Harness) -> None:
        shim.run()
        io = shim.add_exec("e1")
        shim.kill(15, exec_id="e1")
        assert shim.wait(exec_id="e1").exit_status == 1
        assert io.closed == 1
        refused(status.FAILED_PRECONDITION, shim.start, exec_id="e1")
        assert shim.delete(exec_id="e1").exit_status == 1
        assert shim.publisher.published() == ["create c1", "start c1", "exec-added e1", "delete e1"]

    def test_delete_before_start_returns_zero(self, shim: Harness) -> None:
        shim.run()
        shim.add_exec("e1")
        assert shim.delete(exec_id="e1").exit_status == 0

    def test_delete_of_running_exec_is_refused(self, shim: Harness) -> None:
        shim.run()
        shim.run_exec("e1")
        refused(status.FAILED_PRECONDITION, shim.delete, exec_id="e1")

    def test_exec_exits_are_published_before_init_exit(self, shim: Harness) -> None:
        init = shim.run()
        for exec_id in ("e1", "e2", "e3"):
            shim.run_exec(exec_id)
        io = shim.add_exec("never-started")
        init.exit(0)
        assert shim.wait().exit_status == 0
        assert shim.wait(exec_id="e2").exit_status == KILLED
        assert shim.wait(exec_id="never-started").exit_status == 1
        assert io.closed == 1
        published = shim.publisher.published()
        assert sorted(published[-4:-1]) == ["exit e1", "exit e2", "exit e3"]
        assert published[-1] == "exit c1"

    def test_exec_that_cannot_be_killed_exits_with_teardown(
        self, shim: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shim.task.task.EXEC_EXIT_TIMEOUT", 0.05)
        init = shim.run()
        shim.run_exec("e1")
        shim.containers["c1"].errors["terminate"] = RuntimeError("no")
        init.exit(0)
        shim.wait()
        assert shim.publisher.published()[-2:] == ["exit e1", "exit c1"]


class TestKill:
    @pytest.mark.parametrize("signal", [0, 9, 15, 99])
    def test_any_signal_before_start_stops_task(self, shim: Harness, signal: int) -> None:
        shim.create()
        shim.kill(signal)
        assert shim.wait().exit_status == 1
        assert shim.state().status == Status.STOPPED
        assert shim.containers["c1"].calls == ["teardown"]
        refused(status.FAILED_PRECONDITION, shim.start)
        shim.delete()
        assert shim.publisher.published() == ["create c1", "exit c1", "delete c1"]

    @pytest.mark.parametrize(
        ("signal", "event"),
        [
            (0, "CtrlC"),
            (1, "CtrlBreak"),
            (2, "CtrlClose"),
            (5, "CtrlLogOff"),
            (6, "CtrlShutdown"),
            (15, "CtrlShutdown"),
        ],
    )
    def test_signal_sends_console_event(self, shim: Harness, signal: int, event: str) -> None:
        process = shim.run()
        shim.kill(signal)
        eventually(lambda: process.calls == [{"Signal": event}])
        assert shim.state().status == Status.RUNNING

    @pytest.mark.parametrize("signal", [3, 4, 10, 28, 99])
    def test_unmapped_signal_is_refused(self, shim: Harness, signal: int) -> None:
        shim.run()
        assert str(signal) in refused(status.FAILED_PRECONDITION, shim.kill, signal)

    def test_sigkill_terminates(self, shim: Harness) -> None:
        shim.run()
        shim.kill(9)
        assert shim.wait().exit_status == KILLED
        eventually(lambda: shim.containers["c1"].processes[0].calls == ["terminate", "close"])
        refused(status.NOT_FOUND, shim.kill, 9)
        refused(status.NOT_FOUND, shim.kill, 15)

    def test_blocked_signal_does_not_block_kill(self, shim: Harness) -> None:
        process = shim.run()
        process.signal_block = threading.Event()
        shim.kill(15)
        shim.kill(15)
        shim.kill(9)
        assert shim.wait().exit_status == KILLED
        process.signal_block.set()

    def test_lost_exit_notification_gives_unknown_exit(self, shim: Harness) -> None:
        shim.run()
        shim.containers["c1"].kill_works = False
        shim.kill(9)
        assert shim.wait().exit_status == UNKNOWN_EXIT

    def test_failed_kill_is_reported_and_the_task_keeps_running(
        self, shim: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shim.task.process.LOST_EXIT_TIMEOUT", 0.05)
        process = shim.run()
        shim.containers["c1"].errors["terminate"] = HcsError(0x80004005, "hcs::Process::Terminate c1:100")
        assert "hcs::Process::Terminate" in refused(status.UNKNOWN, shim.kill, 9)
        assert shim.state().status == Status.RUNNING
        process.exit(3)
        assert shim.wait().exit_status == 3

    def test_kill_all_signals_every_process(self, shim: Harness) -> None:
        init = shim.run()
        execs = [shim.run_exec("e1"), shim.run_exec("e2")]
        shim.kill(15, all=True)
        eventually(lambda: all(process.calls == [{"Signal": "CtrlShutdown"}] for process in (init, *execs)))

    def test_kill_all_with_exec_id_is_refused(self, shim: Harness) -> None:
        shim.run()
        shim.run_exec("e1")
        refused(status.FAILED_PRECONDITION, shim.kill, 9, exec_id="e1", all=True)

    def test_kill_of_exec_leaves_init_running(self, shim: Harness) -> None:
        init = shim.run()
        shim.run_exec("e1")
        shim.kill(9, exec_id="e1")
        assert shim.wait(exec_id="e1").exit_status == KILLED
        assert init.calls == [] and shim.state().status == Status.RUNNING


def test_oom_is_published_before_exit(shim: Harness) -> None:
    shim.run().exit(0xC000012D)
    assert shim.wait().exit_status == 0xC000012D
    assert shim.publisher.published()[-2:] == ["oom c1", "exit c1"]


class TestContainerExit:
    def test_container_exit_stops_created_task(self, shim: Harness) -> None:
        shim.create()
        shim.containers["c1"].die()
        assert shim.wait().exit_status == 1
        assert shim.publisher.published() == ["create c1", "exit c1"]

    def test_container_exit_keeps_exit_status_that_follows(self, shim: Harness) -> None:
        process = shim.run()
        shim.containers["c1"].die()
        process.exit(8)
        assert shim.wait().exit_status == 8

    def test_container_exit_with_lost_exit_notification(self, shim: Harness) -> None:
        shim.run()
        shim.run_exec("e1")
        shim.containers["c1"].die()
        assert shim.wait().exit_status == UNKNOWN_EXIT
        assert shim.publisher.published()[-2:] == ["exit e1", "exit c1"]


class TestTerminal:
    def test_resize_modifies_console_size(self, shim: Harness) -> None:
        shim.create(terminal=True)
        request = api.ResizePtyRequest(id="c1", width=132, height=50)
        shim.call("ResizePty", request)  # not running: nothing to do
        shim.start()
        shim.call("ResizePty", request)
        process = shim.containers["c1"].processes[0]
        assert process.calls == [{"Operation": "ConsoleSize", "ConsoleSize": {"Height": 50, "Width": 132}}]
        process.exit(0)
        shim.wait()
        shim.call("ResizePty", request)

    def test_resize_without_terminal_is_refused(self, shim: Harness) -> None:
        shim.run()
        refused(status.FAILED_PRECONDITION, shim.call, "ResizePty", api.ResizePtyRequest(id="c1", width=1, height=1))

    def test_close_io_in_any_state_repeatedly(self, shim: Harness) -> None:
        request = api.CloseIORequest(id="c1", stdin=True)
        shim.create()
        shim.call("CloseIO", request)
        shim.start()
        shim.call("CloseIO", request)
        shim.containers["c1"].processes[0].exit(0)
        shim.wait()
        shim.call("CloseIO", request)
        assert shim.ios["c1"].stdin_closed == 3


class TestPause:
    def test_pause_and_resume(self, shim: Harness) -> None:
        shim.run()
        shim.call("Pause", api.PauseRequest(id="c1"))
        assert shim.state().status == Status.PAUSED
        refused(status.UNIMPLEMENTED, shim.call, "Pause", api.PauseRequest(id="c1"))
        refused(status.FAILED_PRECONDITION, shim.delete)
        refused(status.FAILED_PRECONDITION, shim.add_exec, "e1")
        shim.call("Resume", api.ResumeRequest(id="c1"))
        assert shim.state().status == Status.RUNNING
        refused(status.UNIMPLEMENTED, shim.call, "Resume", api.ResumeRequest(id="c1"))
        assert shim.publisher.published()[-2:] == ["paused c1", "resumed c1"]

    def test_kill_resumes_paused_task(self, shim: Harness) -> None:
        shim.run()
        shim.call("Pause", api.PauseRequest(id="c1"))
        shim.kill(9)
        assert shim.wait().exit_status == KILLED
        assert "resume" in shim.containers["c1"].calls

    def test_pause_not_supported_by_hcs(self, shim: Harness) -> None:
        from shim.hcs_bindings.errors import NOT_SUPPORTED

        shim.run()
        shim.containers["c1"].errors["pause"] = HcsError(NOT_SUPPORTED, "hcs::System::Pause c1")
        assert "does not pause" in refused(status.UNIMPLEMENTED, shim.call, "Pause", api.PauseRequest(id="c1"))
        assert shim.state().status == Status.RUNNING


class TestUpdate:
    WINDOWS = "types.containerd.io/opencontainers/runtime-spec/1/WindowsResources"

    def update(self, shim: Harness, value: bytes, type_url: str = WINDOWS) -> None:
        request = api.UpdateTaskRequest(id="c1", resources=PackedAny(type_url=type_url, value=value))
        shim.call("Update", request)

    def test_memory_and_processor_are_modified(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(windows_version, "windows_build", lambda: 20348)
        shim.run()
        self.update(shim, b'{"memory": {"limit": 805306369}, "cpu": {"maximum": 4000}}')
        assert shim.containers["c1"].calls[-2:] == [
            ("modify", {"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Update", "Settings": 768}),
            ("modify", {"ResourcePath": "Container/Processor", "RequestType": "Update", "Settings": {"Maximum": 4000}}),
        ]

    def test_old_build_refuses_processor_limits(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(windows_version, "windows_build", lambda: 18362)
        shim.run()
        refused(status.UNIMPLEMENTED, self.update, shim, b'{"memory": {"limit": 1048576}, "cpu": {"maximum": 4000}}')
        (change,) = [call[1] for call in shim.containers["c1"].calls if call[0] == "modify"]
        assert change["ResourcePath"] == "Container/Memory/SizeInMB"

    def test_update_without_resources_is_refused(self, shim: Harness) -> None:
        shim.run()
        refused(status.INVALID_ARGUMENT, shim.call, "Update", api.UpdateTaskRequest(id="c1"))

    @pytest.mark.parametrize("value", [b"{", b"[]", b'{"cpu": {"count": 1, "shares": 2}}', b'{"memory": 3}'])
    def test_invalid_resources_are_refused(self, shim: Harness, value: bytes) -> None:
        shim.run()
        before = list(shim.containers["c1"].calls)
        refused(status.UNKNOWN, self.update, shim, value)
        assert shim.containers["c1"].calls == before
