"""A container's life by containerd's API, and the same life with the shim killed on the way.

A clean run tells how many calls to HCS a life has. Then, for every n, a life in which the nth call is the shim's last:
the emulator carries the call out and kills the caller, before or after its answer. From there on the client is not
told anything better than an error, but every call ends, and an ordinary clean-up leaves nothing.
"""

from __future__ import annotations

from contextlib import suppress

from runhcs.containerd.client import Client, ContainerdError
from tests.containerd.node import Node


def live(tasks: Client, name: str) -> None:
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


def clean_up(node: Node, tasks: Client, name: str) -> None:
    """What any client does after an error."""
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
    live(tasks, name)
    count = calls(node) - before
    node.ctr("container", "rm", name)
    node.expect_clean()
    return count


def crash_at_every_call(node: Node, when: str, first: int, step: int) -> None:
    """Lives that end at the call `first`, `first + step` … of the shim, `when` is `before` or `after` its answer."""
    with node.client() as tasks:
        last = count_calls(node, tasks)
        assert last > 20, "a life of a container has more calls than that"
        survived = []
        for nth in range(first, last + 2, step):
            name = node.name()
            node.create(name, "ping", "-t", "localhost")
            node.emulator.fault("*", nth=nth, kill_client=when)
            try:
                live(tasks, name)
                survived.append(nth)
            except ContainerdError:
                pass
            node.emulator.control("fault-clear")
            clean_up(node, tasks, name)
        # Calls come from several threads, so their number varies by a few.
        assert all(nth > last - 8 for nth in survived), f"of {last} calls, the shim survived {survived}"
