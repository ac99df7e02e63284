"""Pods of one shared daemon: each has its own tasks, files, log, events and threads."""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shim.api import shimdiag
from shim.api import task as api
from shim.api.inspect import InspectRequest, InspectResponse
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as Packed
from shim.commands import SHIM_SCOPE
from shim.commands.shared.daemon import WORKERS
from shim.container.ledger import FILE as LEDGER
from shim.container.ledger import Ledger
from shim.ttrpc import status
from shim.ttrpc.status import ClosedError, StatusError
from shim.ttrpc.workers import WAIT_SECONDS
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims
from tests.support.vm_image import SLEEP, VmShims

SIGKILL = 9


def start(shims: Shims, id: str, *args: str, scope: str = "node", **more: Any) -> Shim:
    spec = shims.spec(*(args or SLEEP))
    return shims.start(id, {**spec, "annotations": {SHIM_SCOPE: scope}}, **more)


def run(shims: Shims, id: str, *args: str, **more: Any) -> Shim:
    shim = start(shims, id, *args, **more)
    shim.run(rootfs=shims.rootfs())
    return shim


def finish(shim: Shim) -> int:
    """The end of a task as containerd ends it; returns the exit status."""
    code = shim.wait().exit_status
    shim.delete()
    shim.shutdown()
    eventually(lambda: not Path(shim.address.removeprefix("unix://")).exists(), "the end of the pod")
    return code


def stacks(shim: Shim) -> str:
    answer = shim.client.call("containerd.runhcs.v1.diag.ShimDiag", "DiagStacks", b"", timeout=60)
    return shimdiag.StacksResponse.decode(answer).stacks


def inspect(shim: Shim) -> dict[str, Any]:
    answer = shim.client.call("runhcs.inspect.v1.Inspect", "Shim", InspectRequest().encode(), timeout=60)
    found: dict[str, Any] = json.loads(InspectResponse.decode(answer).json)
    return found


def test_each_pod_has_its_own_tasks_events_and_exit(shims: Shims) -> None:
    pods = [run(shims, f"c{number}", "cmd", "/c", f"exit {number}") for number in range(4)]
    assert len({pod.pid for pod in pods}) == 1
    for number, pod in enumerate(pods):
        with pytest.raises(StatusError) as other:
            pod.state(id=f"c{(number + 1) % 4}")
        assert other.value.code == status.NOT_FOUND, "a pod does not see the tasks of another"
        pod.wait()
        assert finish(pod) == number
        response = pod.delete_command()
        assert response.exit_status == number
        shims.events.expect([f"create c{number}", f"start c{number}", f"exit c{number}", f"delete c{number}"], pod.id)
    eventually(lambda: not pods[0].alive, "the exit of the daemon")


def test_each_pod_has_its_own_log_and_options(shims: Shims) -> None:
    debug = Packed(type_url=Options.FULL_NAME, value=Options(log_level="debug").encode())
    first = run(shims, "c1", with_log=True)
    second = run(shims, "c2", with_log=True, options=debug)
    assert first.pid == second.pid
    for shim, other in ((first, "c2"), (second, "c1")):
        shim.log.wait_for("starting containerd-shim-runhcs-v1", tid=shim.id)
        shim.log.wait_for("task created", tid=shim.id)
        assert not [line for line in shim.log.lines() if line.fields.get("tid") == other]
    assert second.log.lines("debug") and not first.log.lines("debug")


def test_each_pod_has_its_own_ledger(shims: Shims) -> None:
    first, second = run(shims, "c1"), run(shims, "c2")
    held = {shim.id: list(map(str, Ledger(str(shim.path)).entries())) for shim in (first, second)}
    assert all(held.values())
    first.kill(SIGKILL)
    finish(first)
    assert not Ledger(str(first.path)).entries()
    assert list(map(str, Ledger(str(second.path)).entries())) == held["c2"]
    assert (second.path / LEDGER).stat().st_ino != (first.path / LEDGER).stat().st_ino


def test_shutdown_of_running_pod_leaves_others(shims: Shims, emulator: Emulator) -> None:
    first, second = run(shims, "c1"), run(shims, "c2")
    first.shutdown()
    eventually(lambda: not Path(first.address.removeprefix("unix://")).exists(), "the end of the pod")
    eventually(lambda: [one["Id"] for one in emulator.control("status")["systems"]] == ["c2"], "its container's end")
    second.exec("e1", shims.process("cmd", "/c", "exit 3"))
    second.start("e1")
    assert second.wait("e1").exit_status == 3


def test_blocked_hcs_call_does_not_delay_another_pod(shims: Shims, emulator: Emulator) -> None:
    first, second = start(shims, "c1"), run(shims, "c2")
    first.create(rootfs=shims.rootfs())
    emulator.fault("HcsStartComputeSystem", nth=1, delay=600)
    caller = Shim(shims, "c1", first.path, first.address)
    blocked = threading.Thread(target=lambda: _ignore_closed(caller.start))
    blocked.start()
    eventually(lambda: "in ComputeSystem.start" in stacks(first), "the call that blocks")
    assert second.pids()
    third = run(shims, "c3", "cmd", "/c", "exit 5")
    assert third.pid == first.pid and finish(third) == 5
    shown = stacks(second)
    assert "of pod tests/c2" in shown and "of pod tests/c1" not in shown and "in ComputeSystem.start" not in shown
    assert "threads of other pods of this daemon are not shown" in shown
    first.kill_daemon()
    blocked.join(60)
    assert not blocked.is_alive()


