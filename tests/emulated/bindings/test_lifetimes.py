"""Handles and callbacks of the bindings that end in an unusual order, on the emulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import AlreadyClosed, HcsError
from shim.hcs_bindings.events import Exit
from shim.hcs_bindings.system import ComputeSystem
from tests.support.bindings import command, container, descriptors
from tests.support.emulator import Emulator
from tests.support.eventually import eventually

ROOT = Path(__file__).resolve().parents[3]


def test_service_death_ends_all_waits(hcs: Emulator) -> None:
    outcomes: list[object] = []
    told = threading.Event()
    with ComputeSystem.create("c1", container()) as system:
        system.start()
        process = system.create_process(command("ping -t localhost"))
        process.on_exit(lambda ended: told.set())
        hcs.fault("HcsGetComputeSystemProperties", delay=60)

        def ask() -> None:
            try:
                outcomes.append(system.properties())
            except HcsError as error:
                outcomes.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: bool(hcs.control("fault-list")["faults"][0]["seen"]), "the call")
        os.kill(hcs.pid, signal.SIGKILL)
        hcs.process.wait(60)
        asking.join(60)
        assert isinstance(outcomes[0], HcsError) and errors.is_service_lost(outcomes[0])
        ended = system.wait_exit(60)
        assert ended.error is not None and errors.is_service_lost(ended.error)
        assert told.wait(60)
        with pytest.raises(HcsError) as caught:
            system.terminate()
        assert errors.is_service_lost(caught.value)
        process.close()


def test_close_during_call(hcs: Emulator) -> None:
    hcs.fault("HcsGetComputeSystemProperties", delay=0.3)
    system = ComputeSystem.create("c1", container())
    outcomes: list[object] = []
    asking = threading.Thread(target=lambda: outcomes.append(system.properties()))
    asking.start()
    eventually(lambda: bool(hcs.control("fault-list")["faults"][0]["seen"]), "the call")
    system.close()
    with pytest.raises(AlreadyClosed):
        system.properties()
    asking.join(60)
    assert isinstance(outcomes[0], dict)


def test_thousand_systems_leak_nothing(hcs: Emulator) -> None:
    with ComputeSystem.create("first", container()):
        pass
    eventually(lambda: hcs.control("status")["handles"] == 0)
    before, threads = descriptors(), threading.active_count()
    for index in range(1000):
        with ComputeSystem.create(f"c{index % 7}", container()) as system:
            assert system.id
    assert descriptors() == before
    assert threading.active_count() <= threads
    assert ComputeSystem.enumerate() == []


def test_exit_callback_may_close_everything(hcs: Emulator) -> None:
    system = ComputeSystem.create("c1", container())
    system.start()
    process = system.create_process(command("cmd /c exit 0"))
    done = threading.Event()

    def end(ended: Exit) -> None:
        process.close()
        system.terminate()
        system.close()
        done.set()

    process.on_exit(end)
    assert done.wait(60)
    eventually(lambda: ComputeSystem.enumerate() == [], "the end of the system")


def test_interpreter_exit_with_open_handles(hcs: Emulator) -> None:
    program = (
        "from shim.hcs_bindings.system import ComputeSystem\n"
        "from tests.support.bindings import command, container\n"
        "system = ComputeSystem.create('c2', container()); system.start()\n"
        "processes = [system.create_process(command('cmd /c exit 0')) for _ in range(20)]\n"
        "system.on_exit(print); system.terminate()\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        eventually(lambda: ComputeSystem.enumerate() == [], "the end of the system")


def test_fork_before_first_call_works(hcs: Emulator) -> None:
    """A standby imports the bindings and loads the library, then forks: the child has its own connection and
    callbacks."""
    program = (
        "import os\n"
        "from shim.hcs_bindings import library\n"
        "from shim.hcs_bindings.system import ComputeSystem\n"
        "from tests.support.bindings import command, container\n"
        "assert library.has(library.computecore, 'HcsCreateComputeSystem')\n"
        "children = []\n"
        "for number in range(3):\n"
        "    if (child := os.fork()) == 0:\n"
        "        with ComputeSystem.create(f'fork{number}', container()) as system:\n"
        "            system.start()\n"
        "            with system.create_process(command('cmd /c exit 9')) as process:\n"
        "                os._exit(process.wait_exit(60).code)\n"
        "    children.append(child)\n"
        "print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[9, 9, 9]\n", "")
    eventually(lambda: ComputeSystem.enumerate() == [], "the end of the systems")
