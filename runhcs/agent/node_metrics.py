"""Metrics of the node's state, from a query of every shim at the time of the scrape.

A scrape waits for the queries, at most SCRAPE_SECONDS: with shims that do not answer it gets the previous state, whose
age is a metric. Without scrapes no shim is queried.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator

import psutil
from attrs import define, field
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from runhcs import gc, shims
from runhcs.ps import state
from runhcs.shims import Shim
from shim.version import VERSION

SCRAPE_SECONDS = 8.0
# A second scrape within this time gets the same state.
FRESH_SECONDS = 2.0
LEAKS_SECONDS = 60.0
#: Labels of a metric of one shim, and the resources of one.
SHIM = ("namespace", "id")
LEAK_KINDS = ("ledger", "system", "socket")


@define
class NodeState:
    time: float = 0.0
    seconds: float = 0.0
    shims: list[Shim] = field(factory=list)


class NodeMetrics(Collector):
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._state = NodeState()
        self._leaks: Counter[str] = Counter()
        self._leaks_time = float("-inf")
        self._querying = threading.Event()
        self._done = threading.Condition()

    def describe(self) -> Iterable[Metric]:
        """None: otherwise the registry would query all shims to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self._current()
        yield from _node(state)
        yield from _shims(state.shims)
        yield from _vms(state)
        leaked = GaugeMetricFamily("runhcs_leaked_resources", "What `runhcs gc` would release.", labels=("kind",))
        for kind in LEAK_KINDS:
            leaked.add_metric((kind,), self._leaks[kind])
        yield leaked

    def _current(self) -> NodeState:
        with self._done:
            if time.monotonic() - self._state.time < FRESH_SECONDS:
                return self._state
            if not self._querying.is_set():
                self._querying.set()
                threading.Thread(target=self._query, daemon=True).start()
            self._done.wait_for(lambda: not self._querying.is_set(), SCRAPE_SECONDS)
            return self._state

    def _query(self) -> None:
        try:
            begun = time.monotonic()
            found = shims.find(self._args, stats=True)
            if time.monotonic() - self._leaks_time > LEAKS_SECONDS:
                self._leaks = Counter(leak.kind for leak in gc.find(self._args)[0])
                self._leaks_time = time.monotonic()
            now = time.monotonic()
            self._state = NodeState(now, now - begun, found)
        finally:
            with self._done:
                self._querying.clear()
                self._done.notify_all()


def _node(state_of_node: NodeState) -> Iterator[Metric]:
    build = GaugeMetricFamily("runhcs_agent_build_info", "The version of the agent.", labels=("version",))
    build.add_metric((VERSION,), 1)
    yield build
    age = time.monotonic() - state_of_node.time if state_of_node.time else float("nan")
    yield GaugeMetricFamily("runhcs_agent_state_age_seconds", "Age of the state of shims.", value=age)
    yield GaugeMetricFamily("runhcs_agent_query_seconds", "Duration of the query.", value=state_of_node.seconds)
    states = Counter({"ok": 0, "no answer": 0, "dead": 0})
    tasks: Counter[tuple[str, str]] = Counter()
    for shim in state_of_node.shims:
        condition = state(shim)
        states[condition if condition in states else "ok"] += 1
        if shim.report is None:
            continue
        for task in shim.report.raw.get("tasks", ()):
            tasks[task.get("state") or "unknown", task.get("isolation") or "unknown"] += 1
        for _ in shim.report.creating:
            tasks["creating", "unknown"] += 1
    metric = GaugeMetricFamily("runhcs_shims", "Shims of this node.", labels=("state",))
    for name, count in states.items():
        metric.add_metric((name,), count)
    yield metric
    metric = GaugeMetricFamily("runhcs_tasks", "Tasks by state and isolation.", labels=("state", "isolation"))
    for labels, count in sorted(tasks.items()):
        metric.add_metric(labels, count)
    yield metric


def _shims(found: list[Shim]) -> Iterator[Metric]:
    memory = GaugeMetricFamily("runhcs_shim_resident_memory_bytes", "Resident memory of a shim.", labels=SHIM)
    handles = GaugeMetricFamily("runhcs_shim_handles", "Handles, or file descriptors, of a shim.", labels=SHIM)
    cpu = CounterMetricFamily("runhcs_shim_cpu_seconds", "CPU time of a shim.", labels=SHIM)
    queued = GaugeMetricFamily("runhcs_shim_event_queue_length", "Events that wait for containerd.", labels=SHIM)
    dropped = CounterMetricFamily("runhcs_shim_events_dropped", "Events that containerd did not get.", labels=SHIM)
    for shim in found:
        if shim.is_dead:
            continue
        labels = (shim.namespace, shim.id)
        events = shim.report.raw.get("events") if shim.report is not None else None
        if events:
            queued.add_metric(labels, events["queued"])
            dropped.add_metric(labels, events["dropped"])
        try:
            process = psutil.Process(shim.pid)
            with process.oneshot():
                times = process.cpu_times()
                count = getattr(process, "num_handles" if shims.WINDOWS else "num_fds")()
                memory.add_metric(labels, process.memory_info().rss)
                cpu.add_metric(labels, times.user + times.system)
                handles.add_metric(labels, count)
        except psutil.Error:
            continue  # it has exited since
    yield from (memory, handles, cpu, queued, dropped)


def _vms(state_of_node: NodeState) -> Iterator[Metric]:
    processors = GaugeMetricFamily("runhcs_vm_processors", "Processors of a utility VM.", labels=SHIM)
    size = GaugeMetricFamily("runhcs_vm_memory_size_bytes", "Configured memory of a utility VM.", labels=SHIM)
    used = GaugeMetricFamily("runhcs_vm_memory_working_set_bytes", "Host memory that a VM uses.", labels=SHIM)
    cpu = CounterMetricFamily("runhcs_vm_cpu_seconds", "CPU time of a utility VM.", labels=SHIM)
    count = 0
    for shim in state_of_node.shims:
        vm = shim.report.raw.get("vm") if shim.report is not None else None
        if not vm or vm.get("is_gone"):
            continue
        count += 1
        labels = (shim.namespace, shim.id)
        settings = vm.get("settings") or {}
        if settings.get("processors"):
            processors.add_metric(labels, settings["processors"])
        if settings.get("memory_mb"):
            size.add_metric(labels, settings["memory_mb"] << 20)
        stats = vm.get("stats") or {}
        if "cpu_ns" in stats:
            used.add_metric(labels, stats["memory_bytes"])
            cpu.add_metric(labels, stats["cpu_ns"] / 1e9)
    yield GaugeMetricFamily("runhcs_vms", "Utility VMs of this node.", value=count)
    yield from (processors, size, used, cpu)
