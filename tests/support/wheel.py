"""Builds the wheels of this tree, as `make wheels` does."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import wheels  # noqa: E402

PACKAGES = wheels.PACKAGES


def build_wheel(directory: Path) -> Path:
    return wheels.build_pure(directory, directory)


def build_prebuilt_wheel(pure: Path, directory: Path) -> Path:
    """With compiled programs, for this machine."""
    return wheels.build_prebuilt(pure, directory, directory)
