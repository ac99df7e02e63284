"""The tools of campaigns: the log with which they continue, and the search for the smallest case that differs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential.host_process_scenarios import host_process_scenarios
from tests.differential.linux_scenarios import failing_linux_scenarios, linux_pods, linux_scenarios
from tests.differential.scenarios import crashing_scenarios, failing_scenarios, pods, scenarios
from tests.differential.shrink import ddmin, shrink
from tests.fuzz.log import CampaignLog
from tests.parity.replay import Scenario
from tests.parity.requests import PAIR, fault, options

STEPS = {name.removeprefix("do_") for name in vars(Scenario) if name.startswith("do_")}


def test_campaign_with_a_log_continues(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = CampaignLog(path, "differential")
    assert (log.steps, log.next_seed(7)) == (0, 7)
    log.add(7, 24, 80.04)
    log.add(8, 24, 90.0)
    CampaignLog(path, "ledger-model").add(3, 5, 1.0)
    again = CampaignLog(path, "differential")
    assert (again.steps, again.seconds, again.next_seed(7)) == (48, 170.0, 9)


@pytest.mark.parametrize("needed", [{3}, {0, 9}, {2, 3, 4}, set(range(10)), set()])
def test_ddmin_finds_exactly_what_is_needed(needed: set[int]) -> None:
    tried: list[Sequence[int]] = []

    def holds(kept: Sequence[int]) -> bool:
        tried.append(kept)
        return needed <= set(kept)

    assert set(ddmin(range(10), holds)) == needed
    assert len(tried) < 80


def scenario() -> dict[str, Any]:
    steps = ["start", "connect", "create", "state", "run", "pids", "update", "kill:,9", "wait", "delete", "shutdown"]
    spec = {
        "process": {"args": ["x"], "cwd": "C:\\"}, "annotations": {"a": "1", "b": "2"}, "mounts": [{}],
        "windows": {"resources": {"cpu": {}, "memory": {}}},
    }  # fmt: skip
    return {"spec": spec, "steps": steps, "options": {"sandboxIsolation": "x", "vmMemorySizeInMb": 5}}


def test_shrink_keeps_the_calls_and_members_that_the_difference_needs() -> None:
    def differs(one: dict[str, Any]) -> bool:
        return "update" in one["steps"] and "b" in one["spec"]["annotations"]

    found = shrink(scenario(), differs, attempts=200)
    assert found["steps"] == ["start", "connect", "create", "update", "delete", "shutdown"]
    assert found["spec"]["annotations"] == {"b": "2"} and "mounts" not in found["spec"]
    assert found["spec"]["windows"] == {} and found["options"] == {"sandboxIsolation": "x"}


def test_shrink_is_bounded() -> None:
    tried = []

    def differs(one: dict[str, Any]) -> bool:
        tried.append(one)
        return False

    assert shrink(scenario(), differs, attempts=5) == scenario()
    assert len(tried) == 5


def calls_of(step: str) -> list[str]:
    """A step, and for a pair or the same call twice, the calls in it."""
    name, _, argument = step.partition(":")
    inner = argument.split(PAIR) if name == "pair" else [argument] if name == "both" else []
    return [name, *(one.partition(":")[0] for one in inner)]


def test_generated_cases_use_known_steps_faults_and_options() -> None:
    groups = st.one_of(pods(), linux_pods())
    single = st.one_of(
        scenarios(), failing_scenarios(), crashing_scenarios(), linux_scenarios(), failing_linux_scenarios(),
        host_process_scenarios(),
    )  # fmt: skip

    @settings(max_examples=60, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(groups, single.map(lambda one: [one])))
    def check(cases: list[dict[str, Any]]) -> None:
        for one in cases:
            json.dumps(one)
            assert {name for step in one["steps"] for name in calls_of(step)} <= STEPS
            options(one["options"])
            if "fail" in one:
                fault(one["fail"])

    check()
