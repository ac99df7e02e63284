"""kill -9 of a shared daemon at every HCS call of one of its pods: `delete` of each pod leaves nothing of any pod.

The calls are those of the lifecycles of `container/test_crash_everywhere.py` and `uvm/test_reliability.py`. While one
pod runs such a lifecycle, the daemon serves other pods; it is killed before the result of the call, or right after it.
Then `delete` runs for all pods at once, as containerd runs it when it loses the connections of all of them.

And with each of these calls blocked instead, another pod of the daemon runs a whole lifecycle.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from shim.commands import SHIM_SCOPE
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.container.ledger import Ledger
from tests.emulated.container.test_crash_everywhere import begin, expect_clean, lifecycle, tolerating
from tests.emulated.uvm.test_reliability import PodLifecycle
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shim_commands import started_under
from tests.support.shims import Shim, Shims
from tests.support.vm_image import VmShims

SHARED = {SHIM_SCOPE: "node"}
PARTS = 3
PATIENCE = 60.0
# Seconds: longer than the test.
BLOCKED = 1000
# Lifecycles at a time, where the pod that is in a call when its daemon dies is any of them.
AT_ONCE = 3


def running(shims: Shims, name: str) -> Shim:
    """A pod whose container runs."""
    pod = begin(shims, name, SHARED)
    pod.create()
    pod.start()
    return pod


def created(shims: Shims, name: str) -> Shim:
    """A pod whose container is created and not started."""
    pod = begin(shims, name, SHARED)
    pod.create()
    return pod


def delete_all(shims: Shims, pods: Sequence[Shim], where: str) -> None:
    """`delete` for each, which must leave no process of the shim, no entry in a ledger, and no text of a crash."""
    with ThreadPoolExecutor(len(pods)) as pool:
        list(pool.map(Shim.delete_command, pods))
    assert not started_under(shims.directory), where
    sockets = list((shims.directory / "s").iterdir())
    assert not sockets, f"{sockets}, {where}"
    for pod in pods:
        assert Ledger(pod.bundle).entries() == [], where
        crash_log = pod.path / DAEMON_PANIC_LOG
        assert not crash_log.exists() or crash_log.read_bytes() == b"", f"kill -9 writes nothing, {where}"


def calls_since(emulator: Emulator, before: int) -> list[str]:
    """The HCS calls so far, in order, without the first ones, and without messages to guests."""
    calls = [entry["call"] for entry in emulator.journal()[before:] if "call" in entry]
    return [call for call in calls if not call.startswith("guest:")]


@pytest.fixture
def counted(shims: Shims, emulator: Emulator) -> list[str]:
    """The HCS calls of a lifecycle without a crash, beside another pod, which has made those that a process makes
    once."""
    shims.rootfs()
    pods = [running(shims, "neighbour"), begin(shims, "count", SHARED)]
    before = len(emulator.journal())
    lifecycle(pods[1], shims)
    calls = calls_since(emulator, before)
    assert len(calls) > 15 and "HcsStartComputeSystem" in calls
    pods[0].kill_daemon()
    delete_all(shims, pods, "after the lifecycle")
    expect_clean(shims, emulator, *pods)
    return calls


@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["before", "after"])
def test_daemon_killed_at_every_call_of_container_leaks_nothing(
    shims: Shims, emulator: Emulator, counted: list[str], when: str
) -> None:
    for index, call in enumerate(counted):
        where = f"{when} the result of call {index}, {call}"
        pods = [begin(shims, f"c{index}", SHARED), running(shims, f"r{index}"), created(shims, f"n{index}")]
        assert len({pod.pid for pod in pods}) == 1
        emulator.fault(call, nth=counted[: index + 1].count(call), kill_client=when)
        caller = threading.Thread(target=tolerating(lambda pod=pods[0]: lifecycle(pod, shims)))
        caller.start()
        eventually(lambda pod=pods[0]: not pod.alive, f"the daemon's end {where}", PATIENCE)
        caller.join(PATIENCE)
        assert not caller.is_alive(), where
        emulator.control("fault-clear")
        delete_all(shims, pods, where)
        expect_clean(shims, emulator, *pods)


@pytest.mark.timeout(600)
def test_daemon_killed_while_all_its_pods_are_in_calls_leaks_nothing(
    shims: Shims, emulator: Emulator, counted: list[str]
) -> None:
    for nth in range(1, AT_ONCE * len(counted), AT_ONCE + 1):
        where = f"at call {nth} of {AT_ONCE} lifecycles"
        pods = [begin(shims, f"p{nth}-{number}", SHARED) for number in range(AT_ONCE)]
        emulator.fault("*", nth=nth, kill_client="before")
        callers = [threading.Thread(target=tolerating(lambda pod=pod: lifecycle(pod, shims))) for pod in pods]
        for caller in callers:
            caller.start()
        eventually(lambda pods=pods: not pods[0].alive, f"the daemon's end {where}", PATIENCE)
        for caller in callers:
            caller.join(PATIENCE)
            assert not caller.is_alive(), where
        emulator.control("fault-clear")
        delete_all(shims, pods, where)
        expect_clean(shims, emulator, *pods)


def begin_vms(vms: VmShims, shims: Shims, name: str) -> tuple[PodLifecycle, list[Shim]]:
    """A lifecycle that has not begun, and all pods of its daemon: another VM and a container of the host."""
    neighbours = [vms.pod(f"v{name}", annotations=SHARED), running(shims, f"r{name}")]
    one = PodLifecycle(vms, f"k{name}", SHARED)
    return one, [*neighbours, *one.tasks]


def count_vm_calls(vms: VmShims, shims: Shims, emulator: Emulator) -> list[str]:
    one, pods = begin_vms(vms, shims, "count")
    before = len(emulator.journal())
    one.start()
    one.join()
    assert not one.refusals
    calls = calls_since(emulator, before)
    assert len(calls) > 15 and "HcsTerminateComputeSystem" in calls
    pods[0].kill_daemon()
    delete_all(shims, pods, "after the lifecycle")
    expect_clean(shims, emulator, *pods)
    return calls


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_daemon_killed_at_every_call_of_vm_pod_leaks_nothing(
    vms: VmShims, shims: Shims, emulator: Emulator, part: int
) -> None:
    shims.rootfs()
    calls = count_vm_calls(vms, shims, emulator)
    for index, call in list(enumerate(calls))[part::PARTS]:
        where = f"call {index}, {call}"
        one, pods = begin_vms(vms, shims, str(index))
        assert len({pod.pid for pod in pods}) == 1
        emulator.fault(call, nth=calls[: index + 1].count(call), kill_client=("before", "after")[index % 2])
        one.start()
        eventually(lambda one=one: not one.pod.alive, f"the daemon's end at {where}", PATIENCE)
        one.join()
        emulator.control("fault-clear")
        delete_all(shims, pods, where)
        eventually(lambda where=where: not vms.leaked(), f"nothing left, there is {vms.leaked()}, {where}", 15)
        expect_clean(shims, emulator, *pods)


@pytest.mark.timeout(600)
def test_call_blocked_at_any_point_does_not_delay_other_pods(
    shims: Shims, emulator: Emulator, counted: list[str]
) -> None:
    for index, call in enumerate(counted):
        where = f"call {index}, {call}"
        pods = [begin(shims, f"b{index}", SHARED), begin(shims, f"f{index}", SHARED)]
        emulator.fault(call, nth=counted[: index + 1].count(call), delay=BLOCKED)
        blocked = threading.Thread(target=tolerating(lambda pod=pods[0]: lifecycle(pod, shims)))
        blocked.start()
        eventually(lambda: emulator.control("fault-list")["faults"][0]["triggered"], where, PATIENCE)
        pods.append(begin(shims, f"j{index}", SHARED))
        assert pods[2].pid == pods[0].pid, "the daemon takes another pod"
        with ThreadPoolExecutor(2) as others:
            for other in [others.submit(lifecycle, pod, shims) for pod in pods[1:]]:
                other.result(PATIENCE)
        pods[0].kill_daemon()
        blocked.join(PATIENCE)
        assert not blocked.is_alive(), where
        emulator.control("fault-clear")
        delete_all(shims, pods, where)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_call_of_vm_pod_blocked_at_any_point_does_not_delay_other_pods(
    vms: VmShims, shims: Shims, emulator: Emulator, part: int
) -> None:
    shims.rootfs()
    calls = count_vm_calls(vms, shims, emulator)
    for index, call in list(enumerate(calls))[part::PARTS]:
        where = f"call {index}, {call}"
        keeper = running(shims, f"r{index}")
        blocked, other = (PodLifecycle(vms, f"{kind}{index}", SHARED) for kind in "bo")
        pods = [keeper, *blocked.tasks, *other.tasks]
        assert len({pod.pid for pod in pods}) == 1
        emulator.fault(call, nth=calls[: index + 1].count(call), delay=BLOCKED)
        blocked.start()
        eventually(lambda: emulator.control("fault-list")["faults"][0]["triggered"], where, PATIENCE)
        other.start()
        other.join()
        assert not other.refusals, where
        assert keeper.pids(), where
        keeper.kill_daemon()
        blocked.join()
        emulator.control("fault-clear")
        delete_all(shims, pods, where)
