"""Shared daemons whose HCS calls hang, or at whose HCS calls they are killed: run by Python for Windows under Wine.

`python.exe scope_faults_driver.py EXE DIRECTORY SCENARIO`, as scope_driver.py.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from shim.container.ledger import Ledger  # noqa: E402
from shim.platform.windows import endpoint  # noqa: E402
from shim.ttrpc.status import ClosedError, StatusError  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.wine.driver import TIMEOUT, main  # noqa: E402
from tests.wine.scope_pods import Pod, Pods, terminate  # noqa: E402
from tests.wine.start_driver import command_lines, wait_process_exit  # noqa: E402

# From test_shim_scope.py, for `crashes`: the address of a ControlProxy, and `1/4` for the first of four parts.
CONTROL, PART = "RUNHCS_TEST_CONTROL", "RUNHCS_TEST_PART"
# Lifecycles that the daemon has survived: their calls are fewer than the number at which it is killed.
ENOUGH = 1


def ask_emulator(command: str, **arguments: Any) -> Any:
    """A command of the emulator's control socket, through the test's `ControlProxy`."""
    host, _, port = os.environ[CONTROL].partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection, connection.makefile("rb") as answers:
        connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        return json.loads(answers.readline())


class Crashes:
    """Pods whose daemon is killed at an HCS call of one of them, on the host or in utility VMs."""

    def __init__(self, program: str, directory: str, in_vm: bool) -> None:
        self.pods = Pods(program, directory)
        self._in_vm = in_vm
        self._before = ask_emulator("status")["systems"], self._mounts()

    def crash(self, nth: int, when: str) -> tuple[bool, list[str]]:
        """Whether the daemon was killed, and what is left of its pods after the `delete` of each."""
        neighbour, pod = (self.pods.pod(in_vm=self._in_vm) for _ in range(2))
        assert pod.pid == neighbour.pid
        control = neighbour.control_pipe()
        neighbour.create()
        neighbour.task.start()
        ask_emulator("fault-add", call="*", nth=nth, kill_client=when)
        try:
            pod.run_and_kill()
            is_killed = False
        except (ClosedError, StatusError, OSError):
            is_killed = True
        ask_emulator("fault-clear")
        if not is_killed:
            terminate(pod.pid)  # after the lifecycle
        assert wait_process_exit(pod.pid)
        both = [neighbour, pod]
        commands = [threading.Thread(target=self._delete, args=(one,)) for one in both]
        for command in commands:
            command.start()
        for command in commands:
            command.join(TIMEOUT)
        return is_killed, self._left(both, control)

    def _delete(self, pod: Pod) -> None:
        done = pod.shim.command("delete")
        pod.deleted = done.returncode, done.stderr.decode("utf-8", "replace")

    def _left(self, pods: list[Pod], control: str) -> list[str]:
        found = [f"delete: {pod.deleted}" for pod in pods if pod.deleted != (0, "")]
        for pod in pods:
            found += [f"ledger: {entry}" for entry in Ledger(pod.shim.bundle).entries()]
            log = rf"\\.\pipe\containerd-shim-wine-{pod.shim.id}-log"
            found += [path for path in (control, pod.shim.address, log) if endpoint.exists(path)]
            found += [f"process: {line}" for line in command_lines(pod.shim.id)]
        found += self.pods.crash_logs()
        # The processes of a container end a moment after it.
        try:
            eventually(lambda: not self._held(), "no resource of the emulator")
        except AssertionError:
            found += self._held()
        return found

    def _held(self) -> list[str]:
        systems, mounts = self._before
        found = [str(one) for one in ask_emulator("status")["systems"] if one not in systems]
        return found + [line for line in self._mounts() if line not in mounts]

    @staticmethod
    def _mounts() -> list[str]:
        """Those of the machine of this test, as the wineserver sees them."""
        directory = os.path.dirname(os.environ["WINEPREFIX"])
        with open(r"Z:\proc\self\mountinfo", encoding="utf-8") as file:
            return [line for line in file if directory in line]


def crashes(program: str, directory: str, in_vm: bool = False) -> Any:
    """The daemon is killed at every HCS call of a container's lifecycle, of which each part of the test has some."""
    part, parts = (int(number) for number in os.environ[PART].split("/"))
    one = Crashes(program, directory, in_vm)
    survived = []
    left = {}
    nth = part
    while len(survived) < ENOUGH:
        is_killed, found = one.crash(nth, ("before", "after")[nth // parts % 2])
        if found:
            left[nth] = found
        if not is_killed:
            survived.append(nth)
        nth += parts
    return {"survived": survived, "left": left}


def vm_crashes(program: str, directory: str) -> Any:
    return crashes(program, directory, in_vm=True)


def blocked_call(program: str, directory: str) -> Any:
    """A call of one pod hangs in HCS. Others run, join and end, and so does the pod itself."""
    pods = Pods(program, directory)
    first, second = pods.pod(), pods.pod(command="cmd /c exit 3")
    first.task.create()
    ask_emulator("fault-add", call="HcsStartComputeSystem", nth=1, delay=1000)
    caller = threading.Thread(target=_tolerate, args=(first.task.start,))
    caller.start()
    eventually(lambda: ask_emulator("fault-list")["faults"][0]["triggered"], "the call that blocks")
    third = pods.pod(command="cmd /c exit 4")
    found = {"shared": len({pod.pid for pod in (first, second, third)}), "codes": [second.run(), third.run()]}
    found["ended"] = [second.end(), third.end()]
    found["blocked"] = [caller.is_alive(), first.is_served()]
    terminate(first.pid)
    caller.join(TIMEOUT)
    ask_emulator("fault-clear")
    found["deleted"] = first.shim.command("delete").returncode
    return found


def _tolerate(call: Any) -> None:
    try:
        call()
    except (ClosedError, StatusError, OSError):
        pass


if __name__ == "__main__":
    main(crashes, vm_crashes, blocked_call)
