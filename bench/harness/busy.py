"""A bounded load: processes that use the processors while shims are measured.

Each of them exits by itself after a time limit, or when the bench process has exited, so none outlives a run that is
killed. They are children of the bench process and in its control group: a shim competes with each of them as an equal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Arguments: the pid of the parent, the time limit in seconds.
PROGRAM = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
os.write(1, b"!")
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(20000):
        pass
"""
EXIT_TIMEOUT = 20.0


class Load:
    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in self._processes]

    def start(self, count: int, seconds: float) -> None:
        """Starts busy processes and waits until all of them run."""
        command = [sys.executable, "-IS", "-c", PROGRAM, str(os.getpid()), str(seconds)]
        for _ in range(count):
            # A process group of its own: Ctrl-C in a terminal is for the bench process, which kills this one.
            one = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0)
            self._processes.append(one)
        for one in self._processes:
            assert one.stdout is not None
            one.stdout.read(1)  # returns at the latest when the process has exited
        self.require()

    def require(self) -> None:
        """Raises RuntimeError if a process has exited: what was measured since is not valid."""
        for one in self._processes:
            if one.poll() is not None:
                raise RuntimeError(f"a busy process exited with {one.returncode}: is its time limit too short?")

    def stop(self) -> None:
        for one in self._processes:
            one.kill()
        for one in self._processes:
            one.wait(EXIT_TIMEOUT)
            assert one.stdout is not None
            one.stdout.close()
        self._processes.clear()


def per_processor(count: int) -> int:
    """The number of processes for a load of `count` on each processor that this process may use."""
    return count * len(os.sched_getaffinity(0))


@contextmanager
def busy(count: int, seconds: float) -> Iterator[Load]:
    """The load, of which nothing is left after the block."""
    load = Load()
    try:
        load.start(count, seconds)
        yield load
    finally:
        load.stop()
