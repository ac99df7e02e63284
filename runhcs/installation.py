"""The names and paths of what `runhcs install` writes. Unlike `runhcs.install.linux` it imports no build code."""

from __future__ import annotations

from pathlib import Path

# Links are kept: an image of deploy/ is read below /proc/PID/root of its container, which resolves to the node's /.
ROOT = Path(__file__).absolute().parent.parent
NAME = "containerd-shim-runhcs-v1"
LIBRARY = "containerd-shim-runhcs"


def library(bindir: Path) -> Path:
    """The directory of the compiled modules of a launcher in this directory."""
    return bindir.absolute().parent / "lib" / LIBRARY
