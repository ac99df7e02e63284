"""Throughput of the stdout of sixteen containers at once, for each shim scope (`stdout_throughput`: of one container).

All containers run and wait with full pipes. Then a reader of each is started. The measures are bytes per second until
the last reader has everything, and the CPU time of the daemons per GiB.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack

from bench.harness.candidates import STANDBY, Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim
from bench.measures.pods import scopes

CONTAINERS = 16
TIMEOUT = 300.0


def measure(context: SuiteContext) -> None:
    shared = scopes(context)
    candidates = [one for one in [*context.central, *shared] if one.name != STANDBY]
    sizes = context.sizes
    mib = max(sizes.output_mib // 4, 1)
    for candidate, is_kept in context.rounds("shared output", candidates, sizes.output_rounds, sizes.short_warm_up):
        found = context.attempt(candidate, "", once, context, candidate, mib)
        if is_kept and found is not None:
            rate, cpu = found
            context.measure(f"output of {CONTAINERS} containers", "MiB/s", "throughput").add(candidate.name, rate)
            context.measure(f"CPU per GiB of output of {CONTAINERS} containers", "s", "cpu").add(candidate.name, cpu)
    context.check_leaks("shared_output", shared)


def once(context: SuiteContext, candidate: Candidate, mib: int) -> tuple[float, float]:
    """MiB per second of all, and CPU seconds of the daemons per GiB. `mib`: of each container."""
    args = ["/usr/bin/dd", "if=/dev/zero", "bs=64K", f"count={mib * 16}", "status=none"]
    with ExitStack() as stack:
        shims = [stack.enter_context(Shim(candidate, context.node, args)) for _ in range(CONTAINERS)]
        outputs = [_start(shim, stack) for shim in shims]
        before, begin = _cpu(shims), time.perf_counter()
        readers = [stack.enter_context(_reader(path, mib)) for path in outputs]
        for reader in readers:
            if reader.wait(TIMEOUT):
                raise RuntimeError("the reader of a container's output failed")
        seconds, cpu = time.perf_counter() - begin, _cpu(shims) - before
        for shim in shims:
            _stop(context, shim)
    total = mib * CONTAINERS
    return total / seconds, cpu * 1024 / total


def _start(shim: Shim, stack: ExitStack) -> str:
    """Starts the container; returns the path of its stdout."""
    paths = [str(shim.bundle.path / name) for name in ("stdout", "stderr")]
    for path in paths:
        os.mkfifo(path)
        stack.callback(os.close, os.open(path, os.O_RDWR | os.O_NONBLOCK))  # the runc shim waits for a reader
    shim.start()
    shim.connect()
    shim.create(*paths)
    shim.start_task()
    return paths[0]


class _Reader(subprocess.Popen[bytes]):
    """Killed at the end of its block, if it still runs."""

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()


def _reader(path: str, mib: int) -> _Reader:
    return _Reader(["dd", f"if={path}", "of=/dev/null", "bs=1M", f"count={mib}", "iflag=fullblock", "status=none"])


def _cpu(shims: list[Shim]) -> float:
    """Of the daemons; containers may share one."""
    return sum({shim.pid: shim.cpu() for shim in shims}.values())


def _stop(context: SuiteContext, shim: Shim) -> None:
    status = shim.wait()
    shim.delete_task()
    shim.wait_delete_event()
    shim.shut_down()
    shim.wait_exit()
    shim.delete()
    context.check_events(shim)
    if status:
        raise RuntimeError(f"the writer in a container exited with {status}")
