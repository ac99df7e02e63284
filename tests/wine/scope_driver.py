"""Pods that share a daemon under Wine: run by Python for Windows, with a copy of the shim of the unpacked distribution.

`python.exe scope_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import _winapi  # noqa: E402

from runhcs.task_client import TaskClient  # noqa: E402
from shim.commands import SHIM_SCOPE  # noqa: E402
from shim.container.ledger import Ledger  # noqa: E402
from shim.platform.windows import daemon, endpoint, files, shared  # noqa: E402
from shim.platform.windows.pipe import PipeStream  # noqa: E402
from shim.platform.windows.pipe import dial as dial_pipe  # noqa: E402
from shim.ttrpc.status import ClosedError, StatusError  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.wine.driver import TIMEOUT, Events, Shim, main, security_descriptor  # noqa: E402
from tests.wine.standby_driver import Node  # noqa: E402
from tests.wine.start_driver import command_lines, daemon_of, dial, start, wait_process_exit  # noqa: E402

FOREVER = "cmd /c ping -n 600 127.0.0.1"
# So many pods that a leaked handle of each is seen.
MANY = 4
# From test_shim_scope.py, for `crashes`: the address of a ControlProxy, and `1/4` for the first of four parts.
CONTROL, PART = "RUNHCS_TEST_CONTROL", "RUNHCS_TEST_PART"
# Lifecycles that the daemon has survived: their calls are fewer than the number at which it is killed.
ENOUGH = 1


class Pods(Node):
    """A copy of the distribution, so that no other test shares its daemons."""

    def __init__(self, program: str, directory: str) -> None:
        super().__init__(program, directory)
        self.events = Events(os.path.basename(directory))
        self.environment: dict[str, str] = {}
        self._pids: set[int] = set()

    def pod(self, scope: str = "node", command: str = FOREVER) -> Pod:
        shim = self.new_shim(scope, command)
        code, output = start(shim, **self.environment)
        assert code == 0 and output == shim.address, output
        pod = Pod(shim)
        self._pids.add(pod.pid)
        return pod

    def close(self) -> None:
        """Terminate the daemons that are left."""
        for pid in filter(daemon.is_running, self._pids):
            terminate(pid)

    def new_shim(self, scope: str, command: str = FOREVER) -> Shim:
        self.count += 1
        name = f"{os.path.basename(self.directory)}-{self.count}"
        return Shim(self.program, self.directory, name, command, self.events, annotations={SHIM_SCOPE: scope})

    def crash_logs(self) -> list[str]:
        """Files of daemons beside the bundles."""
        return [name for name in os.listdir(self.directory) if name.startswith(shared.CRASH_LOG)]


class Pod:
    def __init__(self, shim: Shim) -> None:
        self.shim = shim
        self.task: TaskClient = dial(shim)
        self.pid = self.task.connect().shim_pid
        assert self.pid == daemon_of(shim)
        #: Exit code and stderr of its `delete`.
        self.deleted = -1, ""

    @property
    def is_shared(self) -> bool:
        return os.path.exists(os.path.join(self.shim.bundle, "daemon-panic.log"))

    def is_served(self) -> bool:
        return dial(self.shim).connect().shim_pid == self.pid

    def run(self) -> int:
        """A container until its end; returns its exit status."""
        self.task.create()
        self.task.start()
        status = self.task.wait().exit_status
        self.task.delete()
        return status

    def run_and_kill(self) -> None:
        """A container and an exec, both killed."""
        process = {"cwd": "C:\\", "commandLine": FOREVER, "args": [], "user": {}}
        self.task.create()
        self.task.start()
        self.task.exec("e1", process)
        self.task.start("e1")
        self.task.stats()
        self.task.pids()
        self.task.kill(9, "e1")
        self.task.wait("e1")
        self.task.delete("e1")
        self.task.kill(9)
        self.task.wait()
        self.task.delete()

    def end(self) -> bool:
        """Shutdown; containerd removes the bundle right after its response."""
        self.task.shutdown()
        shutil.rmtree(self.shim.bundle)
        log = rf"\\.\pipe\containerd-shim-wine-{self.shim.id}-log"
        eventually(lambda: not endpoint.exists(log), "the end of its log pipe")
        return self.shim.wait_exited()

    def control_pipe(self) -> str:
        """That of the daemon, which this pod has started."""
        (line,) = command_lines(self.shim.id)
        return line.split(" -socket ")[1].split()[0]


def lifecycles(program: str, directory: str) -> Any:
    """By the launcher, which joins without Python, and by Python."""
    pods = Pods(program, directory)
    found = [_lifecycles(pods)]
    pods.environment = {"RUNHCS_NATIVE": "0"}
    found.append(_lifecycles(pods))
    pods.environment = {}
    keeper = pods.pod()
    folder = os.path.join(pods.folder, "containerd-shim-runhcs")
    (library,) = [name for name in os.listdir(folder) if re.fullmatch(r"python3\d\d\.dll", name)]
    os.rename(os.path.join(folder, library), os.path.join(folder, "other.dll"))
    joined = pods.pod()
    result = {"found": found, "native": joined.pid == keeper.pid, "ended": [joined.end(), keeper.end()]}
    wait_process_exit(keeper.pid)
    return result


def _lifecycles(pods: Pods) -> Any:
    """Pods of one daemon: exit status, log, files, and that the end of one does not affect the others."""
    pods.events.topics.clear()
    found, started = [], []
    for number in range(3):
        pod = pods.pod(command=f"cmd /c exit {number}")
        started.append(pod)
        log = endpoint.connect(rf"\\.\pipe\containerd-shim-wine-{pod.shim.id}-log", TIMEOUT)
        line = log.recv(65536).decode()
        log.release()
        found.append([pod.run(), f"tid={pod.shim.id}" in line, sorted(os.listdir(pod.shim.bundle))])
    topics = ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
    eventually(lambda: [pods.events.topics.count(topic) for topic in topics] == [3] * 4, "the events of all")
    first, second, third = started
    served = []
    for pod, others in ((first, [second, third]), (third, [second])):
        ended = pod.end()
        served.append([ended, *(other.is_served() for other in others)])
    last = [second.end(), wait_process_exit(second.pid), pods.crash_logs()]
    return {"pods": found, "pids": len({pod.pid for pod in started}), "served": served, "last": last}


def which_pods_share(program: str, directory: str) -> Any:
    """The scope, the environment, the limit and the version decide."""
    pods = Pods(program, directory)
    node, namespace, own = pods.pod("node"), pods.pod("namespace"), pods.pod("pod")
    pids = [pod.pid for pod in (node, namespace, own)]
    pods.environment = {"NAMESPACE": "differs-with-each-call"}
    same = pods.pod("node").pid == node.pid
    pods.environment = {"RUNHCS_SHARED_MAX_PODS": "2"}
    limited = [pods.pod("node").pid for _ in range(3)]
    pods.environment = {"RUNHCS_SHARED_MAX_AGE": "1"}
    old = pods.pod("node")
    eventually(lambda: pods.pod("node").pid != old.pid, "a new daemon", interval=0.3)
    pods.environment = {}
    modules = os.path.join(pods.folder, "containerd-shim-runhcs", "lib", "modules.bin")
    os.utime(modules, (1_700_000_000, 1_700_000_000))
    upgraded = pods.pod("node")
    found = {
        "pids": len(set(pids)), "own": own.is_shared, "same": same, "other environment": limited[0] not in pids,
        "limited": [limited[0] == limited[1], limited[1] == limited[2]], "old": old.is_served(),
        "upgraded": [upgraded.pid not in (*pids, *limited), upgraded.is_shared, node.is_served()],
    }  # fmt: skip
    pods.close()
    return found


def concurrent_starts(program: str, directory: str) -> Any:
    """While the last pod of a daemon ends: each is served by a shared daemon, by this one or another."""
    pods = Pods(program, directory)
    first = pods.pod()
    shims = [pods.new_shim("node") for _ in range(4)]
    outputs: list[tuple[int, str]] = []
    threads = [threading.Thread(target=lambda shim=shim: outputs.append(start(shim))) for shim in shims]
    for thread in threads:
        thread.start()
    first.end()
    for thread in threads:
        thread.join(TIMEOUT)
    started = [Pod(shim) for shim in shims]
    served = [pod.is_shared and pod.is_served() for pod in started]
    ended = [pod.end() for pod in started]
    exited = [wait_process_exit(pid) for pid in {pod.pid for pod in started}]
    return {"codes": [code for code, _ in outputs], "served": served, "ended": ended, "exited": all(exited),
            "crash logs": pods.crash_logs()}  # fmt: skip


def killed_start(program: str, directory: str) -> Any:
    """A `start` that dies during the handover gives up its pod only. Other clients of the control pipe cost nothing."""
    pods = Pods(program, directory)
    first = pods.pod()
    control = first.control_pipe()
    shim = pods.new_shim("node")
    shim.address = endpoint.address_for("", "wine", shim.id)
    listener = endpoint.listen(shim.address)
    panic_log = files.create(os.path.join(shim.bundle, "panic.log"))
    stream = shared.connect(control)
    assert stream is not None
    descriptor = security_descriptor(stream.handle)
    greeted = shared.wait_greeting(stream) == first.pid
    shared.hand_over(stream, listener, panic_log, b"", shim.bundle, False, [*shim.flags, "start"])
    ready = stream.recv(1).decode()
    listener.close()
    files.close(panic_log)
    served = dial(shim).connect().shim_pid == first.pid
    stream.release()
    ended = shim.wait_exited()
    shutil.rmtree(shim.bundle)  # no file of it is open
    for data in (b"", b"\x08\0\0\0nonsense\0\0\0\0"):
        other = PipeStream(dial_pipe(control, TIMEOUT), TIMEOUT)
        other.recv(5)
        other.sendall(data)
        if data:
            assert other.recv(1) == b""
        other.release()
    return {
        "prefix": control.rpartition("\\")[0], "descriptor": descriptor, "greeted": greeted, "ready": ready,
        "served": served, "ended": ended, "first": [first.is_served(), first.end(), wait_process_exit(first.pid)],
    }  # fmt: skip


def terminated_or_crashed(program: str, directory: str) -> Any:
    """`delete` of each pod releases what it held, and prints what a crash wrote. The next pod gets a new daemon."""
    pods = Pods(program, directory)
    found = []
    for end in (terminate, crash):
        started = [pods.pod() for _ in range(2)]
        for pod in started:
            pod.task.create()
            pod.task.start()
        end(started[0].pid)
        gone = [pod.shim.wait_exited() for pod in started]
        done = [pod.shim.command("delete") for pod in started]
        printed = [b"access violation" in one.stderr for one in done]
        found.append({
            "shared": started[0].pid == started[1].pid, "gone": gone, "codes": [one.returncode for one in done],
            "printed": printed, "crash logs": len(pods.crash_logs()),
        })  # fmt: skip
    return found


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)  # TerminateProcess
    wait_process_exit(pid)


def crash(pid: int) -> None:
    """An access violation: a thread begins at an address without code."""
    process = _winapi.OpenProcess(0x1FFFFF, False, pid)
    create = ctypes.windll.kernel32.CreateRemoteThread
    create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                       ctypes.c_ulong, ctypes.c_void_p]  # fmt: skip
    assert create(process, None, 0, 16, None, 0, None)
    wait_process_exit(pid)


def ask_emulator(command: str, **arguments: Any) -> Any:
    """A command of the emulator's control socket, through the test's `ControlProxy`."""
    host, _, port = os.environ[CONTROL].partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection, connection.makefile("rb") as answers:
        connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        return json.loads(answers.readline())


class Crashes:
    """Pods whose daemon is killed at an HCS call of one of them."""

    def __init__(self, program: str, directory: str) -> None:
        self.pods = Pods(program, directory)
        self._before = ask_emulator("status")["systems"], self._mounts()

    def crash(self, nth: int, when: str) -> tuple[bool, list[str]]:
        """Whether the daemon was killed, and what is left of its pods after the `delete` of each."""
        neighbour, pod = self.pods.pod(), self.pods.pod()
        assert pod.pid == neighbour.pid
        control = neighbour.control_pipe()
        neighbour.task.create()
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


def crashes(program: str, directory: str) -> Any:
    """The daemon is killed at every HCS call of a container's lifecycle, of which each part of the test has some."""
    part, parts = (int(number) for number in os.environ[PART].split("/"))
    one = Crashes(program, directory)
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


