"""Host process containers inside Wine: run by Python for Windows, against the shim as unpacked.

`python.exe hostprocess_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import _winapi  # noqa: E402

from shim.api.runhcs_stats import Statistics  # noqa: E402
from shim.api.shimdiag import ExecProcessRequest, ExecProcessResponse  # noqa: E402
from shim.ttrpc.status import StatusError  # noqa: E402
from tests.wine.driver import PATIENCE, Events, Pipe, Shim, main  # noqa: E402

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT_LOCATION = "microsoft.com/hostprocess-rootfs-location"
DIAGNOSTICS = "containerd.runhcs.v1.diag.ShimDiag"
QUERY_LIMITED = 0x1000
TERMINATE = 0x1
STILL_ACTIVE = 259


class JobShim(Shim):
    """A host process container and its shim."""

    def write_spec(self, directory: str, command: str, members: dict[str, Any]) -> None:
        self.place = os.path.join(directory, "hpc")
        own = {HOST_PROCESS: "true", INHERIT_USER: "true", ROOT_LOCATION: self.place}
        annotations = {**own, **members.get("annotations", {})}
        super().write_spec(directory, command, {**members, "annotations": annotations})

    @property
    def pid(self) -> int:
        with open(os.path.join(self.bundle, "shim.pid")) as file:
            return int(file.read())


def alive(pid: int) -> bool:
    try:
        handle = _winapi.OpenProcess(QUERY_LIMITED, False, pid)
    except OSError:
        return False
    try:
        return _winapi.GetExitCodeProcess(handle) == STILL_ACTIVE
    finally:
        _winapi.CloseHandle(handle)


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + PATIENCE
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def life(program: str, directory: str) -> Any:
    """Output of a command that knows its place, an exit code of 32 bits, the events, and nothing left."""
    events = Events("job-life")
    command = "cmd /c echo %CONTAINER_SANDBOX_MOUNT_POINT%& cd& echo %SystemRoot%& exit 70000"
    shim = JobShim(program, directory, "joblife", command, events)
    out, err = Pipe("job-life-stdout"), Pipe("job-life-stderr")
    task = shim.start()
    task.create(stdout=out.path, stderr=err.path)
    pid = task.start()
    status = task.wait().exit_status
    text = out.text()
    deleted = task.delete().exit_status
    task.shutdown()
    ended = shim.gone()
    shim.delete()
    return {
        "pid": pid, "status": status, "text": text, "stderr": err.text(), "deleted": deleted, "gone": ended,
        "events": events.topics, "place": shim.place, "left": os.path.exists(os.path.join(shim.place, "joblife")),
    }  # fmt: skip


def execs(program: str, directory: str) -> Any:
    """A second process with stdin, figures of both, and the end of all by Kill."""
    shim = JobShim(program, directory, "jobexecs", "cmd /c ping -n 600 127.0.0.1")
    given, out, err = Pipe("job-exec-in"), Pipe("job-exec-out"), Pipe("job-exec-err")
    task = shim.start()
    task.create()
    pid = task.start()
    process = {"cwd": "C:\\", "commandLine": "cat", "args": [], "user": {}}
    task.exec("two", process, stdin=given.path, stdout=out.path, stderr=err.path)
    second_pid = task.start("two")
    listed = [entry.pid for entry in task.pids()]
    figures = Statistics.decode(task.stats().value).windows
    given.write(b"through\r\n")
    given.end()
    second = task.wait("two").exit_status
    text = out.text()
    task.delete("two")
    task.kill(9)
    status = task.wait().exit_status
    ended = gone([*listed, pid])
    task.delete()
    task.shutdown()
    assert figures is not None and figures.processor is not None and figures.memory is not None
    return {
        "pid": pid, "second_pid": second_pid, "listed": listed, "second": second, "text": text, "status": status,
        "gone": ended, "uptime": figures.uptime_ns, "processor": figures.processor.total_runtime_ns,
        "shim": shim.pid, "over": shim.gone(),
    }  # fmt: skip


def failures(program: str, directory: str) -> Any:
    """A program that is not there, a user who is none, a pipe as a mount, a job whose name is taken."""
    said = {}
    shim = JobShim(program, directory, "jobmissing", "no-such-program.exe")
    task = shim.start()
    task.create()
    try:
        task.start()
    except StatusError as error:
        said["program"] = str(error)
    task.delete()
    task.shutdown()
    shim = JobShim(program, directory, "jobnobody", "cmd /c exit 0", annotations={INHERIT_USER: "false"})
    task = shim.start()
    try:
        task.create()
    except StatusError as error:
        said["user"] = str(error)
    task.shutdown()
    pipes = [{"source": r"\\.\pipe\x", "destination": r"\\.\pipe\x"}]
    shim = JobShim(program, directory, "jobpipe", "cmd /c exit 0", mounts=pipes)
    task = shim.start()
    try:
        task.create()
    except StatusError as error:
        said["pipe"] = str(error)
    task.shutdown()
    return said


def crash(program: str, directory: str) -> Any:
    """The shim is killed: its job closes, and with it all that ran in it; `delete` frees the rest."""
    shim = JobShim(program, directory, "jobcrash", "cmd /c ping -n 600 127.0.0.1")
    task = shim.start()
    task.create()
    pid = task.start()
    before = alive(pid)
    members = [entry.pid for entry in task.pids()]
    handle = _winapi.OpenProcess(TERMINATE, False, shim.pid)
    _winapi.TerminateProcess(handle, 9)
    _winapi.CloseHandle(handle)
    ended = gone([*members, pid])
    answer = shim.delete()
    return {"before": before, "members": members, "gone": ended, "answer": len(answer), "pid": pid}


def asked(program: str, directory: str) -> Any:
    """A signal reaches the program behind the shell, and all ends."""
    shim = JobShim(program, directory, "jobasked", "cmd /c ping -n 600 127.0.0.1")
    task = shim.start()
    task.create()
    pid = task.start()
    members: list[int] = []
    end = time.monotonic() + PATIENCE
    while len(members) < 3 and time.monotonic() < end:  # the shell, its console and what it has found
        members = [entry.pid for entry in task.pids()]
    task.kill(15)
    status = task.wait().exit_status
    ended = gone([*members, pid])
    task.delete()
    task.shutdown()
    return {"status": status, "gone": ended, "members": len(members)}


def console(program: str, directory: str) -> Any:
    """A terminal, and a new size for it."""
    shim = JobShim(program, directory, "jobconsole", "cmd /c echo in a console")
    out = Pipe("job-console-out")
    task = shim.start()
    task.create(stdout=out.path, terminal=True)
    task.start()
    task.resize(100, 40)
    status = task.wait().exit_status
    task.delete()
    text = out.text()
    task.shutdown()
    return {"status": status, "text": text}


def diagnose(program: str, directory: str) -> Any:
    """A process of the host that Microsoft's `shimdiag exec` would ask for; and one that is not there."""
    shim = Shim(program, directory, "jobdiag", "cmd /c ping -n 600 127.0.0.1")
    out = Pipe("job-diag-out")
    task = shim.start()
    task.create()
    task.start()
    request = ExecProcessRequest(args=["cmd", "/c", "echo from the host& exit 6"], stdout=out.path)
    answer = task.client.call(DIAGNOSTICS, "DiagExecInHost", request.encode(), timeout=PATIENCE)
    said = ""
    try:
        missing = ExecProcessRequest(args=["no-such-program.exe"])
        task.client.call(DIAGNOSTICS, "DiagExecInHost", missing.encode(), timeout=PATIENCE)
    except StatusError as error:
        said = str(error)
    text = out.text()
    task.kill(9)
    task.wait()
    task.delete()
    task.shutdown()
    return {"code": ExecProcessResponse.decode(answer).exit_code, "text": text, "said": said, "gone": shim.gone()}


if __name__ == "__main__":
    main(life, execs, failures, crash, asked, console, diagnose)
