"""Which processes descend from the demo.

The demo makes itself the reaper of its descendants, so a daemon that leaves its parent becomes a child of the demo and
not of init: whatever was started on its behalf, directly or not, can be told from everything else on the machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "becoming the reaper of orphaned processes failed")


def descendants(root: int | None = None) -> list[int]:
    """Living processes below one, nearest first. Dead ones that nobody has asked about are not counted."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state, parent = _state(int(entry))
            if state not in ("", "X"):
                children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid() if root is None else root]
    while waiting:
        for child in children.get(waiting.pop(0), ()):
            waiting.append(child)
            if _state(child)[0] != "Z":
                found.append(child)
    return found


def bury(own: set[int]) -> None:
    """Take note of the deaths of adopted children. `own` have others to ask about them."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in own and _state(int(entry)) == ("Z", os.getpid()):
            try:
                os.waitpid(int(entry), os.WNOHANG)
            except ChildProcessError:
                pass


def end(pids: list[int], own: set[int], timeout: float = 5.0) -> None:
    """End processes for good."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + timeout
    while any(_state(pid)[0] not in ("", "Z") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    bury(own)


def describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = ""
    return f"{pid} {words[:60]}".strip()


def is_alive(pid: int) -> bool:
    return _state(pid)[0] not in ("", "Z", "X")


def _state(pid: int) -> tuple[str, int]:
    """The state's letter and the parent's id; an empty letter for no process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])


def run(
    arguments: list[str], *, cwd: Path, env: dict[str, str], timeout: float, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """A command to its end, out of reach of the terminal's Ctrl-C: the demo itself decides what that means."""
    return subprocess.run(
        arguments, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout, check=False,
        start_new_session=True,
    )  # fmt: skip
