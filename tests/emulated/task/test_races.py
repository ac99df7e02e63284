"""Concurrent calls on one container: no lost answers, no leaks, and the order of events is kept."""

from __future__ import annotations

import os
import select
from concurrent.futures import ThreadPoolExecutor

from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims

SLEEP = ("sleep", "600")


def descriptors(shim: Shim) -> int:
    return len(os.listdir(f"/proc/{shim.pid}/fd"))


def test_many_execs_leak_nothing(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    before = descriptors(shim)

    def one(number: int) -> None:
        fifo = str(shims.directory / f"out{number}")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        shim.exec(f"e{number}", shims.process("sh", "-c", f"echo {number}; exit {number}"), stdout=fifo)
        shim.start(f"e{number}")
        assert select.select([reader], [], [], 60)[0]
        assert os.read(reader, 100) == b"%d\n" % number
        assert shim.wait(f"e{number}").exit_status == number
        os.close(reader)
        shim.delete(f"e{number}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(100)))
    eventually(lambda: descriptors(shim) == before, "as many descriptors as before")
    eventually(lambda: len(shims.events.received()) == 2 + 4 * 100, "all events")
    received = shims.events.received()
    for number in range(100):
        mine = [entry.split()[0] for entry in received if entry.split()[1] == f"e{number}"]
        assert mine == ["exec-added", "exec-started", "exit", "delete"]


def test_execs_during_container_exit(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    names = [f"e{number}" for number in range(12)]
    for name in names:
        shim.exec(name, shims.process(*SLEEP))

    def start(name: str) -> bool:
        try:
            shim.start(name)
        except StatusError as error:
            # Too late for it: the task has stopped, or HCS does not take processes for it any more.
            assert error.code in (status.FAILED_PRECONDITION, status.UNKNOWN), error
            return False
        return True

    with ThreadPoolExecutor(13) as pool:
        starts = [pool.submit(start, name) for name in names[:6]]
        killing = pool.submit(shim.kill, 9)
        starts += [pool.submit(start, name) for name in names[6:]]
        killing.result(60)
        started = {name for name, future in zip(names, starts, strict=True) if future.result(60)}
    shim.wait()
    for name in names:
        shim.wait(name)
    eventually(lambda: "exit c1" in shims.events.received(), "the init's exit event")
    received = shims.events.received()
    assert received[-1] == "exit c1"
    for name in names:
        expected = ["exec-added", "exec-started", "exit"] if name in started else ["exec-added"]
        assert [entry.split()[0] for entry in received if entry.split()[1] == name] == expected
    shim.delete()


def test_concurrent_kills(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())

    def kill(number: int) -> int:
        try:
            shim.kill(9 if number % 2 else 15)
        except StatusError as error:
            return error.code
        return status.OK

    with ThreadPoolExecutor(16) as pool:
        codes = set(pool.map(kill, range(32)))
    assert codes <= {status.OK, status.NOT_FOUND}
    shim.wait()
    shim.delete()
    shims.events.expect(["create c1", "start c1", "exit c1", "delete c1"])
