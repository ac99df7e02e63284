"""Builds the Go program that stands at the other end of ttrpc, once for each version of its source, into the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "tests" / "interop" / "ttrpc"


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("RUNHCS_CACHE") or Path(base) / "containerd-shim-runhcs")


def interop_program() -> Path:
    """The built program. Raises FileNotFoundError, with what to do, if there is no Go."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = cache_directory()
    program = cache / f"ttrpc-interop-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise FileNotFoundError("go is not on PATH: install Go (https://go.dev/dl) to build tests/interop/ttrpc")
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".interop-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            partial = program.with_suffix(".partial")
            subprocess.run(
                [go, "build", "-trimpath", "-o", partial, "."],
                cwd=SOURCE,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
                check=True,
            )
            partial.rename(program)
    return program
