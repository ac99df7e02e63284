"""The load of `loaded_start`: it runs, it is bounded, and nothing of it outlives the bench process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from bench.harness import busy

LIMIT = 300.0
TIMEOUT_MS = 60_000
# A bench process that starts a load, prints its pids and waits. Like bench, it handles SIGTERM as Ctrl-C.
SCRIPT = """
import signal, sys
from bench.harness.busy import busy
signal.signal(signal.SIGTERM, signal.default_int_handler)
with busy(2, 300.0) as load:
    print(*load.pids, flush=True)
    sys.stdin.read()
"""


def exits(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(TIMEOUT_MS))


def test_busy_processes_run_inside_block_only() -> None:
    with busy.busy(2, LIMIT) as load:
        descriptors = [os.pidfd_open(pid) for pid in load.pids]
        assert len(set(load.pids)) == 2
        load.require()
        assert all(os.getpgid(pid) == pid for pid in load.pids)  # Ctrl-C in a terminal does not reach them
    for descriptor in descriptors:
        assert exits(descriptor)
        os.close(descriptor)


def test_busy_processes_are_killed_after_error() -> None:
    with pytest.raises(KeyboardInterrupt), busy.busy(1, LIMIT) as load:
        descriptor = os.pidfd_open(load.pids[0])
        raise KeyboardInterrupt
    assert exits(descriptor)
    os.close(descriptor)


def test_busy_process_exits_after_limit_and_is_missed() -> None:
    with busy.busy(1, 0.2) as load:
        descriptor = os.pidfd_open(load.pids[0])
        assert exits(descriptor)
        os.close(descriptor)
        with pytest.raises(RuntimeError, match="a busy process exited with 0"):
            load.require()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_busy_process_outlives_bench(number: signal.Signals) -> None:
    bench = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert bench.stdout is not None and bench.stdin is not None
        descriptors = [os.pidfd_open(int(word)) for word in bench.stdout.readline().split()]
        assert len(descriptors) == 2
        bench.send_signal(number)
        for descriptor in descriptors:
            assert exits(descriptor)
            os.close(descriptor)
        assert bench.wait(60) != 0
    finally:
        bench.kill()
        bench.communicate()


def test_load_counts_usable_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    assert busy.per_processor(3) == 9
