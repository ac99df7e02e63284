"""Tools in the VM: one timeout for all of their output."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from shim.uvm.linux import commands as linux_commands
from shim.uvm.windows import commands


class Tool:
    """A process in the VM whose output the test writes."""

    def __init__(self, *_: Any) -> None:
        ours, self.theirs = socket.socketpair()
        self.stdout: int | None = ours.detach()
        self.stderr: int | None = None
        self.terminated = 0

    def wait(self, timeout: float) -> Any:
        assert timeout <= commands.TIMEOUT_SECONDS
        return SimpleNamespace(code=7)

    def terminate(self, timeout: float) -> None:
        self.terminated += 1

    def close(self) -> None:
        pass


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    tool = Tool()
    monkeypatch.setattr(commands, "VmProcess", lambda *_: tool)
    monkeypatch.setattr(linux_commands, "VmProcess", lambda *_: tool)
    yield tool
    tool.theirs.close()


def run_on_windows(timeout: float) -> tuple[int, str]:
    return commands.run_with_output(None, "x")  # type: ignore[arg-type]


def run_on_linux(timeout: float) -> tuple[int, str]:
    guest: Any = SimpleNamespace(vm=None, command_parameters=lambda arguments, directory: {})
    return linux_commands.run(guest, ["x"], timeout=timeout)


GUESTS = pytest.mark.parametrize("run", [run_on_windows, run_on_linux])


@GUESTS
def test_output_and_exit_code(tool: Tool, run: Callable[[float], tuple[int, str]]) -> None:
    tool.theirs.sendall(b"text")
    tool.theirs.close()
    assert run(60) == (7, "text")


@GUESTS
def test_dripping_tool_is_terminated_at_the_timeout(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, run: Callable[[float], tuple[int, str]]
) -> None:
    """A byte now and then must not begin a new timeout each time."""
    monkeypatch.setattr(commands, "TIMEOUT_SECONDS", 0.5)
    stopped = threading.Event()

    def drip() -> None:
        try:
            while not stopped.wait(0.05):
                tool.theirs.sendall(b"x")
        except OSError:
            pass  # the shim has closed its end

    dripping = threading.Thread(target=drip)
    dripping.start()
    begun = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            run(0.5)
        assert time.monotonic() - begun < 10 and tool.terminated == 1
    finally:
        stopped.set()
        dripping.join(60)
