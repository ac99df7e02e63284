"""`runhcs top` on real shims: as text in a pipe, and in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.agent import Agent
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.runhcs_tools import ToolShims
from tests.support.vm_image import SLEEP, VmShims

SECONDS = 60.0


class Screen:
    """`runhcs top` in a pseudo terminal."""

    def __init__(self, tools: ToolShims, columns: int = 140, lines: int = 40) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        env = tools.env | {"TERM": "xterm"}
        env.pop("COLUMNS", None)
        env.pop("LINES", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runhcs", "top", "--interval", "0.5", *tools.places],
            env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        self.output = ""

    def press(self, keys: str) -> None:
        self.output = ""
        os.write(self._ours, keys.encode())

    def expect(self, *texts: str) -> None:
        """Wait until all these texts have been written since the last key."""
        deadline = time.monotonic() + SECONDS
        while not all(text in self.output for text in texts):
            assert time.monotonic() < deadline, f"no {texts} in {self.output[-3000:]!r}"
            if select.select([self._ours], [], [], 1.0)[0]:
                self.output += os.read(self._ours, 1 << 16).decode("utf-8", "replace")

    def end(self) -> None:
        self.press("q")
        self.expect("\x1b[?1049l")
        assert self.process.wait(SECONDS) == 0
        assert termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def agent(tools: ToolShims) -> Iterator[Agent]:
    agent = Agent(tools)
    yield agent
    agent.close()


def test_text_has_pods_containers_vms_and_errors(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    vms = VmShims(emulator, tools)
    vms.run_in(vms.pod(), "c1", *SLEEP)
    emulator.fault("HcsStartComputeSystem", error=0x80370109)
    shim = tools.start("bad", tools.spec(*SLEEP))
    shim.create(rootfs=tools.rootfs())
    with pytest.raises(Exception, match="80370109"):
        shim.start()
    agent.expect(1, "runhcs_rpc_errors_total", method="Start")
    lines = tools.runhcs("top", "--interval", "0.5").splitlines()
    assert lines[0].startswith("1 pods, 2 containers (2 tasks running), 1 VMs, 1 recent errors")
    cells = {line.split()[2]: line.split() for line in lines[3:7]}
    assert cells["pod"][:5] == ["pod", "tests", "pod", "running", "hypervisor"]
    assert cells["c1"][:5] == ["container", "tests", "c1", "running", "hypervisor"]
    assert cells["pod@vm"][0] == "vm" and cells["pod@vm"][6] != "-"
    text = "\n".join(lines)
    assert "bad: Start: HCS_E_CONNECTION_TIMEOUT (0x80370109)" in text, text
    slowest = text.partition("Slowest HCS operations and guest messages")[2].partition("Recent errors")[0]
    assert "hcs::System::Start  pod" in slowest and "  guest " in slowest, text
    found = tools.json("top", "--interval", "0.5")
    assert {row["id"]: row["cpu_percent"] is not None for row in found["rows"]}["pod@vm"]


def test_call_in_progress_is_shown(tools: ToolShims, agent: Agent, emulator: Emulator) -> None:
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.create(rootfs=tools.rootfs())
    emulator.fault("HcsStartComputeSystem", delay=5)
    thread = threading.Thread(target=shim.start)
    thread.start()
    try:
        eventually(lambda: "Start since" in tools.runhcs("top", "--interval", "0.5"), "the call", interval=0.1)
    finally:
        thread.join()


def test_text_without_agent_has_the_shims_and_the_next_step(tools: ToolShims) -> None:
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    text = tools.runhcs("top", "--interval", "0.5")
    assert "c1" in text and "start it with `runhcs agent`" in text


def test_terminal_shows_details_and_is_restored(tools: ToolShims, agent: Agent) -> None:
    for name in ("c1", "c2"):
        shim = tools.start(name, tools.spec(*SLEEP))
        shim.run(rootfs=tools.rootfs())
    agent.expect(2, "runhcs_rpc_duration_seconds_count", method="Start")
    screen = Screen(tools)
    try:
        screen.expect("2 containers", "t timeline")
        screen.press("\x1b[B")
        screen.expect("\x1b[7mcontainer  tests      c2")
        screen.press("t")
        screen.expect("tests/c2, process isolation", "hcs::System::Start")
        screen.press("q")
        screen.expect("t timeline")
        screen.press("s")
        screen.expect("tests/c2", "Workers._run")
        screen.press("\x1b[6~")
        screen.expect("serve.py")
        screen.press("q")
        screen.expect("t timeline")
        screen.press("i")
        screen.expect("state: running")
        screen.press("q")
        screen.expect("t timeline")
        screen.end()
    finally:
        screen.close()
