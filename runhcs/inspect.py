"""Show everything about one shim: its tasks and execs, the resources in their ledgers, the HCS properties of their
compute systems, its VM, its address, and where its logs are.

  runhcs inspect ID             the id of a container or pod, or the beginning of it
  runhcs inspect ID --json      for programs
  runhcs inspect ID -n k8s.io   of this containerd namespace

It works for a dead shim too, with what its bundle contains.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from runhcs import console, ps, shims
from runhcs.reports import as_json
from runhcs.shims import QueryError, Shim
from shim.container import ledger


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a container or pod, or the beginning of it")
    shims.configure(parser)


def describe(shim: Shim, found: list[shims.Bundle]) -> dict[str, Any]:
    report = {} if shim.report is None else shim.report.raw
    tasks: dict[str, dict[str, Any]] = {str(task["id"]): dict(task) for task in report.get("tasks", [])}
    for bundle in found:
        if bundle.path == shim.bundle or (bundle.address and bundle.address == shim.address):
            tasks.setdefault(bundle.id, {"id": bundle.id, "state": "unknown to the shim"})["bundle"] = bundle.path
    for task in tasks.values():
        if path := task.get("bundle"):
            entries, instance = ledger.read_entries(path)
            task["ledger"] = [{"kind": entry.kind, **entry.fields} for entry in entries]
            task["hcs"] = instance or "the default of this machine"
            task["spec"] = os.path.join(path, "config.json")
    return {
        "namespace": shim.namespace,
        "id": shim.id,
        "pid": shim.pid or None,
        "state": ps.state(shim),
        "problem": shim.problem or None,
        "version": report.get("version"),
        "implementation": shim.kind,
        "is_sandbox": report.get("is_sandbox"),
        "scope": report.get("scope"),
        "started": _utc(shim.created),
        "address": shim.address,
        "bundle": shim.bundle,
        "debug": report.get("debug"),
        "allocated_blocks": report.get("allocated_blocks"),
        "options": report.get("options"),
        "hcs": report.get("hcs") or None,
        "vm": report.get("vm"),
        "creating": [] if shim.report is None else shim.report.creating,
        "tasks": list(tasks.values()),
        "logs": _logs(shim),
    }


def _utc(seconds: float) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


def _logs(shim: Shim) -> dict[str, Any]:
    panic = os.path.join(shim.bundle, "panic.log") if shim.bundle else ""
    try:
        size = os.path.getsize(panic)
    except OSError:
        size = 0
    return {
        "containerd": f"the log of containerd has the shim's lines, with tid={shim.id}; `--log-level debug` adds more",
        "panic_log": panic or None,
        "panic_log_bytes": size,
    }


def run(args: argparse.Namespace) -> int:
    try:
        with console.progress("querying shims"):
            shim = shims.pick(shims.find(args, properties=True), args.id)
    except QueryError as error:
        console.show(f"runhcs inspect: {error}", to_stderr=True)
        return 1
    found = describe(shim, shims.bundles(args))
    if args.json:
        print(as_json(found))
    else:
        console.print_tree(f"{shim.namespace or '-'}/{shim.id}", found)
    return 0
