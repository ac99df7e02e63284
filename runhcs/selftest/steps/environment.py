"""The prerequisites, and the Windows build."""

from __future__ import annotations

import argparse

from runhcs.doctor import command as doctor
from runhcs.selftest.runner import Context, Step, StepFailed
from shim.hcs_bindings.windows_version import windows_build
from shim.platform import host

OLDEST_BUILD = 17763
# containerd and its configuration are not used: the selftest starts shims itself.
NOT_NEEDED = ("containerd", "daemon", "shim", "config", "wine")


def environment(context: Context) -> str:
    found = doctor.examine(argparse.Namespace(config=""))
    context.details["doctor"] = {check.name: f"{check.outcome}: {check.finding}" for check in found}
    failed = [check for check in found if check.outcome == "fail" and check.name not in NOT_NEEDED]
    if failed:
        findings = "; ".join(f"{check.name}: {check.finding}" for check in failed)
        raise StepFailed(findings, failed[0].next_step)
    return f"{len(found)} checks of `runhcs doctor`, none fails"


def build(context: Context) -> str:
    number = windows_build()
    context.details["build"] = number
    context.details["revision"] = host.revision()
    if number < OLDEST_BUILD:
        raise StepFailed(f"build {number}", f"use Windows Server 2019 (build {OLDEST_BUILD}) or later")
    return f"build {number}{', emulated' if host.IS_EMULATED else f'.{host.revision()}'}"


STEPS = [
    Step("environment", "the prerequisites that `runhcs doctor` checks", environment),
    Step("build", "RtlGetVersion reports a supported build", build),
]
