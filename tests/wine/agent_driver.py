"""Runs `runhcs.exe agent`, which pip has installed or which the second zip has, beside a shim of the unpacked zip. Run
as driver.py is.

`python.exe agent_driver.py EXE DIRECTORY SCENARIO`
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from runhcs.shim_driver import wait_until
from tests.wine.driver import TIMEOUT, Events, Shim, main
from tests.wine.shim_scenarios import FOREVER, shut_down, wait_event

INSTALLED = r"C:\installed\Scripts\runhcs.exe"
UNPACKED = r"C:\agent_node\runhcs.exe"
RUNHCS = r"C:\node\runhcs.exe"


class Agent:
    def __init__(self, program: str, state: str) -> None:
        self._process = subprocess.Popen(
            [program, "agent", "--listen", "127.0.0.1:0", "--state", state],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        seen = ""
        found = None
        while found is None:
            line = self._process.stdout.readline()
            assert line, f"the agent exited: {seen}"
            seen += line
            found = re.search(r"metrics on (http://\S+/metrics)", line)
        self._url = found[1]

    def scrape(self) -> str:
        with urllib.request.urlopen(self._url, timeout=TIMEOUT) as answer:
            return str(answer.read().decode())

    def scrape_until(self, pattern: str) -> str:
        """The first scrape that matches, or the last one: reports of shims come later than their calls."""
        texts = [""]

        def matches() -> bool:
            texts.append(self.scrape())
            return re.search(pattern, texts[-1], re.MULTILINE) is not None

        wait_until(matches, TIMEOUT)
        return texts[-1]

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=TIMEOUT)

    def is_gone(self) -> bool:
        """After `close`: nothing of it serves metrics any more."""

        def refused() -> bool:
            try:
                self.scrape()
            except OSError:
                return True
            return False

        return wait_until(refused, TIMEOUT)


def runhcs(*arguments: str) -> str:
    done = subprocess.run(
        [RUNHCS, *arguments], capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def installed(program: str, directory: str) -> Any:
    return lifecycle(program, directory, Agent(INSTALLED, directory))


def unpacked(program: str, directory: str) -> Any:
    agent = Agent(UNPACKED, directory)
    return {**lifecycle(program, directory, agent), "gone": agent.is_gone()}


def lifecycle(program: str, directory: str, agent: Agent) -> Any:
    """A container that is killed: metrics while it runs and afterwards, and what the tools of the zip show."""
    try:
        events = Events("agent_lifecycle")
        # As containerd's task plugin does: the agent finds shims by their bundles.
        bundles = os.path.join(directory, "io.containerd.runtime.v2.task", "wine")
        shim = Shim(program, bundles, "observed", FOREVER, events)
        task = shim.start()
        task.create()
        task.start()
        running = agent.scrape_until(r'^runhcs_tasks\{.*state="running".*\} 1\.0')
        task.kill(9)
        task.wait()
        task.delete()
        wait_event(events, "/tasks/delete")
        shut_down(task)
        exited = shim.wait_exited()
        ended = agent.scrape_until(r'^runhcs_rpc_duration_seconds_count\{.*method="Delete".*\} 1\.0')
        shown = {name: runhcs(*arguments) for name, arguments in (
            ("events", ("events",)), ("trace", ("trace", "observed")), ("top", ("top", "--count", "1")),
        )}  # fmt: skip
        return {"running": running, "ended": ended, "exited": exited, **shown}
    finally:
        agent.close()


if __name__ == "__main__":
    main(installed, unpacked)
