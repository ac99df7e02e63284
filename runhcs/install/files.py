"""Files that are replaced or removed as a whole, since containerd may read them at any time."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from runhcs.install.interfaces import InstallError
from shim.version import VERSION


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise InstallError(f"{path} is not UTF-8: containerd cannot read it either") from None


def replace(path: Path, text: str, mode: int = 0) -> None:
    """Atomically, and on the disk when this returns: a node may lose power. The file keeps its access control list, if
    it had one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with open(partial, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    if mode:
        partial.chmod(mode)
    os.replace(partial, path)


def remove_directory(path: Path) -> bool:
    """All of it or nothing: Windows does not rename a directory with open files."""
    aside = path.with_name(f".{path.name}.removed")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # a run that was killed left it
        path.rename(aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def remove_if_empty(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def touch(path: Path) -> None:
    with suppress(OSError):
        os.utime(path)


def version_name(source: Path, files: Iterable[Path]) -> str:
    """The name of the directory for these files: their version and a hash of them."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.as_posix()}\0{hashlib.sha256((source / path).read_bytes()).hexdigest()}\n".encode())
    return f"{VERSION}-{digest.hexdigest()[:12]}"
