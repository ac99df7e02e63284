"""Programs of this machine for root file systems of tests, each with the shared libraries that it needs."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path


@functools.cache
def shared_libraries(program: Path) -> frozenset[Path]:
    """What ldd lists; none for a static program. ldd is a script that starts half a dozen processes, and hundreds of
    tests make a root file system with the same programs: each program is looked up once.
    """
    found = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60, check=False)
    if "not a dynamic executable" in found.stderr:
        return frozenset()
    assert found.returncode == 0, f"ldd {program}: {found.stdout}{found.stderr}"
    assert "not found" not in found.stdout, f"libraries of {program} are missing:\n{found.stdout}"
    return frozenset(Path(word) for word in found.stdout.split() if word.startswith("/"))


def copy_program(root: Path, program: Path, name: str) -> None:
    """Copy a program to `name` below `root`, and its libraries to where they are on this machine."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, root / name)
    for library in shared_libraries(program):
        target = root / library.relative_to("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)


def find_program(name: str, package: str = "") -> Path:
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install {package or name}"
    return Path(found)
