"""Measure a node with many pods: `python scripts/kubernetes_scale.py [--pods 110] [--runtimes runhcs-lcow,runc]`.

For each runtime, in one cluster: a Deployment of so many pods, until all are ready; the memory of their shims and VMs;
the CPU time of the kubelet's statistics; then the removal, until nothing is left. Prints a table (Markdown).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from deploy.cluster import leaks
from deploy.cluster.cluster import Cluster
from deploy.cluster.control_plane import kubectl
from deploy.cluster.images import BUSYBOX
from deploy.cluster.processes import with_text_in_environment
from deploy.cluster.settings import MAX_PODS, NODE, Settings

TIMEOUT = 1800.0
IDLE_SECONDS = 20.0
SUMMARIES = 10
SHIMS = (b"containerd-shim-runhcs-v1", b"containerd-shim-runc-v2")
VM = b"hcs_emulator.vm"
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=MAX_PODS)
    parser.add_argument("--runtimes", default="runhcs-lcow,runc")
    args = parser.parse_args()
    cluster = Cluster(Settings(directory=Path(tempfile.mkdtemp(prefix="k8s-", dir="/tmp"))))
    results: dict[str, dict[str, str]] = {}
    try:
        cluster.up()
        for runtime in args.runtimes.split(","):
            results[runtime] = measure(cluster, runtime, args.pods)
            print(f"{runtime}: {results[runtime]}", file=sys.stderr)
    finally:
        left = cluster.down()
    print_table(results)
    if left:
        sys.exit(f"pods have left: {left}")


def measure(cluster: Cluster, runtime: str, count: int) -> dict[str, str]:
    settings = cluster.settings
    runtime_class = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": f"scale-{runtime}"}}
    objects = [{**runtime_class, "handler": runtime}, deployment(f"scale-{runtime}", count)]
    begin = time.monotonic()
    kubectl(settings, "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    wait_until(lambda: ready(settings) == count, f"{count} pods are ready")
    ready_time = time.monotonic() - begin

    shims = with_command(settings, SHIMS)
    vms = with_command(settings, (VM,))
    result = {
        "time until all are ready": f"{ready_time:.0f} s",
        "shims": str(len(shims)),
        "memory of all shims (PSS)": megabytes(shims, count),
        "memory of all VMs (PSS), without containers": megabytes(vms, count) if vms else "-",
    }
    # The kubelet collects statistics by itself, too, every ten seconds.
    groups = {
        "kubelet": [cluster.kubelet.pid],
        "containerd": [cluster.containerd.pid],
        "shims": shims,
        "VMs and emulator": [*vms, cluster.emulator.pid],
    }
    before = {name: cpu(pids) for name, pids in groups.items()}
    time.sleep(IDLE_SECONDS)
    for name, pids in groups.items():
        result[f"CPU at rest: {name}"] = f"{(cpu(pids) - before[name]) / IDLE_SECONDS * 100:.1f} %"
    before = {name: cpu(pids) for name, pids in groups.items()}
    begin = time.monotonic()
    for _ in range(SUMMARIES):
        kubectl(settings, "get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary")
    result["one /stats/summary: duration"] = f"{(time.monotonic() - begin) / SUMMARIES * 1000:.0f} ms"
    for name, pids in groups.items():
        result[f"one /stats/summary: CPU of {name}"] = f"{(cpu(pids) - before[name]) / SUMMARIES * 1000:.0f} ms"

    begin = time.monotonic()
    kubectl(
        settings, "delete", "deployment", "scale", "--cascade=foreground", f"--timeout={TIMEOUT:g}s", timeout=TIMEOUT
    )
    wait_until(lambda: not leaks.pod_resources(settings), "nothing of the pods is left")
    result["time until all are gone"] = f"{time.monotonic() - begin:.0f} s"
    return result


def deployment(runtime_class: str, count: int) -> dict[str, Any]:
    main = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"],
    }
    template = {
        "metadata": {"labels": {"app": "scale"}},
        "spec": {"runtimeClassName": runtime_class, "containers": [main], "terminationGracePeriodSeconds": 5},
    }
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "scale"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scale"}, "spec": spec}


def ready(settings: Settings) -> int:
    shown = kubectl(settings, "get", "deployment", "scale", "-o", "jsonpath={.status.readyReplicas}").stdout
    return int(shown or 0)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within {TIMEOUT:g} s: {what}")
        time.sleep(0.5)


def with_command(settings: Settings, words: tuple[bytes, ...]) -> list[int]:
    found = []
    for pid in with_text_in_environment(f"={settings.emulator}"):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if any(word in command for word in words):
            found.append(pid)
    return found


def megabytes(pids: list[int], pods: int) -> str:
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return f"{total / 1024:.0f} MiB ({total / pods / 1024:.1f} for each pod)"


def cpu(pids: list[int]) -> float:
    """Seconds of CPU that processes, with their children that have exited, have used."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def print_table(results: dict[str, dict[str, str]]) -> None:
    rows = list(dict.fromkeys(row for result in results.values() for row in result))
    print(f"| | {' | '.join(results)} |\n|{' --- |' * (len(results) + 1)}")
    for row in rows:
        print(f"| {row} | {' | '.join(result.get(row, '-') for result in results.values())} |")


if __name__ == "__main__":
    main()
