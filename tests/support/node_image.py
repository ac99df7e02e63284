"""The build context of the image for Linux nodes, as `scripts/node_image.py` makes it, and versions derived from it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import node_image  # noqa: E402


def build_context(directory: Path) -> Path:
    """For the Python that runs the tests."""
    output = directory / "context"
    node_image.linux(output, f"{sys.version_info[0]}.{sys.version_info[1]}")
    return output


def derived(context: Path, target: Path, file: str, text: str) -> Path:
    """The files of the image as another version: with a line added to a file of its packages. Others are links."""
    source = context / "rootfs" / "runhcs"
    shutil.copytree(source, target, copy_function=lambda one, two: Path(two).hardlink_to(one))
    changed = target / "packages" / file
    content = changed.read_text() + text
    changed.unlink()
    changed.write_text(content)
    return target
