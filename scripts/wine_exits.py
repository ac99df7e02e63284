"""Ends programs that Wine has deadlocked at their exit.

If a program exits while one of its threads completes an overlapped operation of a pipe, Wine 8 may end that thread with
ntdll's mutex of virtual memory locked: `virtual_locked_server_call` holds it during a request, and a thread whose
wineserver connection closes ends at once. The thread that called ExitProcess has an operation of its own to complete,
waits for the mutex, and the process stays: five of 24,000 runs of ctr.exe on a busy machine.

On Linux such a process has one thread left, which waits for a private futex without a timeout: nothing can wake it.
When it is killed, wineserver has the exit code already, and other programs under Wine get that one. A deadlock of a
program itself has two threads at least, and stays.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

INTERVAL = 2.0
# How many times in a row a process is found before it is killed.
TIMES = 2
# The last thread, and the first one, which stays as a zombie.
MOST_THREADS = 2
_FUTEX, _PRIVATE = 202, 128  # the number of the system call on x86-64, and the flag of its operation


class ExitWatch:
    """Kills deadlocked programs of a Wine prefix until it is closed."""

    def __init__(self, prefix: Path) -> None:
        #: The pids of those that were killed.
        self.killed: list[int] = []
        self._prefix = prefix
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wine-exits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        found: dict[int, int] = {}
        while not self._closed.wait(INTERVAL):
            found = {pid: found.get(pid, 0) + 1 for pid in deadlocked(self._prefix)}
            for pid in [pid for pid, times in found.items() if times >= TIMES]:
                self.killed.append(pid)
                print(f"killed {pid}, which Wine had deadlocked at its exit", file=sys.stderr, flush=True)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def deadlocked(prefix: Path) -> list[int]:
    """The pids of programs of a prefix whose last thread waits for another one."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_deadlocked(pid, prefix)]


def _is_deadlocked(pid: int, prefix: Path) -> bool:
    try:
        if len(os.listdir(f"/proc/{pid}/task")) > MOST_THREADS:
            return False
        threads = live_threads(pid)
        return len(threads) == 1 and _waits_forever(threads[0]) and belongs_to(threads[0], prefix)
    except OSError:
        return False  # it has just exited


def live_threads(pid: int) -> list[Path]:
    """The first thread of a process may have exited while others run."""
    return [task for task in Path(f"/proc/{pid}/task").iterdir() if _state(task) != "Z"]


def belongs_to(thread: Path, prefix: Path) -> bool:
    return f"WINEPREFIX={prefix}".encode() in (thread / "environ").read_bytes().split(b"\0")


def _state(task: Path) -> str:
    return (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]


def _waits_forever(task: Path) -> bool:
    words = (task / "syscall").read_text().split()
    if len(words) < 5 or words[0] != str(_FUTEX):
        return False  # it runs, or waits in another system call
    operation, timeout = int(words[2], 16), int(words[4], 16)
    return bool(operation & _PRIVATE) and timeout == 0
