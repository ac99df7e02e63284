"""Throughput of a container's stdout through a whole shim to the client's FIFO (`relay_throughput`: the relay alone).

All candidates run the same writer and reader. The measures are bytes per second from Start until the reader has
everything, and the CPU time of the daemon per GiB.
"""

from __future__ import annotations

import os
import subprocess
import time

from bench.harness.candidates import STANDBY, Candidate
from bench.harness.context import SuiteContext
from bench.harness.driver import Shim

TIMEOUT = 300


def measure(context: SuiteContext) -> None:
    # A standby does not affect throughput.
    candidates = [one for one in context.central if one.name != STANDBY] or context.central
    sizes = context.sizes
    for candidate, is_kept in context.rounds("container output", candidates, sizes.output_rounds, sizes.short_warm_up):
        found = context.attempt(candidate, "", once, context, candidate, sizes.output_mib)
        if is_kept and found is not None:
            rate, cpu = found
            context.measure("container output", "MiB/s", "throughput").add(candidate.name, rate)
            context.measure("CPU per GiB of container output", "s", "cpu").add(candidate.name, cpu)


def once(context: SuiteContext, candidate: Candidate, size: int) -> tuple[float, float]:
    """MiB per second, and CPU seconds of the daemon per GiB."""
    args = ["/usr/bin/dd", "if=/dev/zero", "bs=64K", f"count={size * 16}", "status=none"]
    with Shim(candidate, context.node, args) as shim:
        fifo, errors = shim.bundle.path / "stdout", shim.bundle.path / "stderr"
        os.mkfifo(fifo)
        os.mkfifo(errors)
        stderr_reader = os.open(errors, os.O_RDWR)  # the runc shim waits for a reader
        reader = subprocess.Popen(
            ["dd", f"if={fifo}", "of=/dev/null", "bs=1M", f"count={size}", "iflag=fullblock", "status=none"]
        )
        try:
            shim.start()
            shim.connect()
            shim.create(str(fifo), str(errors))
            before, begin = shim.cpu(), time.perf_counter()
            shim.start_task()
            if reader.wait(TIMEOUT):
                raise RuntimeError("the reader of a container's output failed")
            seconds, cpu = time.perf_counter() - begin, shim.cpu() - before
            status = shim.wait()
            shim.delete_task()
            shim.wait_delete_event()
            shim.shut_down()
            shim.wait_exit()
            shim.delete()
        finally:
            os.close(stderr_reader)
            if reader.poll() is None:
                reader.kill()
                reader.wait()
    context.check_events(shim)
    if status:
        raise RuntimeError(f"the writer in the container exited with {status}")
    return size / seconds, cpu * 1024 / size
