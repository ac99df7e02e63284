"""The environment of a run: machine, system, versions. Two runs are comparable only if these are."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from bench.report.results import CandidateInfo

COMMAND_TIMEOUT = 20.0


def environment() -> dict[str, Any]:
    """Of this machine, before the run: the load is without the run's own."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "distribution": _distribution(),
        "kernel": platform.release(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory kB": _memory(),
        "virtual": _virtual(),
        "cgroups": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python built with a shared library": bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
        "load at start": list(os.getloadavg()),
        "runc": _first_line("runc", "--version"),
    }


def candidate_info(name: str, program: Path, subject: bool, note: str = "") -> CandidateInfo:
    """Digest and version of a candidate; every shim v2 program prints its version for `-v`."""
    try:
        digest = hashlib.sha256(program.read_bytes()).hexdigest()
    except OSError:
        digest = ""
    return CandidateInfo(name, str(program), version(program), digest, subject, note)


def version(program: Path) -> str:
    """Empty if it prints none."""
    text = _output([str(program), "-v"])
    found = re.search(r"[Vv]ersion:\s*(\S+)", text)
    return found[1] if found else ""


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def _first_line(program: str, *arguments: str) -> str:
    return next(iter(_output([program, *arguments]).splitlines()), "") if shutil.which(program) else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.processor()


def _memory() -> int:
    found = re.search(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) if found else 0


def _virtual() -> bool:
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE))


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""
