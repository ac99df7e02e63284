"""`runhcs.exe selftest` from the unpacked zip."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any

import pytest

from runhcs.selftest.steps import STEPS
from tests.wine.conftest import Machine, go_programs

TIMEOUT = 380
PROGRAM = "containerd-shim-runhcs-v1.exe"
SKIPPED = {
    "crash-calls": "only the emulator can kill its caller",
    "hostprocess-accounts": "this is not the SYSTEM account",
    "hostprocess-smb": "no SMB share is given",
}
# What Wine lacks, and the finding of the step that needs it.
FAILED = {
    # The services; their DLLs are the emulator's.
    "environment": "vmcompute: the Host Compute Service is not installed; "
    "hns: the Host Network Service is not installed",
    # The owner of every file is the account of this process, which is no administrator by its SID.
    "files": r"other users can write (\d+) of \1 files, e\.g\. node, containerd-shim-runhcs, "
    r"containerd-shim-runhcs-v1\.exe",
    # Bind filter and links: the mount is an empty directory, in which the process can write.
    "hostprocess-read-only": "a file of a mount cannot be read: ''",
    # Output of a console.
    "hostprocess-terminal": "the process exited with 0 and printed ''",
    # Volumes as mount points: working directories, and the file of that process, are in the root directories.
    "hostprocess-cleanup": r"root directories are left in (\S+): selftest-\d+-\d+-cwd-root, "
    r"selftest-\d+-\d+-cwd-mount, (selftest-\d+-\d+-ro), \1\\\2\\\S+\\destination-read-only\\new\.txt",
    # Hyper-V sockets; the emulator's DLL replaces them for programs that load it before Winsock.
    "vm-sockets": r"this system has no Hyper-V sockets \(error 10047\)",
    # Entries of other accounts in an access control list.
    "vm-dumps": r"the VM group has no inherited full access to \S+\\dumps",
}


@pytest.fixture
def selftest(machine: Machine) -> Any:
    base = machine.base_layer()

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        done = machine.run(
            r"C:\node\runhcs.exe", "selftest", "--json", "--layers", base, *arguments, timeout=TIMEOUT
        )
        text = done.stdout.decode(errors="replace")
        start = text.find("{\r\n")
        assert start >= 0, text
        report = json.loads(text[start : text.rindex("}") + 1])
        return done.returncode, {step["name"]: step for step in report["steps"]}

    return run


def test_every_step(selftest: Any, machine: Machine) -> None:
    _, steps = selftest()
    assert list(steps) == [step.name for step in STEPS]
    skipped = {name: step["finding"] for name, step in steps.items() if step["outcome"] == "skip"}
    assert skipped == SKIPPED
    failed = {name: step["finding"] for name, step in steps.items() if step["outcome"] == "fail"}
    assert set(failed) == set(FAILED), failed
    for name, pattern in FAILED.items():
        assert re.fullmatch(pattern, failed[name]), (name, failed[name])
    assert set(steps["files"]["details"]["signatures"].values()) == {"unknown"}, "Wine has no PowerShell"
    assert list(steps["vm-dumps"]["details"]["files"]) and steps["vm-dumps"]["details"]["access"] == []
    assert steps["endpoint-access"]["details"]["descriptor"] == "D:P(A;;GA;;;BA)(A;;GA;;;SY)"
    assert "selftest" not in " ".join(os.listdir(machine.drive / "users" / "root" / "Temp"))
    assert not {"mounted", "ro", "selftest"} & set(os.listdir(machine.drive)), "destinations of mounts"


def test_comparison_with_microsofts_shim(selftest: Any, machine: Machine) -> None:
    directory = machine.drive / "rival"
    directory.mkdir(exist_ok=True)
    shutil.copy(go_programs("hcsshim") / PROGRAM, directory)
    scenarios = [f"against-{name}" for name in ("lifecycle", "large-output", "execs", "signals", "failures")]
    chosen = [word for name in scenarios for word in ("--step", name)]
    code, steps = selftest("--against", rf"C:\rival\{PROGRAM}", *chosen)
    assert code == 0, {name: step["finding"] for name, step in steps.items()}
    assert list(steps) == scenarios
    assert "second create" in steps["against-failures"]["details"]["known differences"]
