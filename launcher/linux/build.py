"""Compile the Linux launcher, once for all installations, and write the settings of an installation into a copy."""

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
BUILD_DIRECTORY = HERE / "build"
SETTINGS_MARK = b"RUNHCS-LAUNCHER-SETTINGS:"
SETTINGS_SIZE = 4096 - len(SETTINGS_MARK)
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s"]


class NoCompilerError(Exception):
    """The launcher cannot be compiled here. The message has the reason."""


def compile_launcher() -> bytes:
    """The launcher without settings. It is linked statically where libc allows it: that halves its start time."""
    cached = cached_launcher()
    try:
        return cached.read_bytes()
    except OSError:
        pass
    with tempfile.TemporaryDirectory(prefix="runhcs-launcher-") as directory:
        program = Path(directory, "launcher")
        _run_compiler(program)
        data = program.read_bytes()
        store_in_cache(program, cached)
    return data


def cached_launcher() -> Path:
    """Where the launcher of these sources is stored."""
    text = b"".join(path.read_bytes() for path in [*SOURCES, *HEADERS])
    stamp = hashlib.sha256(text + " ".join(FLAGS).encode()).hexdigest()[:16]
    return BUILD_DIRECTORY / f"launcher-{stamp}"


def store_in_cache(program: Path, cached: Path) -> None:
    """For the next installation."""
    try:
        cached.parent.mkdir(exist_ok=True)
        temporary = cached.with_name(f".{cached.name}.{os.getpid()}")
        shutil.copy(program, temporary)
        temporary.replace(cached)
    except OSError:
        pass  # the package is not writable for this user: the next installation compiles again


def _run_compiler(program: Path) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    message = ""
    for linking in (["-static"], []):
        try:
            command = [*compiler, *FLAGS, f"-I{COMMON}", *linking, *map(str, SOURCES), "-o", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoCompilerError(f"{compiler[0]}: {error}") from None
        if done.returncode == 0:
            return
        message = done.stderr.strip()
    raise NoCompilerError(f"{compiler[0]} failed: {message.splitlines()[-1] if message else done.returncode}")


def with_settings(program: bytes, python: str, file: str, standby: bool, interpreter: str = "") -> bytes:
    """The launcher of one installation. It runs `interpreter`, the linked one, as long as `python` is unchanged."""
    status = os.stat(python)
    seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
    stamp = f"{seconds}.{nanoseconds:09} {status.st_size}"
    texts = (python, file, "1" if standby else "0", interpreter, stamp)
    settings = b"".join(os.fsencode(text) + b"\0" for text in texts)
    if len(settings) >= SETTINGS_SIZE:
        raise OSError("the paths of Python and of the shim are too long for the launcher: install to shorter ones")
    before, found, after = program.partition(SETTINGS_MARK)
    if not found or SETTINGS_MARK in after:
        raise NoCompilerError("the compiled launcher does not have exactly one place for its settings")
    return before + found + settings + after[len(settings) :]
