"""The task API in every state: status codes, idempotence, exit values, the order of events."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shim.api import task as api
from shim.api.types import Status
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.hcs_bindings.errors import OPERATION_TIMEOUT, HcsError
from shim.task import exit_record
from shim.task.pod import Role
from shim.task.process import NOT_EXITED, ZERO_TIME
from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.support.eventually import eventually
from tests.unit.task.fakes import Harness, refused

REQUESTS: dict[str, Message] = {
    "State": api.StateRequest(id="c1"),
    "Start": api.StartRequest(id="c1"),
    "Delete": api.DeleteRequest(id="c1"),
    "Pids": api.PidsRequest(id="c1"),
    "Pause": api.PauseRequest(id="c1"),
    "Resume": api.ResumeRequest(id="c1"),
    "Kill": api.KillRequest(id="c1", signal=9),
    "Exec": api.ExecProcessRequest(id="c1", exec_id="e1"),
    "ResizePty": api.ResizePtyRequest(id="c1"),
    "CloseIO": api.CloseIORequest(id="c1"),
    "Update": api.UpdateTaskRequest(id="c1", resources=PackedAny()),
    "Wait": api.WaitRequest(id="c1"),
    "Stats": api.StatsRequest(id="c1"),
}


class TestWithoutTask:
    @pytest.mark.parametrize("method", REQUESTS)
    def test_calls_return_not_found(self, shim: Harness, method: str) -> None:
        assert "'c1'" in refused(status.NOT_FOUND, shim.call, method, REQUESTS[method])

    def test_checkpoint_is_unimplemented(self, shim: Harness) -> None:
        refused(status.UNIMPLEMENTED, shim.call, "Checkpoint", api.CheckpointTaskRequest(id="c1"))

    def test_connect_answers_for_any_id(self, shim: Harness) -> None:
        for name in ("c1", "other"):
            answer = api.ConnectResponse.decode(shim.call("Connect", api.ConnectRequest(id=name)))
            assert (answer.shim_pid, answer.task_pid) == (4242, 0)

    def test_shutdown_of_another_id_is_ignored(self, shim: Harness) -> None:
        shim.call("Shutdown", api.ShutdownRequest(id="other"))
        assert shim.shutdowns == []

    @pytest.mark.parametrize("now", [False, True])
    def test_shutdown_responds_before_exit(self, shim: Harness, now: bool) -> None:
        assert shim.call("Shutdown", api.ShutdownRequest(id="c1", now=now)) == b""
        assert shim.shutdown_requested.wait(60)
        assert shim.shutdowns == [now]

    def test_undecodable_request_is_an_internal_error(self, shim: Harness) -> None:
        with pytest.raises(StatusError) as caught:
            shim.client.call("containerd.task.v2.Task", "State", b"\xff\xff", timeout=60)
        assert caught.value.code == status.INTERNAL


class TestStates:
    def test_state_after_create(self, shim: Harness) -> None:
        assert shim.create(stdin="/i", stdout="/o", stderr="/e").pid == 0
        assert shim.state() == api.StateResponse(
            id="c1", bundle=shim.bundle, status=Status.CREATED, stdin="/i", stdout="/o", stderr="/e",
            exit_status=NOT_EXITED, exited_at=ZERO_TIME, exec_id="c1",
        )  # fmt: skip
        assert shim.containers["c1"].calls == []

    def test_state_after_start(self, shim: Harness) -> None:
        shim.run()
        state = shim.state()
        assert (state.status, state.pid, state.exit_status, state.exited_at) == (Status.RUNNING, 100, 255, ZERO_TIME)
        assert shim.containers["c1"].calls == ["start", ("create_process", {"init": True})]

    def test_state_after_exit(self, shim: Harness) -> None:
        process = shim.run()
        before = time.time()
        process.exit(3)
        waited = shim.wait()
        state = shim.state()
        assert (state.status, state.pid, state.exit_status) == (Status.STOPPED, 100, 3)
        assert state.exited_at is not None and waited.exited_at == state.exited_at
        assert before - 1 <= state.exited_at.seconds <= time.time() + 1
        deleted = shim.delete()
        assert (deleted.pid, deleted.exit_status, deleted.exited_at) == (100, 3, state.exited_at)
        for topic, event in shim.publisher.events:
            if topic in ("/tasks/exit", "/tasks/delete"):
                assert (event.pid, event.exit_status, event.exited_at) == (100, 3, state.exited_at)

    def test_exit_code_is_unsigned(self, shim: Harness) -> None:
        shim.run().exit(-1)
        assert shim.wait().exit_status == 0xFFFFFFFF

    def test_state_is_stopped_before_output_drains(self, shim: Harness) -> None:
        process = shim.run()
        io = shim.ios["c1"]
        io.drained.clear()
        process.exit(0)
        eventually(lambda: shim.state().status == Status.STOPPED)
        assert "exit c1" not in shim.publisher.published()
        assert io.closed == 0
        io.drained.set()
        assert shim.wait().exit_status == 0
        assert io.closed == 1

    def test_drain_timeout_releases_wait(self, shim: Harness) -> None:
        process = shim.run()
        shim.ios["c1"].drained.clear()
        process.exit(7)
        assert shim.wait().exit_status == 7

    def test_connect_returns_pid_after_start(self, shim: Harness) -> None:
        def task_pid() -> int:
            return api.ConnectResponse.decode(shim.call("Connect", api.ConnectRequest(id="c1"))).task_pid

        shim.create()
        assert task_pid() == 0  # or containerd's client would not delete a created task
        shim.start()
        assert task_pid() == 100

    def test_exit_record_is_written(self, shim: Harness) -> None:
        shim.run().exit(5)
        answer = shim.wait()
        assert answer.exited_at is not None
        assert exit_record.read(shim.bundle) == (5, answer.exited_at.seconds, answer.exited_at.nanos, 100)


class TestCreate:
    def test_create_twice_is_refused(self, shim: Harness) -> None:
        shim.create()
        refused(status.ALREADY_EXISTS, shim.create)

    def test_second_container_of_standalone_shim_is_refused(self, shim: Harness) -> None:
        shim.create()
        refused(status.ALREADY_EXISTS, shim.create, "c2")

    def test_failed_create_leaves_no_task(self, shim: Harness) -> None:
        shim.roles["c1"] = Role("container", "p")
        refused(status.FAILED_PRECONDITION, shim.create)
        refused(status.NOT_FOUND, shim.state)
        refused(status.NOT_FOUND, shim.delete)
        assert shim.publisher.events == []
        shim.roles.clear()
        shim.create()

    def test_concurrent_creates_of_one_id_create_one_task(self, shim: Harness) -> None:
        def create(_: int) -> int:
            try:
                shim.create()
            except StatusError as error:
                return error.code
            return status.OK

        with ThreadPoolExecutor(8) as pool:
            codes = sorted(pool.map(create, range(16)))
        assert codes == [status.OK] + [status.ALREADY_EXISTS] * 15


class TestStart:
    def test_start_twice_is_refused(self, shim: Harness) -> None:
        shim.run()
        assert "running" in refused(status.FAILED_PRECONDITION, shim.start)

    def test_start_after_exit_is_refused(self, shim: Harness) -> None:
        shim.run().exit(0)
        shim.wait()
        refused(status.FAILED_PRECONDITION, shim.start)

    @pytest.mark.parametrize("step", ["start", "create_process"])
    def test_failed_start_stops_task_and_tears_down(self, shim: Harness, step: str) -> None:
        shim.create()
        shim.containers["c1"].errors[step] = RuntimeError("the machine is on fire")
        assert "on fire" in refused(status.UNKNOWN, shim.start)
        assert shim.wait().exit_status == 1
        state = shim.state()
        assert (state.status, state.pid, state.exit_status) == (Status.STOPPED, 0, 1)
        assert shim.containers["c1"].calls[-1] == "teardown"
        assert shim.publisher.published() == ["create c1", "exit c1"]
        assert shim.delete().exit_status == 1

    def test_failed_stdio_attach_terminates_process(self, shim: Harness) -> None:
        shim.create()
        shim.ios["c1"].attach_error = OSError("no such pipe")
        refused(status.UNKNOWN, shim.start)
        assert shim.containers["c1"].processes[0].calls == ["terminate", "close"]
        assert shim.wait().exit_status == 1

    def test_start_event_precedes_exit_of_short_process(self, shim: Harness) -> None:
        shim.create()
        container = shim.containers["c1"]
        create_process = container.create_process

        def dies_at_once(parameters: dict[str, Any]) -> Any:
            process = create_process(parameters)
            process.exit(9)
            return process

        container.create_process = dies_at_once  # type: ignore[method-assign]
        shim.start()
        assert shim.wait().exit_status == 9
        assert shim.publisher.published() == ["create c1", "start c1", "exit c1"]


class TestWait:
    def test_many_waits_on_many_connections(self, shim: Harness) -> None:
        process = shim.run()
        clients = [shim.dial() for _ in range(3)]
        request = api.WaitRequest(id="c1").encode()
        threads_before = threading.active_count()

        def wait(number: int) -> bytes:
            return clients[number % 3].call("containerd.task.v2.Task", "Wait", request, timeout=30)

        with ThreadPoolExecutor(60) as pool:
            waits = [pool.submit(wait, number) for number in range(60)]
            eventually(lambda: len(shim.pod.task("c1").init.reported._callbacks) == 60)
            # None of the server's: only the pool of this test, a thread per caller.
            assert threading.active_count() - threads_before <= 60
            process.exit(11)
            answers = {future.result(60) for future in waits}
        assert len(answers) == 1
        assert api.WaitResponse.decode(answers.pop()).exit_status == 11
        assert shim.wait().exit_status == 11  # and for a later Wait

    def test_wait_before_start(self, shim: Harness) -> None:
        shim.create()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(shim.wait)
            eventually(lambda: len(shim.pod.task("c1").init.reported._callbacks) == 1)
            shim.start()
            shim.containers["c1"].processes[0].exit(4)
            assert waiting.result(60).exit_status == 4

    def test_closed_connection_removes_its_wait(self, shim: Harness) -> None:
        process = shim.run()
        client = shim.dial()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.call, "containerd.task.v2.Task", "Wait", api.WaitRequest(id="c1").encode())
            reported = shim.pod.task("c1").init.reported
            eventually(lambda: len(reported._callbacks) == 1)
            client.close()
            assert waiting.exception(10) is not None
            eventually(lambda: not reported._callbacks)
        process.exit(2)
        assert shim.wait().exit_status == 2

    def test_wait_returns_after_teardown_and_exit_event(self, shim: Harness) -> None:
        process = shim.run()
        container = shim.containers["c1"]
        container.teardown_gate.clear()
        process.exit(0)
        eventually(lambda: shim.state().status == Status.STOPPED)
        refused(status.DEADLINE_EXCEEDED, shim.wait, timeout=0.1)
        assert "exit c1" not in shim.publisher.published()
        container.teardown_gate.set()
        shim.wait()
        assert shim.publisher.published()[-1] == "exit c1"


class TestProcessHandle:
    def test_exit_is_published_and_wait_answered_before_process_handle_is_closed(self, shim: Harness) -> None:
        process = shim.run()
        process.close_block = threading.Event()
        process.exit(6)
        assert shim.wait(timeout=30).exit_status == 6
        assert shim.publisher.published()[-1] == "exit c1"
        eventually(lambda: process.calls == ["close"])
        assert not shim.pod.task("c1").init.done.is_set
        process.close_block.set()

    def test_delete_waits_until_process_handle_is_closed(self, shim: Harness) -> None:
        process = shim.run()
        process.close_block = threading.Event()
        process.exit(0)
        eventually(lambda: process.calls == ["close"])
        request = api.DeleteRequest(id="c1").encode()
        refused(
            status.DEADLINE_EXCEEDED, shim.dial().call, "containerd.task.v2.Task", "Delete", request, timeout=0.1
        )
        process.close_block.set()
        assert shim.delete().exit_status == 0

    def test_failed_close_of_process_handle_releases_wait(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        process = shim.run()

        def fail() -> None:
            raise RuntimeError("no")

        monkeypatch.setattr(process, "close", fail)
        process.exit(3)
        assert shim.wait(timeout=30).exit_status == 3


class TestDelete:
    def test_delete_of_created_task(self, shim: Harness) -> None:
        shim.create()
        deleted = shim.delete()
        assert (deleted.pid, deleted.exit_status) == (0, 0)
        assert shim.containers["c1"].calls == ["teardown"]
        assert shim.publisher.published() == ["create c1", "exit c1", "delete c1"]

    def test_delete_of_running_task_is_refused(self, shim: Harness) -> None:
        shim.run()
        assert "'running' for delete" in refused(status.FAILED_PRECONDITION, shim.delete)

    def test_repeated_delete_returns_the_same(self, shim: Harness) -> None:
        shim.run().exit(3)
        first = shim.delete()
        assert shim.delete() == first
        assert shim.publisher.published().count("delete c1") == 2  # as Microsoft's shim publishes it
        assert shim.state().status == Status.STOPPED

    def test_delete_waits_for_teardown(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        process = shim.run()
        container = shim.containers["c1"]
        container.teardown_gate.clear()
        process.exit(0)
        monkeypatch.setattr("shim.task.task.DELETE_TIMEOUT", 0.1)
        eventually(lambda: shim.state().status == Status.STOPPED)
        assert "try again" in refused(status.DEADLINE_EXCEEDED, shim.delete)
        container.teardown_gate.set()
        monkeypatch.undo()
        shim.delete()
        assert shim.publisher.published()[-2:] == ["exit c1", "delete c1"]

    def test_failed_teardown_does_not_block_exit(self, shim: Harness) -> None:
        process = shim.run()
        shim.containers["c1"].errors["teardown"] = RuntimeError("layer in use")
        process.exit(6)
        assert shim.wait().exit_status == 6
        assert shim.delete().exit_status == 6


class TestTimeoutOfHcs:
    def test_start_fails_with_deadline_exceeded(self, shim: Harness) -> None:
        shim.create()
        shim.containers["c1"].errors["start"] = HcsError(OPERATION_TIMEOUT, "hcs::System::Start c1")
        assert "OPERATION_TIMEOUT" in refused(status.DEADLINE_EXCEEDED, shim.start)

    @pytest.mark.parametrize(
        ("method", "request_", "call"),
        [
            ("Stats", api.StatsRequest(id="c1"), "properties"),
            ("Pids", api.PidsRequest(id="c1"), "properties"),
            (
                "Update",
                api.UpdateTaskRequest(
                    id="c1",
                    resources=PackedAny(type_url="x/WindowsResources", value=b'{"memory": {"limit": 536870912}}'),
                ),
                "modify",
            ),
        ],
    )
    def test_request_fails_with_deadline_exceeded(
        self, shim: Harness, method: str, request_: Message, call: str
    ) -> None:
        shim.run()
        shim.containers["c1"].errors[call] = HcsError(OPERATION_TIMEOUT, f"hcs::System::{method} c1")
        assert "OPERATION_TIMEOUT" in refused(status.DEADLINE_EXCEEDED, shim.call, method, request_)
        assert shim.state().status == Status.RUNNING


class TestShutdown:
    def test_shutdown_after_delete(self, shim: Harness) -> None:
        shim.run().exit(0)
        shim.delete()
        shim.call("Shutdown", api.ShutdownRequest(id="c1"))
        assert shim.shutdown_requested.wait(60)

    def test_shutdown_with_hanging_start_times_out(self, shim: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.task.pod.STOP_TIMEOUT", 0.1)
        monkeypatch.setattr("shim.task.process.Process._acquire_start_lock.__defaults__", (0.1,))
        shim.create()
        hangs = threading.Event()
        container = shim.containers["c1"]
        monkeypatch.setattr(container, "start", lambda: hangs.wait(10))
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(shim.start)
            eventually(lambda: shim.pod.task("c1").init._start_lock.locked())
            refused(status.DEADLINE_EXCEEDED, shim.kill, 9)
            shim.shutdown()
            assert shim.shutdown_requested.wait(60)
            hangs.set()
            starting.result(60)

    def test_shutdown_stops_running_task(self, shim: Harness) -> None:
        shim.run()
        shim.call("Shutdown", api.ShutdownRequest(id="c1"))
        assert shim.shutdown_requested.wait(60)
        assert shim.containers["c1"].calls[-1] == "teardown"
        assert shim.publisher.published()[-1] == "exit c1"
