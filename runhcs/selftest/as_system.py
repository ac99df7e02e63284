"""`selftest --as-system`: a scheduled task that runs once, as SYSTEM, and whose output is printed here."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TASK_TIMEOUT = 1800.0
COMMAND_TIMEOUT = 60.0
POLL_SECONDS = 0.5


def arguments_for(args: argparse.Namespace) -> list[str]:
    """The same selftest without --as-system."""
    words = ["selftest"]
    for step in args.step:
        words += ["--step", step]
    for layer in args.layers:
        words += ["--layers", os.path.abspath(layer)]
    if args.smb:
        words += ["--smb", args.smb]
    for name in ("against", "record", "shim"):
        if value := getattr(args, name):
            words += [f"--{name}", os.path.abspath(value)]
    return [*words, "--json"] if args.json else words


def program() -> list[str]:
    """runhcs.exe of the zip is the interpreter itself; a wheel is installed into one."""
    is_python = os.path.basename(sys.executable).lower().startswith("python")
    return [sys.executable, "-m", "runhcs"] if is_python else [sys.executable]


def script(command: Sequence[str], directory: Path) -> str:
    """A batch file: the command line of a task has at most 261 characters. `done` is written last."""
    line = subprocess.list2cmdline(command).replace("%", "%%")
    return (
        f'@echo off\r\n{line} > "{directory}\\out.txt" 2> "{directory}\\err.txt"\r\n'
        f'echo %ERRORLEVEL% > "{directory}\\code.txt"\r\n'
        f'move /y "{directory}\\code.txt" "{directory}\\done.txt" > nul\r\n'
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False
    )


def run_as_system(
    args: argparse.Namespace, run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]] = _run,
    timeout: float = TASK_TIMEOUT,
) -> int:  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="runhcs-selftest-system-"))
    name = directory.name
    batch = directory / "run.cmd"
    batch.write_text(script([*program(), *arguments_for(args)], directory), newline="")
    created = False
    try:
        for command in (
            ["schtasks", "/Create", "/TN", name, "/TR", f'"{batch}"', "/SC", "ONCE", "/ST", "00:00", "/RU", "SYSTEM",
             "/RL", "HIGHEST", "/F"],
            ["schtasks", "/Run", "/TN", name],
        ):  # fmt: skip
            done = run(command)
            if done.returncode:
                text = (done.stderr or done.stdout).strip()
                print(f"runhcs selftest: {' '.join(command[:2])} failed: {text}; use an elevated session",
                      file=sys.stderr)  # fmt: skip
                return 1
            created = True
        return _await(directory, timeout)
    finally:
        if created:
            run(["schtasks", "/End", "/TN", name])
            run(["schtasks", "/Delete", "/TN", name, "/F"])
        shutil.rmtree(directory, ignore_errors=True)


def _await(directory: Path, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while not (directory / "done.txt").exists():
        if time.monotonic() > deadline:
            print(f"runhcs selftest: the task did not finish within {timeout:.0f} s", file=sys.stderr)
            return 1
        time.sleep(POLL_SECONDS)
    sys.stdout.write((directory / "out.txt").read_text(errors="replace"))
    sys.stderr.write((directory / "err.txt").read_text(errors="replace"))
    return int((directory / "done.txt").read_text().strip() or 1)
