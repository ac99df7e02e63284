"""The exit of a container's init, as a file in the bundle, for the `delete` command, which runs in a new process.

When the daemon has died, containerd takes the exit from what `delete` prints. Without a record that would be 255 and
the current time, even for a container that had exited normally. Plain text, `status seconds nanoseconds pid` and a
newline; a line without the newline was cut off by a crash and is ignored. Few imports: `delete` reads it.
"""

from __future__ import annotations

from shim.platform import files

FILE_NAME = "exit"


def write(bundle: str, status: int, seconds: int, nanos: int, pid: int) -> None:
    files.write_atomic(f"{bundle}/{FILE_NAME}", b"%d %d %d %d\n" % (status, seconds, nanos, pid))


def read(bundle: str) -> tuple[int, int, int, int] | None:
    """(status, seconds, nanoseconds, pid), or None if there is no complete record."""
    try:
        line = files.read(f"{bundle}/{FILE_NAME}", 100, follow=False)
    except OSError:
        return None
    parts = line.split()
    if not line.endswith(b"\n") or len(parts) != 4:
        return None
    try:
        status, seconds, nanos, pid = (int(part) for part in parts)
    except ValueError:
        return None
    return status, seconds, nanos, pid
