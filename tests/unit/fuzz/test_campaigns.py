"""The tools of campaigns: the log with which they continue, and the search for the smallest case that differs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.differential.generate import KINDS, Case, cases
from tests.differential.shrink import ddmin, shrink
from tests.fuzz.__main__ import wait_while_paused
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
    assert found["steps"] == ["start", "connect", "create", "update", "kill:,9", "wait", "delete", "shutdown"]
    assert found["spec"]["annotations"] == {"b": "2"} and "mounts" not in found["spec"]
    assert found["spec"]["windows"] == {} and found["options"] == {"sandboxIsolation": "x"}


def test_shrink_removes_a_call_only_with_the_wait_for_its_effect() -> None:
    steps = ["start", "connect", "create", "run", "run:e1", "wait:e1", "kill:e2,9", "wait:e2", "delete"]
    seen: list[list[str]] = []

    def differs(one: dict[str, Any]) -> bool:
        seen.append(one["steps"])
        return "run" in one["steps"]

    shrink({**scenario(), "steps": steps}, differs)
    assert len(seen) > 3
    assert all(("wait:e1" in one) == ("run:e1" in one) and ("wait:e2" in one) == ("kill:e2,9" in one) for one in seen)


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


@pytest.mark.parametrize("kind", KINDS)
def test_generated_cases_use_known_steps_faults_and_options(kind: str) -> None:
    @settings(max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(KINDS[kind][1])
    def check(case: Case) -> None:
        for one in case:
            json.dumps(one)
            assert copy.deepcopy(one) == one, "shrink copies cases"
            assert {name for step in one["steps"] for name in calls_of(step)} <= STEPS
            options(one["options"])
            used = {step for step in one["steps"] if step.startswith("update:")}
            assert used <= {f"update:{number}" for number in range(len(one.get("updates", ())))}
            if "fail" in one:
                fault(one["fail"])

    check()


def test_generated_calls_do_not_race() -> None:
    """The effect of a kill, and of a start of what exits by itself, is waited for."""
    for _, case in cases(5, 200):
        for task in case:
            assert not list(races(task)), task["steps"]


def races(task: dict[str, Any]) -> Iterator[str]:
    steps = task["steps"]
    exiting = [name for name, process in task.get("execs", {}).items() if "exit" in " ".join(process["args"])]
    for at, step in enumerate(steps[:-1]):
        earlier, following = steps[:at], steps[at + 1]
        is_first_kill = step in ("kill:,9", "kill:,9,all", "both:kill:,9") and not {"wait", "delete"} & set(earlier)
        if is_first_kill and following != "wait":
            yield step
        name, _, argument = step.partition(":")
        last = [one for one in earlier if one in (f"exec:{argument}", f"wait:{argument}", f"delete:{argument}")][-1:]
        if name == "run" and argument in exiting and last == [f"exec:{argument}"] and following != f"wait:{argument}":
            yield step


def test_cases_of_a_seed_are_distinct_of_all_kinds_and_the_same_again() -> None:
    found = list(cases(7, 150))
    assert len(found) > 145 and {kind for kind, _ in found} == set(KINDS)
    assert list(cases(7, 5)) == found[:5] and list(cases(8, 5)) != found[:5]
    sequences = {json.dumps([task["steps"] for task in case]) for _, case in found}
    assert len(sequences) > 120, "hypothesis repeats itself"


def test_campaign_waits_while_the_file_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pause"
    file.touch()
    monkeypatch.setattr("tests.fuzz.__main__.time.sleep", lambda seconds: file.unlink())
    wait_while_paused(file)
    assert not file.exists()
    wait_while_paused(None)
