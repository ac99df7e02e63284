"""Many containers, sequential and concurrent, and many execs in one: descriptors and threads do not grow, and nothing
leaks."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.containerd.node import Node
from tests.support.eventually import eventually

SEQUENTIAL = 50
CONCURRENT = 20


def run_one(node: Node, name: str, code: int) -> subprocess.CompletedProcess[str]:
    return node.run(name, node.spec("cmd", "/c", f"echo {name} & exit {code}"), "--rm")


def expect_released(node: Node, pid: int, before: tuple[int, int]) -> None:
    eventually(
        lambda: all(now <= then for now, then in zip(node.resources(pid), before, strict=True)),
        f"descriptors and threads of process {pid} down to {before}; it has {node.resources(pid)}",
    )


@pytest.mark.timeout(300)
def test_containers_sequentially(node: Node) -> None:
    run_one(node, node.name(), 0)
    node.expect_clean()
    before = node.resources(node.emulator.pid)
    for number in range(SEQUENTIAL):
        name = node.name()
        result = run_one(node, name, number)
        assert (result.returncode, result.stdout.split()) == (number, [name]), result.stderr
    node.expect_clean()
    expect_released(node, node.emulator.pid, before)


@pytest.mark.timeout(300)
def test_containers_concurrently(node: Node) -> None:
    run_one(node, node.name(), 0)
    node.expect_clean()
    before = node.resources(node.emulator.pid)
    names = [node.name() for _ in range(CONCURRENT)]
    with ThreadPoolExecutor(CONCURRENT) as pool:
        results = list(pool.map(run_one, [node] * CONCURRENT, names, range(CONCURRENT)))
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        assert (result.returncode, result.stdout.split()) == (number, [name]), result.stderr
        node.events.expect(name, [f"{topic} {name}" for topic in ("create", "start", "exit", "delete")])
    node.expect_clean()
    expect_released(node, node.emulator.pid, before)


@pytest.mark.timeout(300)
def test_many_containers_running(node: Node) -> None:
    names = [node.name() for _ in range(CONCURRENT)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(node.detach, names))
        assert node.tasks() == dict.fromkeys(names, "RUNNING")
        list(pool.map(node.remove, names))


@pytest.mark.timeout(300)
def test_many_execs_in_one_container(node: Node) -> None:
    name = node.name()
    node.detach(name)
    shim = node.shim_pid(name)

    def execute(number: int) -> subprocess.CompletedProcess[str]:
        return node.exec(name, f"e{number}", "cmd", "/c", f"echo {number} & exit {number + 10}")

    execute(0)
    before, emulator = node.resources(shim), node.resources(node.emulator.pid)
    with ThreadPoolExecutor(8) as pool:
        for number, result in enumerate(pool.map(execute, range(1, 41)), 1):
            assert (result.returncode, result.stdout.split()) == (number + 10, [str(number)]), result.stderr
    expect_released(node, shim, before)
    expect_released(node, node.emulator.pid, emulator)
    node.remove(name)
