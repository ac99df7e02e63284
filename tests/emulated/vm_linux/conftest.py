"""Linux VMs with each guest that the emulator has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator import Emulator
from tests.support.guest_transcript import Transcript
from tests.support.linux_vm import LinuxVm
from tests.support.wire_client import WireClient


@pytest.fixture
def linux_vm(linux_guest: str, emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[LinuxVm]:
    """A Linux VM with each guest, not yet created."""
    vm = LinuxVm(emulator, client, tmp_path, linux_guest)
    yield vm
    vm.close()


@pytest.fixture
def compare(gcs: Path, emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run a scenario in a VM of each guest; fails unless the answers are equal. Returns them."""
    machines: list[LinuxVm] = []

    def run(scenario: Callable[[Transcript], None], *, negotiate: bool = True) -> dict[str, Any]:
        transcripts = []
        for guest in ("gcs", "emulated"):
            directory = tmp_path / guest
            directory.mkdir()
            vm = LinuxVm(emulator, client, directory, guest)
            machines.append(vm)
            transcript = Transcript(vm, vm.booted() if negotiate else vm.boot())
            scenario(transcript)
            transcripts.append(transcript)
            vm.terminate()
            vm.close()
        first, second = transcripts
        for expected, answered in zip(first.entries, second.entries, strict=False):
            assert answered == expected, f"Microsoft's agent: {expected}\nthe emulator's: {answered}"
        assert len(second.entries) == len(first.entries)
        return dict(first.entries)

    yield run
    for vm in machines:
        vm.close()
