"""What `runhcs top` shows at one moment: rows of pods, containers and VMs, and what the agent knows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any

from attrs import evolve, field, frozen

from runhcs import agent_client, shims
from runhcs.ps import state
from runhcs.shims import Shim


@frozen
class Row:
    #: pod, container or vm.
    kind: str
    namespace: str
    id: str
    state: str
    isolation: str = ""
    #: CPU time in nanoseconds, and memory in bytes; None: unknown.
    cpu_ns: int | None = None
    memory: int | None = None
    #: Calls in progress, and problems.
    note: str = ""
    #: Percent of one processor, since the sample before; None: unknown.
    cpu_percent: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.id


@frozen
class Sample:
    time: float
    rows: list[Row] = field(factory=list)
    #: Of the agent: recent errors and the slowest operations.
    errors: list[dict[str, Any]] = field(factory=list)
    slowest: list[dict[str, Any]] = field(factory=list)
    #: Why the agent's part is missing.
    agent_problem: str = ""


def take(args: argparse.Namespace, before: Sample | None = None) -> Sample:
    found = shims.find(args, stats=True)
    now = time.monotonic()
    rows = [row for shim in found for row in _rows(shim)]
    errors, slowest, problem = [], [], ""
    try:
        summary = agent_client.query(args, "summary")
        errors, slowest = summary["errors"], summary["slowest"]
    except agent_client.AgentError as error:
        problem = str(error)
    return Sample(now, _with_cpu(rows, now, before), errors, slowest, problem)


def _with_cpu(rows: list[Row], now: float, before: Sample | None) -> list[Row]:
    if before is None or now <= before.time:
        return rows
    known = {row.key: row.cpu_ns for row in before.rows}
    done = []
    for row in rows:
        last = known.get(row.key)
        if row.cpu_ns is not None and last is not None and row.cpu_ns >= last:
            row = evolve(row, cpu_percent=(row.cpu_ns - last) / 1e7 / (now - before.time))
        done.append(row)
    return done


def _rows(shim: Shim) -> Iterable[Row]:
    report = shim.report.raw if shim.report is not None else {}
    flights = report.get("in_flight") or []
    kind = "pod" if report.get("is_sandbox") else "container"
    tasks = report.get("tasks") or []
    own: dict[str, Any] = next((task for task in tasks if task["id"] == shim.id), {})
    note = shim.problem or _note(flights, shim.id)
    yield _row(kind, shim.namespace, own | {"id": shim.id, "state": state(shim)}, note)
    vm = report.get("vm")
    if vm:
        condition = "stopped" if vm.get("is_gone") else "running"
        settings = vm.get("settings") or {}
        size = f"{settings.get('processors') or '?'} processors, {settings.get('memory_mb') or '?'} MB"
        yield _row("vm", shim.namespace, vm | {"state": condition}, size)
    for task in tasks:
        if task["id"] != shim.id:
            yield _row("container", shim.namespace, task, _note(flights, task["id"]))


def _row(kind: str, namespace: str, raw: dict[str, Any], note: str) -> Row:
    stats = raw.get("stats") or {}
    return Row(
        kind,
        namespace or "-",
        str(raw.get("id") or "?"),
        str(raw.get("state") or "-"),
        str(raw.get("isolation") or ""),
        stats.get("cpu_ns"),
        stats.get("memory_bytes"),
        note,
    )


def _note(flights: list[dict[str, Any]], task: str) -> str:
    mine = [one for one in flights if one["task"] == task]
    return ", ".join(f"{one['name']} since {one['seconds']:.1f} s" for one in mine)
