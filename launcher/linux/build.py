"""Compile the launcher, once for all installations, and write an installation's settings into a copy."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
COMMON = HERE.parent / "common"
SOURCES = sorted([*COMMON.glob("*.c"), *HERE.glob("*.c")])
HEADERS = sorted([*COMMON.glob("*.h"), *HERE.glob("*.h")])
MARK = b"RUNHCS-LAUNCHER-SETTINGS:"
ROOM = 4096 - len(MARK)
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s", f"-I{COMMON}"]


class NoCompilerError(Exception):
    """The launcher cannot be compiled here. The message says why."""


def compiled() -> bytes:
    """The launcher without settings. Static where libc allows it: that halves the time it takes to start."""
    text = b"".join(path.read_bytes() for path in [*SOURCES, *HEADERS])
    stamp = hashlib.sha256(text + " ".join(FLAGS[:-1]).encode()).hexdigest()[:16]
    kept = HERE / "build" / f"launcher-{stamp}"
    try:
        return kept.read_bytes()
    except OSError:
        pass
    with tempfile.TemporaryDirectory(prefix="runhcs-launcher-") as directory:
        program = Path(directory, "launcher")
        _run_compiler(program)
        data = program.read_bytes()
        keep(program, kept)
    return data


def keep(program: Path, kept: Path) -> None:
    """For the next installation."""
    try:
        kept.parent.mkdir(exist_ok=True)
        temporary = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copy(program, temporary)
        temporary.replace(kept)
    except OSError:
        pass  # a package that only root may write to: compile again next time


def _run_compiler(program: Path) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    complaint = ""
    for linking in (["-static"], []):
        try:
            command = [*compiler, *FLAGS, *linking, *map(str, SOURCES), "-o", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoCompilerError(f"{compiler[0]}: {error}") from None
        if done.returncode == 0:
            return
        complaint = done.stderr.strip()
    raise NoCompilerError(f"{compiler[0]} failed: {complaint.splitlines()[-1] if complaint else done.returncode}")


def with_settings(program: bytes, python: str, file: str, standby: bool, interpreter: str = "") -> bytes:
    """The launcher of one installation. `interpreter` stands for `python` while that is what it is now."""
    status = os.stat(python)
    seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
    stamp = f"{seconds}.{nanoseconds:09} {status.st_size}"
    texts = (python, file, "1" if standby else "0", interpreter, stamp)
    settings = b"".join(os.fsencode(text) + b"\0" for text in texts)
    if len(settings) >= ROOM:
        raise OSError("the paths of Python and of the shim are too long for the launcher: install to shorter ones")
    before, found, after = program.partition(MARK)
    if not found or MARK in after:
        raise NoCompilerError("the compiled launcher does not have one place for its settings")
    return before + found + settings + after[len(settings) :]
