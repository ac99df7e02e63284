"""The workflows: least privilege, pinned actions, and commands that exist. `make lint` runs actionlint on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in load(path)["jobs"].values():
        yield from job.get("steps", [])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_default_permission_is_to_read(path: Path) -> None:
    assert load(path)["permissions"] == {"contents": "read"}


def test_only_the_release_writes() -> None:
    writing = {}
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            if granted := sorted(key for key, value in job.get("permissions", {}).items() if value == "write"):
                writing[f"{path.stem}.{name}"] = granted
    assert writing == {"release.attest": ["attestations", "id-token"], "release.publish": ["contents"]}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_checkouts_keep_no_credentials(path: Path) -> None:
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_have_timeouts(path: Path) -> None:
    jobs = load(path)["jobs"]
    assert [name for name, job in jobs.items() if "uses" not in job and "timeout-minutes" not in job] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_run_scripts_and_targets_that_exist(path: Path) -> None:
    """Logic is in scripts, which also run by hand."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(path):
        command = step.get("run", "")
        assert len(command.splitlines()) <= 1, command
        for script in re.findall(r"scripts/[\w./-]+", command):
            assert (ROOT / script).exists(), script
        for target in re.findall(r"^make ([a-z-]+)", command):
            assert target in targets, target


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_parameters_of_powershell_scripts_exist(path: Path) -> None:
    for step in steps(path):
        for script, arguments in re.findall(r"(scripts/windows/[\w-]+\.ps1)(.*)", step.get("run", "")):
            text = (ROOT / script).read_text()
            declared = set(re.findall(r"\$(\w+)", text.partition("param(")[2].partition("\n")[0]))
            assert set(re.findall(r" -(\w+) ", arguments)) <= declared, (script, arguments)


def test_containerd_versions_are_those_of_the_tests() -> None:
    version = json.loads((ROOT / "scripts" / "windows" / "versions.json").read_text())["containerd"]
    assert f"v{version}" in (ROOT / "scripts" / "go-programs.sh").read_text()
    assert f"ref: v{version}" in (ROOT / ".github" / "workflows" / "windows.yml").read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned(path: Path) -> None:
    """By commit; actions of GitHub itself may have a tag."""
    uses = [step["uses"] for step in steps(path) if "uses" in step]
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}|actions/[\w-]+@v\d+")
    assert [one for one in uses if not pinned.fullmatch(one)] == []
