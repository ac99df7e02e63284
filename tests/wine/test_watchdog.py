"""What is collected when a program under Wine does not exit in time."""

from __future__ import annotations

import os
from pathlib import Path

from tests.wine.node import Node
from tests.wine.watchdog import threads


def test_threads_of_a_process_are_listed() -> None:
    program = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    text = threads([os.getpid()])
    assert f"{os.getpid()} {program}" in text and "syscall" in text


def test_program_that_does_not_exit_is_killed_and_reported(node: Node) -> None:
    name = node.new_name()
    node.run_detached(name)
    done = node.machine.run("cmd", "/c", "ping -n 600 127.0.0.1 >nul", timeout=2)
    text = done.stdout.decode(errors="replace")
    assert done.returncode == -9 and "killed after 2 s" in text
    assert "containerd.exe" in text and f"shims of C:\\{node.name}\\state" in text
    assert "goroutine 1 [" in text, "the goroutines of containerd"
    assert "service.py" in text or "serve.py" in text, "the stacks of the shim"
    node.kill(name)
    node.remove(name)
    node.expect_clean()
