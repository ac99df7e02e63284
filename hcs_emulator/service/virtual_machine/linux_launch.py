"""What the worker of a Linux VM needs to know: the machine, and the guest that runs in it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hcs_emulator.service.errors import E_FAIL, HcsError
from hcs_emulator.service.virtual_machine import linux_boot

if TYPE_CHECKING:
    from hcs_emulator.service.host import Host
    from hcs_emulator.service.virtual_machine.settings import VirtualMachineSettings

PROGRAM = "hcs_emulator.vm.linux"


async def settings(host: Host, machine: VirtualMachineSettings) -> dict[str, Any]:
    """Check how the VM boots and describe it for the worker; raises HcsError."""
    boot = linux_boot.boot_of(machine.document)
    guest = boot.guest(host.options.linux_guest)
    agent = await _gcs() if guest == "gcs" else _emulated()
    return agent | {
        "boot": boot.command.for_worker(),
        "guest": guest,
        "console": console(host, machine),
        "has_pci": boot.command.kernel.get("pci") != "off",
        "controllers": list(machine.controllers),
        "network_namespace": machine.network_namespace,
        "control_group": machine.control_group,
        "resources": machine.for_linux_guest(),
        "limits": machine.limits(),
        "faults": host.guest_faults(),
    }


def console(host: Host, machine: VirtualMachineSettings) -> str:
    """The path of the console's pipe on the host, or nothing."""
    pipe = ((machine.devices.get("ComPorts") or {}).get("0") or {}).get("NamedPipe", "")
    return host.pipe(pipe) if pipe else ""


async def _gcs() -> dict[str, Any]:
    from hcs_emulator.vm.linux.gcs import build as gcs  # not at startup: its imports take time

    try:
        program = await asyncio.to_thread(gcs.find_or_build)
    except (gcs.BuildError, OSError) as error:
        raise HcsError(E_FAIL, f"[Start compute system] {error}") from error
    # There is no PTP clock of Hyper-V to synchronize with, and without one the agent exits.
    return {
        "agent": str(program),
        "module": "",
        "extra_arguments": ["-disable-time-sync"],
        "host_directories": [],
    }


def _emulated() -> dict[str, Any]:
    package = str(Path(__file__).resolve().parents[3])
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    return {
        "agent": "",
        "module": "hcs_emulator.vm.linux.agent.__main__",
        "extra_arguments": [],
        "host_directories": _outside_programs({package, *map(os.path.realpath, prefixes)}),
    }


def _outside_programs(paths: set[str]) -> list[str]:
    """The directories that are not below one of the others, or of the host's that every guest has."""
    wanted = {path for path in paths if path != "/" and not f"{path}/".startswith(("/usr/", "/bin/", "/sbin/", "/lib"))}
    return sorted(path for path in wanted if not any(path.startswith(other + "/") for other in wanted))
