"""A directory that is a shared mount, as the kubelet makes its root directory (`mount --make-rshared`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shared_mount(directory: Path) -> Iterator[Path]:
    """Make `directory` a shared mount of its own for the time of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", str(directory), str(directory)], check=True)
    try:
        subprocess.run(["mount", "--make-rshared", str(directory)], check=True)
        yield directory
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", str(directory)], check=True)


def mounts_below(directory: Path) -> list[str]:
    """Mount points of the host below `directory`, itself excluded."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{directory}/")]
