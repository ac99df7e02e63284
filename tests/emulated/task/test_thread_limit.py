"""A shim that reaches the limit on processes of its cgroup: no exit is lost, and a shim that cannot continue exits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from shim.api.types import Status
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims
from tests.support.thread_limit import PidsCgroup

EXIT_ON_FILE = ("sh", "-c", "until [ -e /go ]; do sleep 0.05; done; exit 7")
REFUSED = "cannot start a thread, trying again: the limit on processes or the memory is exhausted"
GAVE_UP = "no thread could be started for 30 s, exiting: raise the limit on processes"


@pytest.fixture
def cgroup(shims: Shims) -> Iterator[PidsCgroup]:
    cgroup = PidsCgroup(shims.directory.name)
    yield cgroup
    cgroup.close()


def exit_without_threads(shims: Shims, cgroup: PidsCgroup) -> Shim:
    """Run a container, and let it exit while its shim can start no thread."""
    shim = shims.start("c1", shims.spec(*EXIT_ON_FILE), with_log=True)
    shim.run(rootfs=shims.rootfs())
    cgroup.add(shim.pid)
    cgroup.refuse()
    (shims.image / "go").touch()
    eventually(lambda: shim.state().status == Status.STOPPED, "the exit")
    shim.log.wait_for(REFUSED)
    return shim


def test_exit_at_thread_limit_is_reported_after_it(shims: Shims, cgroup: PidsCgroup) -> None:
    shim = exit_without_threads(shims, cgroup)
    waited: list[int] = []
    waiter = threading.Thread(target=lambda: waited.append(shim.wait(timeout=60).exit_status))
    waiter.start()
    assert "exit c1" not in shims.events.received("c1")
    cgroup.allow()
    waiter.join(60)
    assert waited == [7]
    assert shim.delete().exit_status == 7
    shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"], "c1")
    shim.shutdown()
    shim.wait_exited()


@pytest.mark.timeout(180)
def test_shim_at_thread_limit_for_too_long_exits(shims: Shims, cgroup: PidsCgroup) -> None:
    """containerd notices the lost connection and runs `delete`, which finds everything."""
    shim = exit_without_threads(shims, cgroup)
    eventually(lambda: not shim.alive, "the exit of the shim", 60)
    line = shim.log.wait_for(GAVE_UP)
    assert line.level == "error" and "Process._finish_exit" in line.fields["waiting"]
    shim.delete_command()
    assert shims.mounts() == []
