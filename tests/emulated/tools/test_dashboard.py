"""The dashboard and the alerts of deploy/observability, on metrics that an agent really serves: promtool evaluates
each query on a scrape, and each label that a query names exists."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shim.ttrpc.status import StatusError
from tests.support.agent import Agent
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.promtool import DEPLOY, promtool_program
from tests.support.runhcs_tools import ToolShims
from tests.support.vm_image import SLEEP, VmShims

# Labels that Prometheus adds, and that of histograms, which only its buckets have.
ADDED = {"instance": "node:9464", "job": "runhcs-agent"}
# Two scrapes are enough for a rate.
INTERVAL_SECONDS = 15


def queries() -> dict[str, str]:
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    return {name: text.replace("$__rate_interval", "1m").replace("$instance", ".*") for name, text in found.items()}


def legends() -> list[tuple[str, str, str]]:
    """The title of a panel, its query, and each label that its legend shows."""
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    return [
        (panel["title"], target["expr"], label)
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
        for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"])
    ]


def alerts() -> dict[str, str]:
    groups = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


@pytest.fixture
def scrape(tools: ToolShims, emulator: Emulator) -> Iterator[dict[str, list[Any]]]:
    """Of a node with a VM, containers that ran, failed and were not cleaned up, and a shim that was killed."""
    agent = Agent(tools)
    try:
        vms = VmShims(emulator, tools)
        pod = vms.pod()
        vms.run_in(pod, "c1", *SLEEP)
        pod.stats()
        emulator.fault("HcsStartComputeSystem", error=0x80370109, nth=1)
        failing = tools.start("c2", tools.spec(*SLEEP))
        failing.create(rootfs=tools.rootfs())
        with pytest.raises(StatusError):
            failing.start()
        exiting = tools.start("c3", tools.spec("cmd", "/c", "exit 3"))
        exiting.run(rootfs=tools.rootfs())
        exiting.wait()
        killed = tools.start("c4", tools.spec(*SLEEP))
        killed.run(rootfs=tools.rootfs())
        killed.kill_daemon()
        agent.expect(1, "runhcs_task_exits_total", result="failure")
        agent.expect(1, "runhcs_rpc_errors_total")
        agent.expect(1, "runhcs_shims", state="dead")
        eventually(lambda: "runhcs_leaked_resources" in agent.metrics(), "what the killed shim has left")
        yield agent.metrics()
    finally:
        agent.close()


def labels_of(query: str) -> dict[str, set[str]]:
    """The labels that a query expects of each metric: those of its selectors, and those that it sums by."""
    by = {name.strip() for found in re.findall(r"\bby \(([^)]*)\)", query) for name in found.split(",")}
    return {
        name: by | set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", selector or ""))
        for name, selector in re.findall(r"\b(runhcs_\w+)(?:\{([^}]*)\})?", query)
    }


def test_every_query_has_a_result_and_every_label_exists(scrape: dict[str, list[Any]], tmp_path: Path) -> None:
    for name, query in (queries() | alerts()).items():
        for metric, labels in labels_of(query).items():
            assert metric in scrape, f"{name}: {metric} is not served"
            known = {label for sample in scrape[metric] for label in sample.labels} | set(ADDED)
            assert labels <= known, f"{name}: {metric} has no label {labels - known}"
    for title, query, label in legends():
        if by := re.findall(r"\bby \(([^)]*)\)", query):
            shown = {name.strip() for name in by[0].split(",")}
        else:
            shown = {one for metric in labels_of(query) for sample in scrape[metric] for one in sample.labels}
        assert label in shown | set(ADDED), f"{title}: its legend shows {label}, and its result has {shown}"
    series = [
        {"series": f"{name}{json_labels({**sample.labels, **ADDED})}", "values": values(name, sample.value)}
        for name, samples in scrape.items()
        for sample in samples
        if name.startswith("runhcs_")
    ]
    tests = [
        {"expr": f"count({query}) > bool 0", "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for query in queries().values()
    ]
    group = {"interval": f"{INTERVAL_SECONDS}s", "input_series": series, "promql_expr_test": tests}
    path = tmp_path / "scrape.test.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": f"{INTERVAL_SECONDS}s", "tests": [group]}))
    command = [promtool_program(), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def json_labels(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"


def values(name: str, value: float) -> str:
    """As if the counters had counted between two scrapes."""
    is_counter = name.endswith(("_total", "_bucket", "_sum", "_count"))
    return f"{0 if is_counter else value:g}x18 {value:g}x4"
