"""Stop of a container: signal, grace period, termination; with a hanging HCS or guest, too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from bench.harness import spans
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims
from tests.support.vm_image import SLEEP, VmShims

Run = Callable[..., Shim]
SIGTERM, SIGKILL = signal.SIGTERM, signal.SIGKILL
# A stop of a container whose HCS hangs: shutdown, terminate, and some.
BOUND = 110.0
PATIENT = ("sh", "-c", "trap 'echo bye; exit 23' TERM; echo ready; while :; do sleep 0.05; done")
# How a container is stopped, on the host and in a VM.
STOPS = ("hcs HcsShutDownComputeSystem", "guest ShutdownGraceful")
PARENT = ("sh", "-c", "sleep 1000 & echo ready; wait")
DEAF = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")


@pytest.fixture(params=["process", "vm"])
def run(vms: VmShims, request: pytest.FixtureRequest) -> Run:
    log = vms.directory / "out"

    def start(*args: str) -> Shim:
        if request.param == "vm":
            shim = vms.run("c1", *args, stdout=f"file://{log}")
        else:
            shim = vms.shims.start("c1", vms.shims.spec(*args))
            shim.run(rootfs=vms.shims.rootfs(), stdout=f"file://{log}")
        eventually(lambda: log.exists() and log.read_bytes() == b"ready\n", "the program's word that it is ready")
        return shim

    return start


def test_program_that_handles_the_stop_signal(run: Run) -> None:
    shim = run(*PATIENT)
    shim.kill(SIGTERM)
    assert shim.wait().exit_status == 23, "its own status, not that of force"
    shim.delete()


def test_program_that_ignores_the_stop_signal(run: Run) -> None:
    shim = run(*DEAF)
    shim.kill(SIGTERM)
    assert shim.state().status == 2, "it may take its time"
    shim.kill(SIGKILL)
    assert shim.wait().exit_status != 0
    shim.delete()


def test_child_process_of_killed_init_is_stopped(run: Run, vms: VmShims) -> None:
    """The child process holds the output open, so the container is stopped, which ends the output. The resources of the
    container are released after that."""
    vms.shims.env["RUNHCS_SPANS"] = str(vms.directory)
    shim = run(*PARENT)
    shim.kill(SIGKILL)
    assert shim.wait().exit_status == 0xFFFFFFFF
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    found = spans.read(vms.directory)
    (whole,) = (one for one in found if one.name == "exit")
    inside = [one for one in found if one.thread == whole.thread and whole.begin < one.begin < whole.end]
    (stop,) = (one for one in inside if one.name in STOPS)
    (drain,) = (one for one in inside if one.name == "stdio")
    (close,) = (one for one in inside if one.name == "hcs HcsCloseComputeSystem")
    assert drain.begin < stop.begin < stop.end < drain.end < close.begin


def test_hanging_shutdown_of_container_is_terminated(shims: Shims, emulator: Emulator) -> None:
    """The shutdown times out after half a minute, then the container is terminated and its exit published."""
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.create(rootfs=shims.rootfs())
    shim.start()
    emulator.fault("HcsShutDownComputeSystem", delay=600)
    shim.kill(SIGKILL)
    assert shim.wait(timeout=BOUND).exit_status != 0
    assert shim.delete().exit_status != 0
    eventually(lambda: not emulator.control("status")["systems"], "the container's end")


def test_pod_with_hanging_guest_is_terminated(vms: VmShims) -> None:
    """The guest answers no request; the pod can be stopped without it."""
    pod = vms.pod()
    shim = vms.run_in(pod, "w1", *SLEEP)
    os.kill(vms.workers()[0], signal.SIGSTOP)
    pod.kill(SIGKILL)
    pod.wait(timeout=BOUND)
    assert shim.wait(timeout=BOUND).exit_status == 0xFFFFFFFF
    shim.delete()
    pod.delete()
    eventually(lambda: not vms.leaked(), "no leaked resource of the pod")
