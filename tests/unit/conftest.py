"""What unit tests share: `shim` and `pod`, the task API on fakes of what lies below it."""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.hcs_bindings.library import Library
from shim.task.pod import Role
from shim.task.stdio.process_io import relay
from shim.ttrpc import deadlines, outbox, workers
from tests.support.eventually import eventually
from tests.unit.platform import stdio_fixtures
from tests.unit.task.fakes import Harness
from tests.unit.ttrpc.fixtures import RpcLab


@pytest.fixture(autouse=True)
def no_hcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pure logic asks nobody. The first call of HCS's library would start an emulator for the whole machine."""
    reached: list[str] = []

    def load(library: Library) -> None:
        reached.append(library._name)
        pytest.fail(f"a unit test must not load {library._name}: give it the answer (windows_build), or move it")

    monkeypatch.setattr(Library, "_load", load)
    yield
    assert not reached, f"a unit test must not load {reached}"


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Harness]:
    """A shim for one container, c1."""
    harness = Harness(bundle=str(tmp_path))
    yield harness
    harness.close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Harness]:
    """A shim for a pod with two workloads, w1 and w2."""
    harness = Harness("pod", is_sandbox=True, bundle=str(tmp_path))
    harness.roles.update(pod=Role("sandbox", "pod"), w1=Role("container", "pod"), w2=Role("container", "pod"))
    yield harness
    harness.close()


@pytest.fixture
def no_streams_left() -> Iterator[None]:
    """The relay ends with its last stream and keeps neither threads nor descriptors."""
    threads, descriptors = _thread._count(), len(os.listdir("/proc/self/fd"))
    yield
    eventually(lambda: not relay._running)
    eventually(lambda: _thread._count() <= threads)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


@pytest.fixture
def lab(tmp_path: Path, no_streams_left: None) -> Iterator[stdio_fixtures.Lab]:
    """A client's FIFOs, and processes that the test plays."""
    lab = stdio_fixtures.Lab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture
def rpc(monkeypatch: pytest.MonkeyPatch) -> Iterator[RpcLab]:
    """A ttrpc server; at the end no connection and no thread of it is left."""
    for module in (workers, deadlines, outbox):
        monkeypatch.setattr(module, "LINGER" if hasattr(module, "LINGER") else "IDLE_SECONDS", 0.05)
    before = _thread._count()
    lab = RpcLab()
    yield lab
    lab.release.set()
    lab.server.shutdown(5)
    assert lab.server.connections() == []
    eventually(lambda: _thread._count() <= before)
