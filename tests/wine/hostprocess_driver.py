"""Host process containers under Wine: run by Python for Windows, with the shim of the unpacked distribution.

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
from tests.wine.driver import TIMEOUT, Events, Pipe, Shim, main  # noqa: E402

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


def alive(pid: int) -> bool:
    try:
        handle = _winapi.OpenProcess(QUERY_LIMITED, False, pid)
    except OSError:
        return False
    try:
        return _winapi.GetExitCodeProcess(handle) == STILL_ACTIVE
    finally:
        _winapi.CloseHandle(handle)


def wait_exited(pids: list[int]) -> bool:
    deadline = time.monotonic() + TIMEOUT
    while any(map(alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def lifecycle(program: str, directory: str) -> Any:
    """Output of a command with its root directory, an exit code of 32 bits, the events, and no leaked files."""
    events = Events("job-lifecycle")
    command = "cmd /c echo %CONTAINER_SANDBOX_MOUNT_POINT%& cd& echo %SystemRoot%& exit 70000"
    shim = JobShim(program, directory, "joblifecycle", command, events)
    out, err = Pipe("job-lifecycle-stdout"), Pipe("job-lifecycle-stderr")
    task = shim.start()
    task.create(stdout=out.path, stderr=err.path)
    pid = task.start()
    status = task.wait().exit_status
    text = out.text()
    deleted = task.delete().exit_status
    task.shutdown()
    exited = shim.wait_exited()
    shim.delete()
    return {
        "pid": pid, "status": status, "text": text, "stderr": err.text(), "deleted": deleted, "exited": exited,
        "events": events.topics, "place": shim.place, "remaining": os.path.exists(os.path.join(shim.place, shim.id)),
    }  # fmt: skip


def execs(program: str, directory: str) -> Any:
    """A second process with stdin, stats of both, and Kill."""
    shim = JobShim(program, directory, "jobexecs", "cmd /c ping -n 600 127.0.0.1")
    given, out, err = Pipe("job-exec-in"), Pipe("job-exec-out"), Pipe("job-exec-err")
    task = shim.start()
    task.create()
    pid = task.start()
    process = {"cwd": "C:\\", "commandLine": "cat", "args": [], "user": {}}
    task.exec("two", process, stdin=given.path, stdout=out.path, stderr=err.path)
    second_pid = task.start("two")
    listed = [entry.pid for entry in task.pids()]
    stats = Statistics.decode(task.stats().value).windows
    given.write(b"through\r\n")
    given.close()
    second = task.wait("two").exit_status
    text = out.text()
    task.delete("two")
    task.kill(9)
    status = task.wait().exit_status
    exited = wait_exited([*listed, pid])
    task.delete()
    task.shutdown()
    assert stats is not None and stats.processor is not None and stats.memory is not None
    return {
        "pid": pid, "second_pid": second_pid, "listed": listed, "second": second, "text": text, "status": status,
        "exited": exited, "uptime": stats.uptime_ns, "processor": stats.processor.total_runtime_ns,
        "shim": shim.pid, "shim_exited": shim.wait_exited(),
    }  # fmt: skip


def failures(program: str, directory: str) -> Any:
    """A missing program, a container without a user, and a pipe as a mount."""
    errors = {}
    shim = JobShim(program, directory, "jobmissing", "no-such-program.exe --password=xyzzy")
    task = shim.start()
    task.create()
    try:
        task.start()
    except StatusError as error:
        errors["program"] = str(error)
    task.delete()
    task.shutdown()
    shim = JobShim(program, directory, "jobnobody", "cmd /c exit 0", annotations={INHERIT_USER: "false"})
    task = shim.start()
    try:
        task.create()
    except StatusError as error:
        errors["user"] = str(error)
    task.shutdown()
    pipes = [{"source": r"\\.\pipe\x", "destination": r"\\.\pipe\x"}]
    shim = JobShim(program, directory, "jobpipe", "cmd /c exit 0", mounts=pipes)
    task = shim.start()
    try:
        task.create()
    except StatusError as error:
        errors["pipe"] = str(error)
    task.shutdown()
    return errors


def crash(program: str, directory: str) -> Any:
    """The shim is killed: its job closes, which terminates the processes in it; `delete` releases the rest."""
    shim = JobShim(program, directory, "jobcrash", "cmd /c ping -n 600 127.0.0.1")
    task = shim.start()
    task.create()
    pid = task.start()
    before = alive(pid)
    members = [entry.pid for entry in task.pids()]
    handle = _winapi.OpenProcess(TERMINATE, False, shim.pid)
    _winapi.TerminateProcess(handle, 9)
    _winapi.CloseHandle(handle)
    exited = wait_exited([*members, pid])
    response = shim.delete()
    return {"before": before, "members": members, "exited": exited, "response": len(response), "pid": pid}


def kill_with_sigterm(program: str, directory: str) -> Any:
    """SIGTERM reaches the program that the shell started, and all processes exit."""
    shim = JobShim(program, directory, "jobsigterm", "cmd /c ping -n 600 127.0.0.1")
    task = shim.start()
    task.create()
    pid = task.start()
    members: list[int] = []
    deadline = time.monotonic() + TIMEOUT
    while len(members) < 3 and time.monotonic() < deadline:  # the shell, its console and ping
        members = [entry.pid for entry in task.pids()]
    task.kill(15)
    status = task.wait().exit_status
    exited = wait_exited([*members, pid])
    task.delete()
    task.shutdown()
    return {"status": status, "exited": exited, "members": len(members)}


def console(program: str, directory: str) -> Any:
    """A terminal, and ResizePty."""
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
    """DiagExecInHost, as sent by Microsoft's `shimdiag exec`, of an existing and of a missing program."""
    shim = Shim(program, directory, "jobdiag", "cmd /c ping -n 600 127.0.0.1")
    out = Pipe("job-diag-out")
    task = shim.start()
    task.create()
    task.start()
    request = ExecProcessRequest(args=["cmd", "/c", "echo from the host& exit 6"], stdout=out.path)
    response = task.client.call(DIAGNOSTICS, "DiagExecInHost", request.encode(), timeout=TIMEOUT)
    error_text = ""
    try:
        missing = ExecProcessRequest(args=["no-such-program.exe"])
        task.client.call(DIAGNOSTICS, "DiagExecInHost", missing.encode(), timeout=TIMEOUT)
    except StatusError as error:
        error_text = str(error)
    text = out.text()
    task.kill(9)
    task.wait()
    task.delete()
    task.shutdown()
    code = ExecProcessResponse.decode(response).exit_code
    return {"code": code, "text": text, "error": error_text, "exited": shim.wait_exited()}


if __name__ == "__main__":
    main(lifecycle, execs, failures, crash, kill_with_sigterm, console, diagnose)
