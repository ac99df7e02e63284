"""The rules for the tasks of one pod."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shim.api import task as api
from shim.api.types import Status
from shim.task.pod import Role
from shim.task.process import Process
from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.unit.task.fakes import KILLED, Harness, refused


class TestPod:
    def test_lifecycle_with_two_workloads(self, pod: Harness) -> None:
        pod.run("pod")
        for workload in ("w1", "w2"):
            pod.run(workload)
            assert pod.state(id=workload).status == Status.RUNNING
        pod.kill(9, id="w1")
        pod.wait(id="w1")
        pod.delete(id="w1")
        refused(status.NOT_FOUND, pod.state, id="w1")
        refused(status.NOT_FOUND, pod.delete, id="w1")
        pod.call("Shutdown", api.ShutdownRequest(id="w1"))
        assert pod.shutdowns == []
        assert pod.state(id="w2").status == Status.RUNNING
        pod.kill(9, id="pod", all=True)
        assert pod.wait(id="w2").exit_status == KILLED
        assert pod.wait(id="pod").exit_status == KILLED
        pod.delete(id="w2")
        pod.delete(id="pod")
        assert pod.delete(id="pod").exit_status == KILLED
        pod.call("Shutdown", api.ShutdownRequest(id="pod"))
        assert pod.shutdown_requested.wait(60)

    def test_concurrent_deletes_of_a_workload_delete_it_once(
        self, pod: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the slower one does not remove a task that has been created with its id since."""
        pod.run("pod")
        pod.run("w1")
        pod.kill(9, id="w1")
        pod.wait(id="w1")
        wait_done = Process.wait_done
        both, created = threading.Barrier(2), threading.Event()
        second = iter((False, True))

        def wait(process: Process, timeout: float) -> bool:
            is_second = next(second)
            both.wait(60)
            if is_second:
                assert created.wait(60)
            return wait_done(process, timeout)

        def delete(_: int) -> int:
            try:
                pod.delete(id="w1")
            except StatusError as error:
                return error.code
            if not created.is_set():
                monkeypatch.undo()
                pod.create("w1")
                created.set()
            return status.OK

        monkeypatch.setattr(Process, "wait_done", wait)
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(delete, range(2))) == [status.OK, status.NOT_FOUND]
        assert pod.state(id="w1").status == Status.CREATED
        assert pod.publisher.published().count("delete w1") == 1
        assert pod.publisher.published()[-2:] == ["delete w1", "create w1"]

    def test_shutdown_of_a_workload_stops_the_shim_after_the_last_delete(self, pod: Harness) -> None:
        pod.run("pod")
        pod.run("w1")
        pod.kill(9, id="pod", all=True)
        pod.wait(id="w1")
        pod.wait(id="pod")
        pod.delete(id="pod")
        pod.call("Shutdown", api.ShutdownRequest(id="w1"))
        assert not pod.shutdown_requested.wait(0.2), "the workload is not deleted"
        pod.delete(id="w1")
        pod.call("Shutdown", api.ShutdownRequest(id="w1"))
        assert pod.shutdown_requested.wait(60)

    def test_duplicate_id_is_refused(self, pod: Harness) -> None:
        pod.run("pod")
        refused(status.ALREADY_EXISTS, pod.create, "pod")
        pod.create("w1")
        refused(status.ALREADY_EXISTS, pod.create, "w1")

    def test_workload_requires_running_sandbox(self, pod: Harness) -> None:
        refused(status.FAILED_PRECONDITION, pod.create, "w1")
        pod.create("pod")
        assert "not running" in refused(status.FAILED_PRECONDITION, pod.create, "w1")
        pod.start(id="pod")
        pod.create("w1")
        pod.kill(9, id="pod")
        pod.wait(id="pod")
        refused(status.FAILED_PRECONDITION, pod.create, "w2")

    @pytest.mark.parametrize(
        "role", [Role("", ""), Role("sandbox", "pod"), Role("container", "other"), Role("odd", "pod")]
    )
    def test_workload_with_wrong_annotations_is_refused(self, pod: Harness, role: Role) -> None:
        pod.run("pod")
        pod.roles["w1"] = role
        refused(status.FAILED_PRECONDITION, pod.create, "w1")

    @pytest.mark.parametrize("role", [Role("", ""), Role("container", "pod"), Role("sandbox", "other")])
    def test_sandbox_with_wrong_annotations_is_refused(self, pod: Harness, role: Role) -> None:
        pod.roles["pod"] = role
        refused(status.FAILED_PRECONDITION, pod.create, "pod")
