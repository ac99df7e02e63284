"""Windows tools that the shim runs in the VM itself, outside of any container, as SYSTEM."""

from __future__ import annotations

import time

from shim.hcs_bindings.errors import HcsError
from shim.uvm.gcs.connection import THE_VM
from shim.uvm.gcs.process import VmProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.vm import Vm

    Document = dict[str, Any]

SYSTEM_USER = "NT AUTHORITY\\SYSTEM"
# How long a tool that prepares something in the VM may run.
TIMEOUT_SECONDS = 60.0
MAX_OUTPUT = 1 << 16


def parameters(command_line: str, directory: str = "") -> Document:
    """The process document of a program of the VM itself."""
    return {"CommandLine": command_line, "User": SYSTEM_USER, "WorkingDirectory": directory or "C:\\"}


def run(vm: Vm, command_line: str) -> int:
    """Run a tool without streams; returns its exit code."""
    process = VmProcess(vm, THE_VM, parameters(command_line))
    try:
        return process.wait(TIMEOUT_SECONDS).code
    except HcsError:
        process.terminate(TIMEOUT_SECONDS)
        raise
    finally:
        process.close()


def _left(deadline: float) -> float:
    """The seconds until the deadline. Raises TimeoutError after it: a tool may write a byte now and then for ever."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"a tool in the VM did not finish within {TIMEOUT_SECONDS:.0f} s")
    return left


def run_with_output(vm: Vm, command_line: str, *, stderr: bool = False) -> tuple[int, str]:
    """Run a tool; returns its exit code and what it wrote to stdout, or to stderr instead."""
    from _socket import socket

    pipe = "CreateStdErrPipe" if stderr else "CreateStdOutPipe"
    process = VmProcess(vm, THE_VM, {**parameters(command_line), pipe: True})
    handle = process.stderr if stderr else process.stdout
    assert handle is not None
    stream, process.stdout, process.stderr = socket(fileno=handle), None, None
    output = b""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        while len(output) < MAX_OUTPUT:
            stream.settimeout(_left(deadline))
            data = stream.recv(4096)
            if not data:
                break
            output += data
        return process.wait(_left(deadline)).code, output[:MAX_OUTPUT].decode("utf-8", "replace")
    except (HcsError, OSError):
        process.terminate(TIMEOUT_SECONDS)
        raise
    finally:
        stream.close()
        process.close()
