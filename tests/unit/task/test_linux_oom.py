"""OOM events of Linux containers, whose guests report none."""

from __future__ import annotations

from typing import Any

import pytest

from shim.hcs_bindings.errors import SYSTEM_NOT_FOUND, HcsError
from tests.support.eventually import eventually
from tests.unit.task.fakes import FakeContainer, Harness

KILLED = 137


class LinuxContainer(FakeContainer):
    """`kills` is what its guest reports; None: it reports no number."""

    def __init__(self, kills: int | None = 0) -> None:
        super().__init__()
        self.is_linux = True
        self.kills = kills

    def statistics(self, timeout: float) -> dict[str, Any]:
        self._called("statistics")
        control = {} if self.kills is None else {"memory_oom_control": {"oom_kill": self.kills}}
        return {"LCOWMetrics": control}


@pytest.fixture
def container() -> LinuxContainer:
    return LinuxContainer()


@pytest.fixture
def linux(shim: Harness, container: LinuxContainer) -> Harness:
    shim.containers["c1"] = container
    return shim


def exits(shim: Harness, code: int) -> list[str]:
    """The events from the exit on."""
    shim.containers["c1"].processes[0].exit(code)
    shim.wait()
    eventually(lambda: "exit c1" in shim.publisher.published(), "the exit event")
    return shim.publisher.published()[2:]


def test_oom_kill_that_the_guest_counts_is_published_before_the_exit(linux: Harness, container: LinuxContainer) -> None:
    linux.run()
    container.kills = 1
    assert exits(linux, 1) == ["oom c1", "exit c1"]


def test_killed_process_is_no_oom_if_the_guest_counts_none(linux: Harness) -> None:
    linux.run()
    assert exits(linux, KILLED) == ["exit c1"]


@pytest.mark.parametrize("has_stats", [False, True])
def test_killed_process_is_an_oom_if_the_guest_does_not_count(
    linux: Harness, container: LinuxContainer, has_stats: bool
) -> None:
    container.kills = None
    if not has_stats:
        container.errors["statistics"] = HcsError(SYSTEM_NOT_FOUND, "guest GetProperties c1")
    linux.run()
    assert exits(linux, KILLED) == ["oom c1", "exit c1"]


def test_process_that_a_client_killed_is_no_oom(linux: Harness, container: LinuxContainer) -> None:
    container.kills = None
    linux.run()
    container.kill_works = False
    linux.kill(9)
    assert exits(linux, KILLED) == ["exit c1"]


def test_oom_kill_is_published_once_with_stats_while_the_container_runs(
    linux: Harness, container: LinuxContainer
) -> None:
    linux.run()
    container.kills = 2
    linux.stats()
    linux.stats()
    assert linux.publisher.published() == ["create c1", "start c1", "oom c1"]
    container.kills = 3
    linux.stats()
    assert exits(linux, 0) == ["oom c1", "oom c1", "exit c1"]


def test_oom_kill_of_an_exec_is_published_before_its_exit(linux: Harness, container: LinuxContainer) -> None:
    linux.run()
    process = linux.run_exec("e1")
    container.kills = 1
    process.exit(KILLED)
    linux.wait("e1")
    assert linux.publisher.published()[4:] == ["oom c1", "exit e1"]
