"""`runhcs.exe soak` from the unpacked zip: a short run."""

from __future__ import annotations

import json
import os

from tests.wine.conftest import Machine

TIMEOUT = 350


def test_soak_from_the_zip(machine: Machine) -> None:
    done = machine.run(
        r"C:\node\runhcs.exe", "soak", "--layers", machine.base_layer(), "--lifecycles", "6", "--probes", "30",
        "--workers", "1", "--restart-seconds", "4", "--sample-seconds", "0.5", "--stats-seconds", "1",
        "--json", r"C:\soak.json", "--html", r"C:\soak.html", timeout=TIMEOUT,
    )  # fmt: skip
    output = done.stdout.decode(errors="replace")
    assert (machine.drive / "soak.json").exists(), output
    results = json.loads((machine.drive / "soak.json").read_text())
    assert results["problems"] == [] and not results["emulated"], output
    counts = results["counts"]
    assert counts["lifecycles"] >= 6 and counts["probes"] >= 30 and counts["stats"], counts
    trends = {(trend["process"], trend["metric"]): trend for trend in results["trends"]}
    for process in ("shim of container", "shim of pod", "shim of vm"):
        assert all(trends[process, metric]["median"] > 0 for metric in ("memory", "handles", "threads")), trends
    # So short a run may see memory grow; nothing else does.
    growing = {trend["metric"] for trend in trends.values() if trend["is_significant"]}
    assert growing <= {"memory"} and done.returncode == (1 if growing else 0), output
    assert "<svg" in (machine.drive / "soak.html").read_text()
    assert not [name for name in os.listdir(machine.drive / "users" / "root" / "Temp") if "soak" in name]