def hung_or_foreign_daemon(program: str, directory: str) -> Any:
    """A daemon that hangs gets no more pods. If another program has its pipe, a pod gets a daemon of its own."""
    pods = Pods(program, directory)
    first = pods.pod()
    control = first.control_pipe()
    process = ctypes.c_void_p(_winapi.OpenProcess(0x800, False, first.pid))
    ctypes.windll.ntdll.NtSuspendProcess(process)
    second = pods.pod()
    third = pods.pod()
    ctypes.windll.ntdll.NtResumeProcess(process)
    found = [second.is_shared, second.pid != first.pid, third.pid == second.pid, first.is_served()]
    for pod in (first, second, third):
        pod.end()
    exited = [wait_process_exit(pod.pid) for pod in (first, third)]
    listener = endpoint.Listener(endpoint.listen(control))
    threading.Thread(target=_answer_wrongly, args=(listener,), daemon=True).start()
    alone = pods.pod()
    foreign = [alone.is_shared, alone.is_served()]
    pods.close()
    return {"hung": found, "exited": exited, "foreign": foreign}


def _answer_wrongly(listener: endpoint.Listener) -> None:
    while True:
        stream = listener.accept()
        stream.sendall(b"wrong")
        stream.release()


def handles_of_pods(program: str, directory: str) -> Any:
    """The handles of a daemon before and after pods that came and went."""
    pods = Pods(program, directory)
    keeper = pods.pod()

    def run_pods(count: int) -> int:
        for _ in range(count):
            pod = pods.pod(command="cmd /c exit 0")
            assert pod.pid == keeper.pid and pod.run() == 0
            pod.end()
        return count_handles(keeper.pid)

    before = run_pods(2)
    after = run_pods(MANY)
    try:
        # Threads that are about to end hold some.
        eventually(lambda: count_handles(keeper.pid) < before + MANY, "the handles of a daemon without these pods")
    except AssertionError:
        pass
    last = count_handles(keeper.pid)
    pods.close()
    return [before, after, last]


class HandleEntry(ctypes.Structure):
    """SYSTEM_HANDLE_TABLE_ENTRY_INFO_EX."""

    _fields_ = (("object", ctypes.c_void_p), ("pid", ctypes.c_size_t), ("handle", ctypes.c_size_t),
                ("access", ctypes.c_ulong), ("trace", ctypes.c_ushort), ("type", ctypes.c_ushort),
                ("attributes", ctypes.c_ulong), ("reserved", ctypes.c_ulong))  # fmt: skip


def count_handles(pid: int) -> int:
    """How many handles a process has. Wine does not count them for GetProcessHandleCount."""
    buffer = ctypes.create_string_buffer(8 << 20)
    assert ctypes.windll.ntdll.NtQuerySystemInformation(64, buffer, len(buffer), None) == 0
    count = ctypes.c_size_t.from_buffer(buffer).value
    return sum(entry.pid == pid for entry in (HandleEntry * count).from_buffer(buffer, 16))


if __name__ == "__main__":
    main(
        lifecycles, which_pods_share, concurrent_starts, killed_start, terminated_or_crashed, hung_or_foreign_daemon,
        handles_of_pods, crashes, blocked_call,
    )  # fmt: skip
