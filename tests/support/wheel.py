"""Builds the wheel of this tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shim", "hcs_emulator", "launcher", "runhcs", "bench")


def build_wheel(directory: Path) -> Path:
    """From a copy of the tree, because setuptools writes into its source directory."""
    source = directory / "source"
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, source]
    done = subprocess.run(pip, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    return next(directory.glob("*.whl"))
