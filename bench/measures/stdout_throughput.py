"""A container's output through a whole shim: bytes per second from a process to the client's FIFO, and CPU per GiB.

The same program and the same reader for all. What is measured is the time from Start until the reader has everything,
and what the daemon itself takes meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import time

from bench.harness.candidates import STANDBY, Candidate
from bench.harness.context import Lab
from bench.harness.driver import Shim

TIMEOUT = 300


def measure(lab: Lab) -> None:
    # A standby changes nothing of this.
    candidates = [one for one in lab.central if one.name != STANDBY] or lab.central
    sizes = lab.sizes
    for candidate, kept in lab.rounds("container output", candidates, sizes.output_rounds, sizes.short_warm_up):
        found = lab.attempt(candidate, "", once, lab, candidate, sizes.output_mib)
        if kept and found is not None:
            rate, cpu = found
            lab.session.measure("container output", "MiB/s", "throughput").add(candidate.name, rate)
            lab.session.measure("CPU per GiB of container output", "s", "cpu").add(candidate.name, cpu)


def once(lab: Lab, candidate: Candidate, size: int) -> tuple[float, float]:
    """MiB per second, and CPU seconds of the daemon per GiB."""
    args = ["/usr/bin/dd", "if=/dev/zero", "bs=64K", f"count={size * 16}", "status=none"]
    with Shim(candidate, lab.node, args) as shim:
        fifo, errors = shim.bundle.path / "stdout", shim.bundle.path / "stderr"
        os.mkfifo(fifo)
        os.mkfifo(errors)
        held = os.open(errors, os.O_RDWR)  # the runc shim waits for a reader
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
            shim.await_last_event()
            shim.shut_down()
            shim.wait_gone()
            shim.delete()
        finally:
            os.close(held)
            if reader.poll() is None:
                reader.kill()
                reader.wait()
    lab.check_events(candidate, lab.node.events.settle(shim.id))
    if status:
        raise RuntimeError(f"the container that writes ended with {status}")
    return size / seconds, cpu * 1024 / size
