"""Everything about one shim: its tasks and execs, what their ledgers say they hold, what HCS says of their compute
systems, its VM, its address, and where to find its logs.

  runhcs inspect ID             a container's id, a pod's, or the beginning of one
  runhcs inspect ID --json      for programs
  runhcs inspect ID -n k8s.io   of this namespace of containerd

It works for a dead shim too, as far as its bundle tells.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

from runhcs import ps, shims, table
from runhcs.shims import AskError, Shim
from shim.container import ledger


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a container or pod, or the beginning of its id")
    shims.configure(parser)


def describe(shim: Shim, found: list[shims.Bundle]) -> dict[str, Any]:
    tasks = {str(task["id"]): dict(task) for task in shim.told.get("tasks", [])}
    for bundle in found:
        if bundle.path == shim.bundle or (bundle.address and bundle.address == shim.address):
            tasks.setdefault(bundle.id, {"id": bundle.id, "state": "not known to the shim"})["bundle"] = bundle.path
    for task in tasks.values():
        if path := task.get("bundle"):
            entries, instance = ledger.read_entries(path)
            task["ledger"] = [{"kind": entry.kind, **entry.fields} for entry in entries]
            task["hcs"] = instance or "this machine's default"
            task["spec"] = os.path.join(path, "config.json")
    return {
        "namespace": shim.namespace,
        "id": shim.id,
        "pid": shim.pid or None,
        "state": ps.state(shim),
        "problem": shim.problem or None,
        "version": shim.told.get("version"),
        "implementation": shim.kind,
        "is_sandbox": shim.told.get("is_sandbox"),
        "started": _moment(shim.made),
        "address": shim.address,
        "bundle": shim.bundle,
        "debug": shim.told.get("debug"),
        "options": shim.told.get("options"),
        "hcs": shim.told.get("hcs") or None,
        "vm": shim.told.get("vm"),
        "being_made": shim.told.get("creating", []),
        "tasks": list(tasks.values()),
        "logs": _logs(shim),
    }


def _moment(seconds: float) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


def _logs(shim: Shim) -> dict[str, Any]:
    panic = os.path.join(shim.bundle, "panic.log") if shim.bundle else ""
    try:
        size = os.path.getsize(panic)
    except OSError:
        size = 0
    return {
        "containerd": f"its log has the shim's lines, with tid={shim.id}; `containerd --log-level debug` has more",
        "panic_log": panic or None,
        "panic_log_bytes": size,
    }


def run(args: argparse.Namespace) -> int:
    try:
        shim = shims.pick(shims.find(args, properties=True), args.id)
    except AskError as error:
        print(f"runhcs inspect: {error}", file=sys.stderr)
        return 1
    found = describe(shim, shims.bundles(args))
    print(json.dumps(found, indent=2) if args.json else table.outline(found))
    return 0
