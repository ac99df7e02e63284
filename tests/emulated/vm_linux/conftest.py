"""Linux VMs with each guest that the emulator has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.emulator import Emulator
from tests.support.linux_vm import LinuxVm
from tests.support.wire_client import WireClient


@pytest.fixture
def linux_vm(linux_guest: str, emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[LinuxVm]:
    """A Linux VM with each guest, not yet created."""
    vm = LinuxVm(emulator, client, tmp_path, linux_guest)
    yield vm
    vm.close()
