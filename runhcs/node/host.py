"""The commands that change and check the node, each a process of its own.

`runhcs install` is that of the image. `runhcs selftest` and `runhcs doctor` are those of the installed version, with
its own Python: they verify what containerd will run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, frozen

from runhcs import shims
from runhcs.installation import ROOT

# The zip of the shim in an image for Windows, beside the packages from which this program runs.
ZIP = ROOT.parent / "zip"
# `runhcs install` may wait for containerd's restart twice; each step of the selftest has its own limit.
INSTALL_SECONDS = 600.0
SELFTEST_SECONDS = 1200.0
DOCTOR_SECONDS = 300.0
# What an install changes that containerd or a shim can notice; other actions remove and protect files.
SWITCHES = ("install files", "write runtimes", "back up", "add import")


@define
class HostError(Exception):
    """A command failed or reported a failure."""

    reason: str
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.next_step}" if self.next_step else self.reason


@frozen
class Installation:
    """What `runhcs install --json` reports."""

    version: str
    #: The version that was installed before; "" if none was.
    installed: str
    shim: str
    tool: tuple[str, ...]
    restart_needed: bool
    is_unconfirmed: bool
    #: Whether containerd uses the version and the runtimes already; only --dry-run tells.
    is_current: bool
    #: Versions that pods still use.
    kept: tuple[str, ...] = ()


def installation(report: dict[str, Any]) -> Installation:
    actions = report["actions"]
    planned = {one["action"] for one in actions if one["outcome"] == "planned"}
    restart_needed, is_unconfirmed = bool(report["restart_needed"]), bool(report["is_unconfirmed"])
    return Installation(
        version=report["version"],
        installed=report["installed"],
        shim=report["shim"],
        tool=tuple(report["tool"]),
        restart_needed=restart_needed,
        is_unconfirmed=is_unconfirmed,
        is_current=not (planned & {*SWITCHES} or restart_needed or is_unconfirmed),
        kept=tuple(one["target"] for one in actions if one["outcome"] == "kept"),
    )


class Host:
    def __init__(self, options: Sequence[str], config: str, selftest_options: Sequence[str] = ()) -> None:
        """`options` are those of every `runhcs install`."""
        self._options = options
        self._config = config
        self._selftest_options = selftest_options

    def install(self, *options: str) -> Installation:
        """Raises HostError."""
        done = _run([*_installer(), "install", "--json", *self._options, *options], INSTALL_SECONDS)
        if done.returncode:
            raise HostError(_last_line(done.stderr).removeprefix("runhcs install: "))
        try:
            return installation(json.loads(done.stdout))
        except (ValueError, KeyError) as error:
            raise HostError(f"the report of runhcs install cannot be read: {error}") from None

    def selftest(self, found: Installation) -> None:
        """Run containers with a version that containerd does not use yet. Raises HostError if a step fails."""
        command = [*found.tool, "selftest", "--json", "--shim", found.shim, *self._selftest_options]
        report = _report(command, SELFTEST_SECONDS, "steps")
        failed = [one for one in report if one.get("outcome") == "fail"]
        if failed:
            one = failed[0]
            raise HostError(f"selftest: {one.get('name')}: {one.get('finding')}", str(one.get("next_step") or ""))

    def doctor(self, found: Installation) -> None:
        """Check the node and containerd's configuration. Raises HostError if a check fails."""
        config = ["--config", self._config] if self._config else []
        failed = [one for one in _report([*found.tool, "doctor", "--json", *config], DOCTOR_SECONDS, "checks")
                  if one.get("outcome") == "fail"]  # fmt: skip
        if failed:
            one = failed[0]
            raise HostError(f"doctor: {one.get('name')}: {one.get('finding')}", str(one.get("next_step") or ""))


def _installer() -> list[str]:
    if shims.WINDOWS:
        return [str(ZIP / "runhcs.exe")]
    return [sys.executable, "-sPB", "-m", "runhcs"]


def _report(command: Sequence[str], seconds: float, key: str) -> list[dict[str, Any]]:
    done = _run(command, seconds)
    try:
        found = json.loads(done.stdout)[key]
    except (ValueError, KeyError, TypeError):
        text = _last_line(done.stderr) or f"exit code {done.returncode} and no report"
        raise HostError(text, f"run it on the node: {' '.join(command)}") from None
    return [one for one in found if isinstance(one, dict)]


def _run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds,
            env=environment, cwd=Path(ROOT.anchor), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HostError(f"no result within {seconds:.0f} s", f"run it on the node: {' '.join(command)}") from None
    except OSError as error:
        raise HostError(f"{command[0]}: {error.strerror}", "is the image complete?") from None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
