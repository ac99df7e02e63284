"""The directory of an instance: its sockets, locks and logs. The service runs as root, so it must be nobody else's.

A directory that exists is checked, not changed: HCS_EMULATOR_DIR may name /tmp, or one that another user has made
before. The native library, which creates the first files in it, makes the same check
(`native/library/start_posix.c`).
"""

from __future__ import annotations

import os
import stat

# What a caller may have created before the service starts.
_FIRST_FILES = {"start.lock", "service.log"}


class DirectoryError(Exception):
    """The directory cannot be used; the message names the next step."""


def prepare(path: str) -> str:
    """Create the directory if it is missing. Returns its absolute path."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path.rstrip("/") or "/")
    next_step = "set HCS_EMULATOR_DIR (or --directory) to another"
    if not stat.S_ISDIR(found.st_mode):
        raise DirectoryError(f"{path} is not a directory: {next_step}")
    if found.st_uid != os.geteuid():
        raise DirectoryError(f"{path} belongs to another user ({found.st_uid}): {next_step}")
    if found.st_mode & 0o022:
        raise DirectoryError(f"{path} can be written to by others: chmod 700 it, or {next_step}")
    if found.st_mode & 0o055 and set(os.listdir(path)) <= _FIRST_FILES:
        os.chmod(path, 0o700)  # it is for this instance
    return os.path.realpath(path)
