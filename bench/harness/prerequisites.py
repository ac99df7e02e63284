"""What measures need beyond Python: root, the built emulator, Go, containerd, a checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# The checkout, if bench is imported from one: an installed wheel has no tests directory beside it.
CHECKOUT = Path(__file__).resolve().parents[2]


class PrerequisiteError(Exception):
    """A missing program, file or permission. The message names it and how to get it. The measure is skipped."""


def require_root() -> None:
    if os.geteuid() != 0:
        raise PrerequisiteError("the suite needs root, since it creates namespaces and mounts: run it with sudo")


def build_emulator() -> None:
    """Builds the emulator's native library and programs if they are older than their sources, or not there, as after
    an installation from a wheel."""
    from hcs_emulator.native import build

    try:
        build.build()
    except FileNotFoundError:
        raise PrerequisiteError("the emulator needs a C compiler: apt-get install gcc libc6-dev, or set CC") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise PrerequisiteError(f"building the emulator failed: {error}") from None
