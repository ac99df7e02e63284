"""List the shims of this machine, the tasks they serve, and their states.

  runhcs ps                       shims of the default containerd, or of RUNHCS_SOCKET_DIR
  runhcs ps --state DIR --socket-dir DIR
                                  of another containerd
  runhcs ps -n k8s.io --json      of one namespace, for programs

STATE is the state of the pod's sandbox or of the only task; `none` before a task is created; `dead` when the shim's
process has exited and its bundle still exists (`runhcs gc`); `no answer` when the shim does not respond
(`runhcs stacks ID`). Pods with SCOPE `namespace` or `node` may share a process, and then have the same PID.
"""

from __future__ import annotations

import argparse
import time

from attrs import frozen

from runhcs import console, shims
from runhcs.reports import as_json
from runhcs.shims import Shim


@frozen
class TaskSummary:
    id: str
    state: str
    execs: int


@frozen
class ShimSummary:
    """One element of `ps --json`."""

    namespace: str
    id: str
    pid: int
    kind: str
    #: `pod`, or `namespace` or `node` if the process serves several pods, which have the same pid.
    scope: str
    implementation: str
    state: str
    vm: str | None
    tasks: list[TaskSummary]
    address: str
    bundle: str
    started: float | None
    problem: str | None


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)


def summarize(shim: Shim) -> ShimSummary:
    report = shim.report
    return ShimSummary(
        namespace=shim.namespace,
        id=shim.id,
        pid=shim.pid,
        kind="pod" if report is not None and report.is_sandbox else "container",
        scope=report.scope if report is not None else "pod",
        implementation=shim.kind,
        state=state(shim),
        vm=report.vm.id if report is not None and report.vm is not None else None,
        tasks=[TaskSummary(task.id, task.state, len(task.execs)) for task in shim.tasks],
        address=shim.address,
        bundle=shim.bundle,
        started=shim.created or None,
        problem=shim.problem or None,
    )


def state(shim: Shim) -> str:
    if shim.is_dead:
        return "dead"
    if shim.problem:
        return "no answer"
    for task in shim.tasks:
        if task.id == shim.id:
            return "deleted" if task.deleted else task.state
    return "creating" if shim.report is not None and shim.report.creating else "none"


def run(args: argparse.Namespace) -> int:
    with console.progress("querying shims"):
        found = shims.find(args)
    summaries = [summarize(shim) for shim in found]
    if args.json:
        print(as_json(summaries))
        return 0
    if not found:
        places = ", ".join(shims.socket_directories(args) + shims.state_directories(args))
        print(f"no shims of io.containerd.runhcs.v1 in {places}; --socket-dir and --state name other places")
        return 0
    columns = ("NAMESPACE", "ID", "PID", "KIND", "STATE", "VM", "SCOPE", "AGE", "OTHER TASKS")
    console.print_table(columns, [_row(one) for one in summaries])
    for shim in found:
        if shim.problem:
            console.show(f"\n{shim.id or shim.address}: {shim.problem}; {_next_step(shim)}")
    return 0


def _row(one: ShimSummary) -> tuple[object, ...]:
    others = ", ".join(f"{task.id} {task.state}" for task in one.tasks if task.id != one.id)
    age = console.age(time.time() - one.started) if one.started else "-"
    identity = (one.namespace or "-", one.id or "?", one.pid or "-", one.kind)
    return (*identity, one.state, one.vm or "-", one.scope, age, others or "-")


def _next_step(shim: Shim) -> str:
    if shim.is_dead:
        return "`runhcs gc` finds what it leaked"
    return f"`runhcs stacks {shim.id}` shows its threads" if shim.id else "`runhcs stacks` shows its threads"
