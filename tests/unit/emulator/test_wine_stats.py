"""Stats of the programs of a container under Wine, with processes of Linux: those that have exited count, and none of
them is kept."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hcs_emulator.service.silo.stats import ProcessUsage
from hcs_emulator.service.wine.processes import MARK, Programs
from tests.support.eventually import eventually

BUSY_100NS = 500_000
# Uses some processor time, says so, and runs until its stdin closes.
PROGRAM = """
import sys, time
while time.process_time() < 0.08:
    pass
print("done", flush=True)
sys.stdin.read()
"""


@contextmanager
def running(programs: Programs, number: int) -> Iterator[None]:
    """A program that has used 50 ms of processor time at least."""
    mark = f"test-{number}"
    command = [sys.executable, "-S", "-c", PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={MARK: mark}, **pipes) as process:  # type: ignore[call-overload]
        programs.add(mark, number, 0)
        process.stdout.readline()
        yield
        process.communicate(timeout=30)
        programs.remove(mark)


def runtime(programs: Programs) -> int:
    return int(programs.statistics(time.time())["Processor"]["TotalRuntime100ns"])


def test_exited_programs_count_and_are_not_kept() -> None:
    programs = Programs()
    total = 0
    for number in range(1, 9):
        with running(programs, number):
            eventually(lambda expected=total: runtime(programs) >= expected + BUSY_100NS, "its processor time")
            total = runtime(programs)
        assert runtime(programs) == total, "what it used still counts, once"
    assert programs.process_list() == []
    kept = [one for one in gc.get_objects() if isinstance(one, ProcessUsage)]
    assert len(kept) <= 1, "only their sum"
