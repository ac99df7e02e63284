"""What emulated tests share: a private running emulator, shims and VMs on it, the bindings, the native library."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hcs_emulator.vm.linux.gcs import build
from runhcs.selftest.node import open_node
from runhcs.soak.containers import SoakHost, event_address
from runhcs.soak.events import EventAccounts
from shim.hcs_bindings import events
from shim.hcs_bindings.system import ComputeSystem
from tests.support.bindings import container, reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.hostprocess import Jobs, host_process_shims
from tests.support.runhcs_tools import ToolShims
from tests.support.scripted_service import Library, Scripted, scripted_service
from tests.support.shim_commands import Binary
from tests.support.shims import Shims
from tests.support.vm import Vm
from tests.support.vm_image import VmShims
from tests.support.wire_client import WireClient


@pytest.fixture
def start_emulator() -> Iterator[Callable[..., Emulator]]:
    """Start emulators with arguments (`--build 17763`, …); all are stopped and checked for leftovers at the end."""
    started: list[Emulator] = []

    def start(*arguments: str) -> Emulator:
        started.append(Emulator(*arguments))
        return started[-1]

    yield start
    for emulator in reversed(started):
        emulator.stop()


@pytest.fixture
def emulator(start_emulator: Callable[..., Emulator]) -> Emulator:
    return start_emulator()


@pytest.fixture
def client(emulator: Emulator) -> Iterator[WireClient]:
    """The emulator as its library speaks to it."""
    with WireClient(emulator.directory) as client:
        yield client


@pytest.fixture
def vm(emulator: Emulator, client: WireClient, tmp_path: Path) -> Iterator[Vm]:
    """A utility VM on that emulator, not yet created."""
    vm = Vm(emulator, client, tmp_path)
    yield vm
    vm.close()


@pytest.fixture(scope="session")
def gcs() -> Path:
    """Microsoft's guest agent, built once. Without Go its tests are skipped; with CI=true they fail."""
    if shutil.which("go") is None and not build.program().exists():
        report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        report("Microsoft's guest agent is built with Go, which is not installed")
    return build.find_or_build()


@pytest.fixture(params=["gcs", "emulated"])
def linux_guest(request: pytest.FixtureRequest) -> str:
    """Each guest of Linux VMs: Microsoft's agent, then the emulator's."""
    if request.param == "gcs":
        request.getfixturevalue("gcs")
    return str(request.param)


@pytest.fixture
def binary() -> Iterator[Binary]:
    """The shim's program, run as containerd runs it, in directories of its own."""
    binary = Binary()
    yield binary
    binary.close()


@pytest.fixture
def shims(emulator: Emulator) -> Iterator[Shims]:
    """Shims on that emulator, started as containerd would; at the end all are gone and nothing of them is left."""
    shims = Shims(emulator.env)
    yield shims
    shims.close()


@pytest.fixture
def vms(emulator: Emulator, shims: Shims) -> VmShims:
    """The same, with containers in utility VMs."""
    return VmShims(emulator, shims)


@pytest.fixture
def tools(emulator: Emulator) -> Iterator[ToolShims]:
    """The same, for the tools that look for shims."""
    shims = ToolShims(emulator.env)
    yield shims
    shims.close()


@pytest.fixture
def hcs(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Emulator]:
    """The bindings of this process, on that emulator; at the end every handle must be closed."""
    use(emulator, monkeypatch, tmp_path)
    yield emulator
    gc.collect()
    if emulator.process.poll() is None:
        eventually(lambda: emulator.control("status")["handles"] == 0, "closing every handle")
    eventually(lambda: not events._table, "forgetting every handle")
    reset_libraries()


@pytest.fixture
def soak_host(hcs: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoakHost]:
    """Containers as `runhcs soak` runs them, with every exit and event checked."""
    # Paths of sockets are short, and pytest's directories are not.
    with tempfile.TemporaryDirectory(prefix="mt", dir="/tmp") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        node = open_node(argparse.Namespace(shim="", layers=[], smb=""), "memory")
        host = SoakHost(node, EventAccounts(event_address(node)), has_vms=True)
        yield host
        assert host.clean_up() == []
        host.events.close()
        node.close()


@pytest.fixture
def running(hcs: Emulator) -> Iterator[ComputeSystem]:
    """A container that has been started."""
    with ComputeSystem.create("c1", container()) as system:
        system.start()
        yield system


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Scripted]:
    """A service that answers the native library as a test tells it to."""
    with scripted_service(tmp_path) as script:
        yield script


@pytest.fixture
def lib() -> Library:
    """The native library by its C ABI."""
    return Library()


@pytest.fixture
def jobs(emulator: Emulator) -> Iterator[Jobs]:
    """Host process containers on the host, with files of the emulator's layers; at the end no group of them is left."""
    yield from host_process_shims(emulator)
