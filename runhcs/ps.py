"""List the shims of this machine, what they run and how they are.

  runhcs ps                       shims of the default containerd, or of RUNHCS_SOCKET_DIR
  runhcs ps --state DIR --socket-dir DIR
                                  of another containerd
  runhcs ps -n k8s.io --json      of one namespace, for programs

STATE is the state of the pod's sandbox or of the only task; `none` before a task is created; `dead` when the shim's
process has gone and its bundle has not (`runhcs gc`); `no answer` when it does not answer (`runhcs stacks ID`).
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from runhcs import shims, table
from runhcs.shims import Shim


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)


def describe(shim: Shim) -> dict[str, Any]:
    tasks = shim.told.get("tasks", [])
    vm = shim.told.get("vm")
    return {
        "namespace": shim.namespace,
        "id": shim.id,
        "pid": shim.pid,
        "kind": "pod" if shim.told.get("is_sandbox") else "container",
        "implementation": shim.kind,
        "state": state(shim),
        "vm": vm["id"] if vm else None,
        "tasks": [{"id": task["id"], "state": task.get("state", ""), "execs": len(task["execs"])} for task in tasks],
        "address": shim.address,
        "bundle": shim.bundle,
        "started": shim.made or None,
        "problem": shim.problem or None,
    }


def state(shim: Shim) -> str:
    if shim.is_dead:
        return "dead"
    if shim.problem:
        return "no answer"
    for task in shim.told.get("tasks", []):
        if task["id"] == shim.id:
            return "deleted" if task.get("deleted") else str(task.get("state", ""))
    return "being made" if shim.told.get("creating") else "none"


def run(args: argparse.Namespace) -> int:
    found = shims.find(args)
    if args.json:
        print(json.dumps([describe(shim) for shim in found], indent=2))
        return 0
    if not found:
        places = ", ".join(shims.socket_directories(args) + shims.state_directories(args))
        print(f"no shims of io.containerd.runhcs.v1 in {places}; --socket-dir and --state look elsewhere")
        return 0
    rows = []
    for shim in found:
        one = describe(shim)
        others = [task for task in one["tasks"] if task["id"] != shim.id]
        tasks = ", ".join(f"{task['id']} {task['state']}" for task in others) or "-"
        old = table.age(time.time() - shim.made) if shim.made else "-"
        vm = one["vm"] or "-"
        rows.append((one["namespace"] or "-", one["id"] or "?", one["pid"] or "-", one["kind"], one["state"], vm, old,
                     tasks))  # fmt: skip
    print(table.table(("NAMESPACE", "ID", "PID", "KIND", "STATE", "VM", "AGE", "OTHER TASKS"), rows))
    for shim in found:
        if shim.problem:
            print(f"\n{shim.id or shim.address}: {shim.problem}; {_next(shim)}")
    return 0


def _next(shim: Shim) -> str:
    if shim.is_dead:
        return "`runhcs gc` shows what it left behind"
    return f"`runhcs stacks {shim.id}` shows what it is doing" if shim.id else "`runhcs stacks` shows what it is doing"
