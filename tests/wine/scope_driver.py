"""Pods that share a daemon under Wine: run by Python for Windows, with a copy of the shim of the unpacked distribution.

`python.exe scope_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
import threading
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import _winapi  # noqa: E402

from shim.platform.windows import endpoint, files, shared  # noqa: E402
from shim.platform.windows.pipe import PipeStream  # noqa: E402
from shim.platform.windows.pipe import dial as dial_pipe  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.wine.driver import TIMEOUT, main, security_descriptor  # noqa: E402
from tests.wine.scope_pods import Pod, Pods, count_handles, crash, terminate  # noqa: E402
from tests.wine.start_driver import dial, start, wait_process_exit  # noqa: E402

# So many pods that a leaked handle of each is seen.
MANY = 4


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


if __name__ == "__main__":
    main(
        lifecycles, which_pods_share, concurrent_starts, killed_start, terminated_or_crashed, hung_or_foreign_daemon,
        handles_of_pods,
    )  # fmt: skip
