"""Waiting for files that the machine creates: devices appear in the guest shortly after HCS has added them."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable

from hcs_emulator.vm.linux.agent.errors import GuestError

INTERVAL = 0.01
VMBUS = "/sys/bus/vmbus/devices"


def until(condition: Callable[[], str | None], seconds: float, failure: str) -> str:
    """Poll until the condition has a result, as gcs does."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result is not None:
            return result
        if time.monotonic() >= deadline:
            raise GuestError(failure)
        time.sleep(INTERVAL)


def for_pattern(pattern: str, seconds: float) -> str:
    """The only file that matches a pattern."""

    def find() -> str | None:
        files = glob.glob(pattern)
        if len(files) > 1:
            raise GuestError(f'more than one file could exist for pattern "{pattern}"')
        return files[0] if files else None

    failure = f"timed out waiting for file matching pattern {pattern} to exist: context deadline exceeded"
    return until(find, seconds, failure)


def for_pci_device(vmbus_id: str, seconds: float) -> str:
    """The path in sysfs of the PCI device behind a VMBus instance id."""
    bus = for_pattern(f"{VMBUS}/{vmbus_id}/pci*", seconds)
    domain = bus.rpartition("/")[2].removeprefix("pci")
    return for_pattern(f"{bus}/{domain}*", seconds)
