"""Programs that the shim runs in a Linux VM itself, outside of any container, as root."""

from __future__ import annotations

import time

from shim.hcs_bindings.errors import HcsError
from shim.uvm.gcs.connection import THE_VM
from shim.uvm.gcs.process import VmProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.uvm.linux.guest import LinuxGuest

TIMEOUT_SECONDS = 60.0
MAX_OUTPUT = 1 << 20


def _left(deadline: float) -> float:
    """The seconds until the deadline. Raises TimeoutError after it: a program may write a byte now and then."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("a program in the VM did not finish in time")
    return left


def run(
    guest: LinuxGuest, arguments: Sequence[str], *, stderr: bool = False, timeout: float = TIMEOUT_SECONDS
) -> tuple[int, str]:
    """Run a program; returns its exit code and what it wrote to stdout, or to stderr instead."""
    from _socket import socket

    pipe = "CreateStdErrPipe" if stderr else "CreateStdOutPipe"
    process = VmProcess(guest.vm, THE_VM, {**guest.command_parameters(arguments, ""), pipe: True})
    deadline = time.monotonic() + timeout
    try:
        handle = process.stderr if stderr else process.stdout
        assert handle is not None
        stream, process.stdout, process.stderr = socket(fileno=handle), None, None
        output = b""
        try:
            while len(output) < MAX_OUTPUT:
                stream.settimeout(_left(deadline))
                data = stream.recv(65536)
                if not data:
                    break
                output += data
        finally:
            stream.close()  # before the wait: the guest reports the exit when the host has closed the stream
        return process.wait(_left(deadline)).code, output[:MAX_OUTPUT].decode("utf-8", "replace")
    except (HcsError, OSError):
        process.terminate(TIMEOUT_SECONDS)
        raise
    finally:
        process.close()
