"""Statistics of a process-isolated container: from its job object on Windows, or else from HCS."""

from __future__ import annotations

from typing import Any

import pytest

from shim.container.container import Container
from shim.hcs_bindings import job
from shim.hcs_bindings.errors import HcsError
from shim.platform import host, jobs
from shim.platform.job_types import JobError

OF_JOB, OF_HCS = {"Uptime100ns": 1}, {"Uptime100ns": 2}
ACCESS_DENIED = 0xC0000022


class System:
    def properties(self, *types: str, timeout: float | None = None) -> dict[str, Any]:
        assert types == ("Statistics",) and timeout == 3.0
        return {"Statistics": OF_HCS}

    def start(self) -> None:
        pass


@pytest.fixture
def container() -> Container:
    unused: Any = None
    system: Any = System()
    return Container("c1", unused, system, unused, unused, lambda warning: None)


def test_statistics_come_from_the_job(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    queried: list[tuple[int, bool]] = []

    def statistics_of(handle: int, started_at: float) -> dict[str, Any]:
        queried.append((handle, started_at > 0))
        return OF_JOB

    monkeypatch.setattr(host, "IS_EMULATED", False)
    monkeypatch.setattr(job, "use", lambda name, query: query(7))
    monkeypatch.setattr(jobs, "statistics_of", statistics_of)
    container.start()
    assert container.statistics(3.0) == OF_JOB and queried == [(7, True)]


@pytest.mark.parametrize("error", [HcsError(ACCESS_DENIED, "NtOpenJobObject"), JobError(5, "refused")])
def test_statistics_come_from_hcs_if_the_job_is_refused(
    container: Container, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(id: str, query: object) -> None:
        raise error

    monkeypatch.setattr(host, "IS_EMULATED", False)
    monkeypatch.setattr(job, "use", refuse)
    assert container.statistics(3.0) == OF_HCS


def test_statistics_of_emulated_container_come_from_hcs(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "use", lambda name, query: pytest.fail("the emulator's jobs have no handles"))
    assert container.statistics(3.0) == OF_HCS