def _ignore_closed(call: Any) -> None:
    try:
        call()
    except (StatusError, ClosedError):
        pass


def hang(shim: Shim, method: str, request: Any, count: int) -> bool:
    """Make calls at once that hang. Whether some are refused, while the threads of the others hang."""

    def call(_: int) -> bool:
        try:
            shim.call(method, request, timeout=2 * WAIT_SECONDS)
        except StatusError as error:
            return error.code == status.RESOURCE_EXHAUSTED and f"{WORKERS} calls of this pod" in error.message
        return False

    with ThreadPoolExecutor(count) as pool:
        return any(pool.map(call, range(count)))


def test_hanging_calls_of_pod_are_bounded_and_kill_is_not_refused(shims: Shims, emulator: Emulator) -> None:
    first, second = run(shims, "c1"), run(shims, "c2")
    emulator.fault("HcsGetComputeSystemProperties", delay=600)
    assert hang(first, "Pids", api.PidsRequest(id="c1"), WORKERS + 1), "a refused call"
    emulator.control("fault-clear")
    assert second.pids(), "the other pod has its own threads"
    assert first.state().id == "c1"
    first.kill(SIGKILL)
    assert first.wait().exit_status != 0
    first.kill_daemon()


def test_hanging_kills_of_pod_are_bounded(shims: Shims, emulator: Emulator) -> None:
    """Kill has threads of its own, and no more than that."""
    first, second = run(shims, "c1"), run(shims, "c2")
    emulator.fault("HcsTerminateComputeSystem", delay=600)
    emulator.fault("HcsTerminateProcess", delay=600)
    assert hang(first, "Kill", api.KillRequest(id="c1", signal=SIGKILL), WORKERS + 1), "a refused Kill"
    assert first.pids(), "other calls of the pod have their threads"
    emulator.control("fault-clear")
    second.kill(SIGKILL)
    assert finish(second) != 0, "the other pod has its own threads"
    first.kill_daemon()


def test_many_calls_of_pod_at_once_are_all_answered(shims: Shims, emulator: Emulator) -> None:
    """More than a pod has threads: those beyond wait for their turn."""
    first, second = run(shims, "c1"), run(shims, "c2")
    emulator.fault("HcsGetComputeSystemProperties", delay=0.1)
    with ThreadPoolExecutor(4 * WORKERS) as pool:
        found = list(pool.map(lambda _: len(first.pids()), range(4 * WORKERS)))
    assert all(found) and second.pids()


def test_process_takes_nothing_for_pods_that_ended(shims: Shims) -> None:
    """Descriptors and threads of the daemon, with the same pods before and after twenty others."""
    keeper = run(shims, "keeper")

    def used() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{keeper.pid}/fd")), len(os.listdir(f"/proc/{keeper.pid}/task"))

    def cycle(name: str) -> None:
        shim = run(shims, name, "cmd", "/c", "exit 0")
        assert shim.pid == keeper.pid
        finish(shim)
        shim.client.close()

    cycle("warm")
    before = used()
    for number in range(20):
        cycle(f"c{number}")
    eventually(lambda: all(now <= then for now, then in zip(used(), before, strict=True)), f"{before}, not {used()}")


def test_inspect_shows_the_pod_and_its_scope(shims: Shims) -> None:
    first, second = run(shims, "c1"), run(shims, "c2")
    for shim in (first, second):
        found = inspect(shim)
        assert (found["id"], found["scope"], found["pid"]) == (shim.id, "node", shim.pid)
        assert [task["id"] for task in found["tasks"]] == [shim.id]


def test_unexpected_error_is_in_the_panic_log_of_its_pod(shims: Shims) -> None:
    """The ledger of a pod becomes a directory: its Create fails unexpectedly, and only its own log has the error."""
    first, second = start(shims, "c1", with_log=True), run(shims, "c2", with_log=True)
    (first.path / LEDGER).mkdir()
    with pytest.raises(StatusError):
        first.create(rootfs=shims.rootfs())
    first.log.wait_for("Create failed", tid="c1")
    assert not second.log.lines("error")
    (first.path / LEDGER).rmdir()


def test_vms_of_two_pods_end_separately(vms: VmShims, shims: Shims) -> None:
    """Closing the last handle of a VM ends it, which in a shared daemon no exit of the process does."""
    pods = []
    for name in ("p1", "p2"):
        spec = vms.spec(*SLEEP)
        shim = shims.start(name, {**spec, "annotations": {**spec.get("annotations", {}), SHIM_SCOPE: "node"}})
        vms.create(shim)
        shim.start()
        pods.append(shim)
    assert pods[0].pid == pods[1].pid
    pods[0].kill(SIGKILL)
    finish(pods[0])
    eventually(lambda: len(vms.workers()) == 1, "one VM")
    pods[1].exec("e1", shims.process("cmd", "/c", "exit 4"))
    pods[1].start("e1")
    assert pods[1].wait("e1").exit_status == 4


def test_killed_daemon_leaks_nothing_of_any_pod(shims: Shims, emulator: Emulator) -> None:
    pods = [run(shims, f"c{number}") for number in range(3)]
    os.kill(pods[0].pid, signal.SIGKILL)
    eventually(lambda: not pods[0].alive, "its exit")
    for pod in pods:
        pod.delete_command()
        assert not Ledger(str(pod.path)).entries()
    eventually(lambda: not emulator.control("status")["systems"], "the end of all containers")
