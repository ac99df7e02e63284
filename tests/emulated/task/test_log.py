"""The shim's log as containerd reads it: level, message and fields of a lifecycle, of failures, and of RPCs."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from runhcs.task_client import TASK_V2, TASK_V3
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.shimdiag import PidRequest
from shim.task.service import SHIM_DIAG
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.log_fifo import LogFifo
from tests.support.shims import Shims, refused
from tests.support.vm_image import VmShims

SLEEP = ("sh", "-c", "sleep 600")
DEBUG = pack(Options(log_level="debug"))


def lifecycle_lines(log: LogFifo) -> list[tuple[str, dict[str, str]]]:
    """The info lines without the first one, which the daemon may write later than its first calls."""
    lines = [line for line in log.lines("info") if not line.message.startswith("starting")]
    return [(line.message, line.fields) for line in lines]


def rpc_lines(log: LogFifo) -> list[tuple[str, dict[str, str]]]:
    """Method and fields of the RPCs; durations are checked and removed."""
    found = []
    for line in log.lines("debug"):
        if line.message == "rpc":
            duration = line.fields.pop("duration")
            assert duration.endswith("ms") and float(duration.removesuffix("ms")) > 0
            found.append((line.fields.pop("method"), line.fields))
    return found


def test_lifecycle_is_logged_at_info(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP), with_log=True)
    pid = str(shim.run(rootfs=shims.rootfs()))
    shim.exec("e1", shims.process("sh", "-c", "exit 3"))
    exec_pid = str(shim.start("e1"))
    shim.wait("e1")
    shim.kill(9)
    exit_status = str(shim.wait().exit_status)
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    log = shim.log
    first = log.wait_for("starting containerd-shim-runhcs-v1")
    assert (first.level, first.fields["tid"], first.fields["pid"]) == ("info", "c1", str(shim.pid))
    assert lifecycle_lines(log) == [
        ("task created", {"tid": "c1", "bundle": shim.bundle}),
        ("task started", {"tid": "c1", "pid": pid}),
        ("exec started", {"tid": "c1", "eid": "e1", "pid": exec_pid}),
        ("exec exited", {"tid": "c1", "eid": "e1", "pid": exec_pid, "exit-status": "3"}),
        ("task exited", {"tid": "c1", "pid": pid, "exit-status": exit_status}),
        ("task deleted", {"tid": "c1", "pid": pid, "exit-status": exit_status}),
    ]
    assert log.lines("debug", "warning", "error") == []


def test_failed_create_is_logged_as_one_error(shims: Shims, emulator: Emulator) -> None:
    emulator.fault("HcsCreateComputeSystem", error=0x80370109)
    shim = shims.start("c1", shims.spec(*SLEEP), with_log=True)
    message = refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())
    line = shim.log.wait_for("Create failed", tid="c1")
    assert line.level == "error"
    assert line.fields == {"tid": "c1", "error": message, "type": "HcsError"}
    assert lifecycle_lines(shim.log) == []
    assert [each.message for each in shim.log.lines("error")] == ["Create failed"]


def test_failed_start_is_logged_with_the_exit(shims: Shims, emulator: Emulator) -> None:
    emulator.fault("HcsStartComputeSystem", error=0x80370109)
    shim = shims.start("c1", shims.spec(*SLEEP), with_log=True)
    shim.create(rootfs=shims.rootfs())
    message = refused(status.UNKNOWN, shim.start)
    assert shim.log.wait_for("Start failed", tid="c1").fields["error"] == message
    shim.wait()
    shim.log.wait_for("task exited", tid="c1")
    exited = ("task exited", {"tid": "c1", "pid": "0", "exit-status": "1"})
    assert lifecycle_lines(shim.log) == [("task created", {"tid": "c1", "bundle": shim.bundle}), exited]


def test_refused_call_is_not_logged_as_an_error(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP), with_log=True)
    refused(status.NOT_FOUND, shim.state)
    refused(status.NOT_FOUND, shim.start)
    shim.create(rootfs=shims.rootfs())
    shim.log.wait_for("task created")
    assert shim.log.lines("error", "warning") == []


class TestUtilityVm:
    def test_start_and_stop_are_logged_at_info(self, vms: VmShims) -> None:
        pod = vms.pod(with_log=True)
        started = pod.log.wait_for("utility VM started", **{"uvm-id": "pod@vm"})
        assert started.level == "info"
        pod.kill(9)
        pod.wait()
        pod.delete()
        pod.log.wait_for("task deleted", tid="pod")
        own = [message for message, _ in lifecycle_lines(pod.log) if message != "log forwarding started"]  # the guest's
        assert own == [
            "utility VM started", "task created", "task started", "utility VM stopped", "task exited", "task deleted",
        ]  # fmt: skip
        assert pod.log.lines("error", "warning") == []

    def test_lost_vm_is_logged_as_an_error(self, vms: VmShims) -> None:
        pod = vms.pod(with_log=True)
        (worker,) = vms.workers()
        os.kill(worker, signal.SIGKILL)
        assert pod.wait(timeout=60).exit_status != 0
        exited = pod.log.wait_for("task exited", tid="pod")
        assert exited.level == "info" and exited.fields["exit-status"] != "0"
        pod.log.wait_for("utility VM stopped", **{"uvm-id": "pod@vm"})
        errors = pod.log.lines("error")
        # HCS's exit notification and the end of the connection to the guest arrive in any order.
        assert {line.message for line in errors} <= {
            "utility VM exited unexpectedly",
            "GCS connection lost, terminating utility VM",
        }
        assert errors and all(line.fields["uvm-id"] == "pod@vm" for line in errors)


class TestRpcLines:
    @pytest.mark.parametrize("service", [TASK_V2, TASK_V3])
    def test_calls_of_the_task_service_are_logged_at_debug(self, shims: Shims, service: str) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP), options=DEBUG, service=service, with_log=True)
        shim.run(rootfs=shims.rootfs())
        shim.exec("e1", shims.process(*SLEEP))
        refused(status.NOT_FOUND, shim.state, "nosuch")
        shim.kill(9)
        shim.wait()
        shim.delete()
        shim.log.wait_for("rpc", method="Delete")

        def rpc(method: str, code: str = "OK", **fields: str) -> tuple[str, dict[str, Any]]:
            return method, {"service": service, "tid": "c1", "code": code, **fields}

        assert rpc_lines(shim.log) == [
            rpc("Create"),
            rpc("Start"),
            rpc("Exec", eid="e1"),
            rpc("State", "NotFound", eid="nosuch"),
            rpc("Kill"),
            rpc("Wait"),
            rpc("Delete"),
        ]

    def test_deferred_call_is_logged_when_its_connection_closes(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP), options=DEBUG, with_log=True)
        shim.run(rootfs=shims.rootfs())
        client = shim.dial()
        refused(status.DEADLINE_EXCEEDED, client.call, TASK_V2, "Wait", b"\n\x02c1", timeout=0.2)
        assert shim.log.wait_for("rpc", method="Wait").fields["code"] == "Canceled"

    def test_diagnostic_call_is_logged_without_its_arguments(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP), options=DEBUG, with_log=True)
        shim.client.call(SHIM_DIAG, "DiagPid", PidRequest().encode(), timeout=30)
        shim.log.wait_for("rpc", method="DiagPid")
        assert rpc_lines(shim.log) == [("DiagPid", {"service": SHIM_DIAG, "code": "OK"})]

    def test_calls_are_not_logged_at_info(self, shims: Shims) -> None:
        shim = shims.start("c1", shims.spec(*SLEEP), options=pack(Options(log_level="info")), with_log=True)
        shim.run(rootfs=shims.rootfs())
        shim.state()
        shim.log.wait_for("task started")
        assert rpc_lines(shim.log) == []
