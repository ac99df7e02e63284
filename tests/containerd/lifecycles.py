"""The lifecycle of a container through containerd's API, and the same lifecycle with the shim killed at an HCS call.

A run without a fault counts the HCS calls of one lifecycle. Then, for every n, the emulator performs the nth call and
kills the shim before or after its result. The client may then get errors, but every call returns, and an ordinary
cleanup leaks nothing.
"""

from __future__ import annotations

from contextlib import suppress

from runhcs.containerd.client import Client, ContainerdError
from tests.containerd.node import Node


def run_lifecycle(tasks: Client, name: str) -> None:
    """Create, start, exec, kill, delete."""
    tasks.create_task(name)
    tasks.start(name)
    tasks.exec(name, "e1", {"args": ["cmd", "/c", "exit 3"], "cwd": "C:\\"})
    tasks.start(name, "e1")
    assert tasks.wait(name, "e1").status == 3
    tasks.delete_exec(name, "e1")
    tasks.exec(name, "e2", {"args": ["ping", "-t", "localhost"], "cwd": "C:\\"})
    tasks.start(name, "e2")
    tasks.kill(name, 9, "e2")
    tasks.kill(name, 9)
    tasks.wait(name)
    tasks.delete_task(name)


def clean_up(node: Node, tasks: Client, *names: str) -> None:
    """The cleanup of any client after an error."""
    for name in names:
        with suppress(ContainerdError):
            tasks.kill(name, 9)
        node.ctr("task", "delete", "--force", name, check=False)
        node.ctr("container", "rm", name)
    node.expect_clean()


def calls(node: Node) -> int:
    return sum("call" in entry for entry in node.emulator.journal())


def count_calls(node: Node, tasks: Client) -> int:
    name = node.name()
    node.create(name, "ping", "-t", "localhost")
    before = calls(node)
    run_lifecycle(tasks, name)
    count = calls(node) - before
    node.ctr("container", "rm", name)
    node.expect_clean()
    return count


def crash_at_every_call(node: Node, when: str, first: int, step: int) -> None:
    """Kill the shim at its HCS calls number `first`, `first + step` …, `before` or `after` (`when`) the result. If pods
    share a daemon, another one runs meanwhile, and nothing of it is leaked either."""
    with node.client() as tasks:
        last = count_calls(node, tasks)
        assert last > 20, "a lifecycle has more HCS calls than that"
        survived = []
        for nth in range(first, last + 2, step):
            name = node.name()
            neighbours = [node.name()] if node.scope else []
            for neighbour in neighbours:
                node.detach(neighbour)
            node.create(name, "ping", "-t", "localhost")
            node.emulator.fault("*", nth=nth, kill_client=when)
            try:
                run_lifecycle(tasks, name)
                survived.append(nth)
            except ContainerdError:
                pass
            node.emulator.control("fault-clear")
            clean_up(node, tasks, name, *neighbours)
        # Calls come from several threads, so their number varies by a few.
        assert all(nth > last - 8 for nth in survived), f"of {last} calls, the shim survived {survived}"
