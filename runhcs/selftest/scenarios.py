"""Containers and what they are observed to do. A step compares an observation with what is expected, `--against` with
that of another shim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runhcs.selftest.runner import Context, StepFailed
from runhcs.selftest.shim_driver import ShimDriver
from runhcs.task_client import TaskClient
from shim.ttrpc.status import StatusError

STATES = ("unknown", "created", "running", "stopped", "paused", "pausing")
FOREVER = "ping -n 600 127.0.0.1 > nul"
SIGTERM, SIGKILL = 15, 9
EXECS = 50
LINE = "selftest 0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ x" + "x" * 952
LINES = 10 * 1024  # of 1024 bytes, with the line ending
INPUT_LINES = 1024
# Programs that copy lines from stdin to stdout; not every image has each.
COPIERS = ('findstr "x"', 'find "x"', "more")

Observation = dict[str, Any]
Refusal = dict[str, Any]
Scenario = Callable[[Context, str, str], Observation]


def windows_spec(command: str, **members: Any) -> dict[str, Any]:
    """A spec without a root file system, which is in the Create request."""
    process = {"commandLine": f"cmd /c {command}", "args": [], "cwd": "C:\\", "user": {}}
    return {
        "ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": {"ignoreFlushesDuringBoot": True},
        **members,
    }  # fmt: skip


def process(command: str) -> dict[str, Any]:
    return {"commandLine": f"cmd /c {command}", "args": [], "cwd": "C:\\", "user": {}}


def refused(call: Callable[..., Any], *arguments: Any) -> Refusal:
    """The status code and the text of a call that is refused; empty if it is not."""
    try:
        call(*arguments)
    except StatusError as error:
        return {"code": error.code, "text": str(error)}
    return {}


def run_to_exit(task: TaskClient, exec_id: str = "") -> int:
    task.start(exec_id)
    return task.wait(exec_id).exit_status


def lifecycle(context: Context, id: str, program: str) -> Observation:
    """Every call in order, output on both streams, exit code 3, and the events."""
    shim = ShimDriver(context, id, windows_spec("echo out& echo err>&2& exit 3"), program)
    out, err = shim.output(), shim.output()
    task = shim.create(stdout=out.path, stderr=err.path)
    states = [STATES[task.state().status]]
    pid = task.start()
    status = task.wait().exit_status
    states.append(STATES[task.state().status])
    deleted = task.delete()
    shim.shutdown()
    return {
        "states": states, "has pid": pid > 0, "exit status": status, "deleted": deleted.exit_status,
        "stdout": out.text().rstrip(), "stderr": err.text().rstrip(), "events": shim.events.expect(4),
    }  # fmt: skip


def large_output(context: Context, id: str, program: str) -> Observation:
    """10 MB on stdout."""
    command = f"for /L %i in (1,1,{LINES}) do @echo {LINE}"
    shim = ShimDriver(context, id, windows_spec(command), program)
    out = shim.output()
    task = shim.create(stdout=out.path)
    status = run_to_exit(task)
    lines = out.text().splitlines()
    task.delete()
    shim.shutdown()
    return {"exit status": status, "lines": len(lines), "intact": all(line.rstrip() == LINE for line in lines)}


def stdin(context: Context, id: str, program: str) -> Observation:
    """1 MB on stdin, then EOF; a program in the container copies it to stdout."""
    sent = b"".join(b"%06d %s\r\n" % (number, b"x" * 1015) for number in range(INPUT_LINES))
    tried = []
    shim = ShimDriver(context, id, windows_spec(FOREVER), program)
    task = shim.create()
    task.start()
    for number, command in enumerate(COPIERS):
        given, out = shim.input(), shim.output()
        name = f"copy{number}"
        task.exec(name, process(command), stdin=given.path, stdout=out.path)
        task.start(name)
        try:
            given.write(sent)
        except OSError:
            pass  # the program is missing and has exited
        given.close()
        task.close_io(name)
        status = task.wait(name).exit_status
        received = [line for line in out.text().splitlines() if line]
        task.delete(name)
        tried.append(f"{command} exited with {status} after {len(received)} lines")
        if received:
            break
    task.kill(SIGKILL)
    task.wait()
    task.delete()
    shim.shutdown()
    expected = sent.decode().split()[1::2]
    same = [line.partition(" ")[2] for line in received] == expected
    context.details["stdin"] = tried
    return {"exit status": status, "lines": len(received), "intact": same}


def execs(context: Context, id: str, program: str) -> Observation:
    """50 execs that exit with 7, while the container runs."""
    shim = ShimDriver(context, id, windows_spec(FOREVER), program)
    task = shim.create()
    task.start()
    found = []
    for number in range(EXECS):
        name = f"exec{number}"
        task.exec(name, process("exit 7"))
        found.append(run_to_exit(task, name))
        task.delete(name)
    early = refused(task.delete)
    state = STATES[task.state().status]
    task.kill(SIGKILL)
    status = task.wait().exit_status
    task.delete()
    shim.shutdown()
    return {"exit statuses": sorted(set(found)), "count": len(found), "state": state, "early delete": early,
            "killed": status}  # fmt: skip


def signals(context: Context, id: str, program: str) -> Observation:
    """SIGTERM to a container, SIGKILL to an exec, and signals to what does not exist."""
    shim = ShimDriver(context, id, windows_spec(FOREVER), program)
    task = shim.create()
    task.start()
    task.exec("lasting", process(FOREVER))
    task.start("lasting")
    task.kill(SIGKILL, "lasting")
    killed = task.wait("lasting").exit_status
    task.delete("lasting")
    missing = refused(task.kill, SIGKILL, "missing")
    running = STATES[task.state().status]
    task.kill(SIGTERM)
    terminated = task.wait().exit_status
    late = refused(task.kill, SIGKILL)
    task.delete()
    shim.shutdown()
    return {"killed exec": killed, "missing exec": missing, "state": running, "terminated": terminated, "late": late}


def failures(context: Context, id: str, program: str) -> Observation:
    """A program that does not exist, and calls in the wrong order."""
    spec = windows_spec("exit 0")
    spec["process"]["commandLine"] = "no-such-program.exe"
    shim = ShimDriver(context, id, spec, program)
    task = shim.create()
    again = refused(task.create)
    started = refused(task.start)
    deleted = refused(task.delete)
    shim.shutdown()
    return {"second create": again, "start": started, "delete": deleted}


SCENARIOS: dict[str, Scenario] = {
    "lifecycle": lifecycle,
    "large-output": large_output,
    "stdin": stdin,
    "execs": execs,
    "signals": signals,
    "failures": failures,
}


def expect(observed: Observation, expected: Observation) -> None:
    """Raises StepFailed with each difference."""
    wrong = [f"{name} is {observed[name]!r}, not {value!r}" for name, value in expected.items()
             if observed[name] != value]  # fmt: skip
    if wrong:
        raise StepFailed("; ".join(wrong))

