"""Measure what telemetry costs Create and Start: shims that report to an agent, which exports traces, and shims that do
not, interleaved in one run.

    python scripts/telemetry_cost.py [PAIRS]

Each pair is one container of each kind, in random order, with trace context in its calls. For Create and Start it
prints the medians and the ratio with its 95 % bootstrap interval: of the time that a client waits, and of the CPU time
of all threads of the shim meanwhile, which depends less on what else the machine does. docs/how-to/observability.md has
results.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report.statistics import ratio
from runhcs.demo.containerd_stub import layer_mount, windows_spec
from runhcs.demo.workspace import Workspace, check_prerequisites
from runhcs.shim_driver import EventEndpoint, ShimCommands
from runhcs.task_client import TASK_V2, TaskClient
from shim.api import task as api
from shim.api.wire import Message

NAMESPACE = "cost"
KINDS = ("off", "on")
CALLS = ("Create", "Start")
BOTH = "both"
MEASURED = ("time", "CPU")
WARM_UP = 5
SIGKILL = 9
TRACE = (("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),)
# After the answer to Connect the daemon imports what Create needs. It is ready when it uses no CPU for this long.
IDLE_SECONDS = 0.05
LONGEST_SETTLE = 5.0


class Collector(BaseHTTPRequestHandler):
    """Accepts everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Measurement:
    def __init__(self) -> None:
        check_prerequisites()
        self.workspace = Workspace("telemetry-")
        self.workspace.start_emulator(has_journal=False)
        self.events = EventEndpoint(str(self.workspace.directory / "events.sock"))
        self.collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=self.collector.serve_forever, daemon=True).start()
        self.agent = self._start_agent()
        self.samples: dict[tuple[str, str, str], list[float]] = {}
        self._count = 0

    def _start_agent(self) -> subprocess.Popen[str]:
        endpoint = f"http://127.0.0.1:{self.collector.server_port}"
        agent = subprocess.Popen(
            [sys.executable, "-m", "runhcs", "agent", "--listen", "127.0.0.1:0",
             "--socket-dir", str(self.workspace.sockets), "--state", str(self.workspace.directory)],
            env=self.workspace.env | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert agent.stdout is not None
        if not agent.stdout.readline():
            sys.exit("the agent does not start")
        return agent

    def run(self, kind: str, is_counted: bool = True) -> None:
        self._count += 1
        name = f"c{self._count}"
        bundle = self.workspace.directory / "bundles" / name
        (bundle / "rootfs").mkdir(parents=True)
        spec = windows_spec("cmd", "/c", "ping -t localhost > nul", hostname="C")
        (bundle / "config.json").write_text(json.dumps(spec))
        environment = self.workspace.env | {"TTRPC_ADDRESS": self.events.address, "RUNHCS_STANDBY": "0"}
        environment |= {"RUNHCS_AGENT": "0"} if kind == "off" else {}
        shim = ShimCommands(
            str(self.workspace.launcher), name, str(bundle), namespace=NAMESPACE, address="/run/none.sock",
            environment=environment, publish_binary="/bin/false",
        )  # fmt: skip
        task = shim.start()
        try:
            pid = task.connect().shim_pid
            _settle(pid)
            create = api.CreateTaskRequest(id=name, bundle=str(bundle), rootfs=[layer_mount(self.workspace, name)])
            requests = (create, api.StartRequest(id=name))
            found = [_measured(task, method, request, pid) for method, request in zip(CALLS, requests, strict=True)]
            if is_counted:
                for method, values in zip((*CALLS, BOTH), (*found, [sum(pair) for pair in zip(*found, strict=True)]),
                                          strict=True):  # fmt: skip
                    for what, value in zip(MEASURED, values, strict=True):
                        self.samples.setdefault((method, kind, what), []).append(value)
            task.kill(SIGKILL)
            task.wait()
            task.delete()
            task.shutdown()
            shim.wait_exited()
        finally:
            task.client.close()
            shim.kill()

    def report(self) -> None:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"{len(self.samples[('Create', 'on', 'time')])} pairs, load average {load}, {os.cpu_count()} processors")
        for method in (*CALLS, BOTH):
            for what in MEASURED:
                off, on = (self.samples[(method, kind, what)] for kind in KINDS)
                found = ratio(on, off)
                assert found is not None
                print(
                    f"{method:7} {what:5} off {median(off):7.3f} ms  on {median(on):7.3f} ms  "
                    f"ratio {found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
                )

    def close(self) -> None:
        self.agent.terminate()
        self.agent.wait(30)
        self.collector.shutdown()
        self.events.close()
        self.workspace.stop_emulator()
        self.workspace.remove()


def _measured(task: TaskClient, method: str, request: Message, pid: int) -> list[float]:
    """Milliseconds, and CPU milliseconds of the shim."""
    payload = request.encode()
    before = _cpu(pid)
    began = time.perf_counter()
    task.client.call(TASK_V2, method, payload, timeout=60, metadata=TRACE)
    elapsed = (time.perf_counter() - began) * 1e3
    return [elapsed, (_cpu(pid) - before) / 1e6]


def _settle(pid: int) -> None:
    deadline = time.monotonic() + LONGEST_SETTLE
    before, used = -1, _cpu(pid)
    while used != before and time.monotonic() < deadline:
        time.sleep(IDLE_SECONDS)
        before, used = used, _cpu(pid)


def _cpu(pid: int) -> int:
    """Nanoseconds of all threads, those included that have exited: the CPU clock of the process
    (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    measurement = Measurement()
    try:
        for number in range(WARM_UP + pairs):
            for kind in random.sample(KINDS, 2):
                measurement.run(kind, number >= WARM_UP)
        measurement.report()
    finally:
        measurement.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
