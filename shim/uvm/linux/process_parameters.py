"""Process documents of a Linux guest, for GCS's ExecuteProcess.

The init of a container has none of its own: the guest has its OCI process since Create. An exec has the OCI process of
its request. A program of the VM itself has arguments, an environment and a directory.
"""

from __future__ import annotations

from shim.uvm.linux.guest_spec import guest_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from shim.oci.section import Section

    Document = dict[str, Any]

# What a program of the VM finds its own programs with.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def pipes(*, stdin: bool, stdout: bool, stderr: bool) -> Document:
    wanted = (("CreateStdInPipe", stdin), ("CreateStdOutPipe", stdout), ("CreateStdErrPipe", stderr))
    return {name: True for name, is_wanted in wanted if is_wanted}


def exec_parameters(process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None) -> Document:
    """`terminal` overrides what the process says, if it is given. A terminal has no stderr of its own."""
    oci = guest_process(process.values)
    if terminal is not None:
        oci.pop("terminal", None)
        if terminal:
            oci["terminal"] = True
    return {**pipes(stdin=stdin, stdout=stdout, stderr=stderr), "OciProcess": oci}


def command_parameters(arguments: Sequence[str], directory: str) -> Document:
    """A program of the VM itself, without streams."""
    return {
        "CommandArgs": list(arguments),
        "WorkingDirectory": directory or "/",
        "Environment": {"PATH": PATH},
    }


def stdio_settings(services: Mapping[str, str]) -> Document:
    """The guest connects its streams to vsock ports; the first part of a service id is its port."""
    ports = {name: int(service.partition("-")[0], 16) for name, service in services.items()}
    return {"VsockStdioRelaySettings": ports}
