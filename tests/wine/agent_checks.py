"""What an agent shows of a container of `agent_driver.py`."""

from __future__ import annotations

import re
from typing import Any


def check_observed(result: Any) -> None:
    assert result["exited"]

    def sample(scrape: str, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        lines = [line for line in result[scrape].splitlines() if re.match(rf"{name}[{{ ]", line)]
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(one in line for one in wanted))

    assert sample("running", "runhcs_shims", state="ok") == 1
    assert sample("running", "runhcs_tasks", state="running", isolation="process") == 1
    assert sample("running", "runhcs_shim_resident_memory_bytes", id="observed") > 1 << 20
    assert sample("running", "runhcs_shim_cpu_seconds_total", id="observed") > 0
    assert "runhcs_shim_handles{" in result["running"], "Wine reports 0 handles"
    for method in ("Create", "Start", "Kill", "Wait", "Delete"):
        assert sample("ended", "runhcs_rpc_duration_seconds_count", method=method) == 1, method
    assert sample("ended", "runhcs_hcs_call_duration_seconds_count", call="HcsCreateComputeSystem") == 1
    assert sample("ended", "runhcs_telemetry_dropped_total") == 0
    assert [line.split()[3] for line in result["events"].splitlines()] == ["create", "start", "exit", "delete"]
    assert "Create" in result["trace"] and "HcsCreateComputeSystem" in result["trace"]
    assert "no agent" not in result["top"]
