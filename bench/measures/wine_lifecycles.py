"""What `bench wine` does inside Wine: run by Python for Windows, since only Windows programs can open named pipes.

A JSON line on stdin asks for one life of a container: {"program", "directory", "id", "isolated", "environment"}. Lines
on stdout answer: {"idle": …} while the container runs, so that whoever asked can look at the shim's memory and then
sends any line; and at the end {"steps": {name: [begin, end]}}, in seconds since the epoch by a clock that does not
jump. {"listening": PIPE} is answered when somebody listens there.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = "ping -n 600 127.0.0.1"
KILL = 9
PATIENCE = 60.0


class Steps:
    """When each step began and ended."""

    def __init__(self) -> None:
        self.times: dict[str, tuple[float, float]] = {}
        self._epoch = time.time() - time.perf_counter()

    def take(self, name: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = call()
        self.times[name] = (self._epoch + begin, self._epoch + time.perf_counter())
        return result


def live(driver: Any, scenarios: Any, events: Any, asked: dict[str, Any]) -> dict[str, Any]:
    extra: dict[str, Any] = {"windows": {"hyperv": {}}} if asked["isolated"] else {}
    fields = {"options": scenarios.isolated()} if asked["isolated"] else {}
    shim = driver.Shim(asked["program"], asked["directory"], asked["id"], COMMAND, events, **extra)
    if asked["isolated"]:
        scenarios.boot_image(asked["directory"])
    shim.environment.update(asked["environment"])
    steps = Steps()
    task = steps.take("start", shim.start)
    steps.take("Connect", task.connect)
    steps.take("Create", lambda: task.create(**fields))
    steps.take("Start", task.start)
    steps.take("State", task.state)
    say({"idle": asked["id"]})
    sys.stdin.readline()
    steps.take("Kill", lambda: task.kill(KILL))
    steps.take("Wait", task.wait)
    steps.take("Delete", task.delete)
    scenarios.shut_down(task)
    if not shim.gone():
        raise TimeoutError(f"the shim of {asked['id']} does not end")
    steps.take("delete", shim.delete)
    return {"steps": steps.times}


def wait(driver: Any, pipe: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while not driver.endpoint.exists(pipe):
        if time.monotonic() > end:
            raise TimeoutError(f"nobody listens on {pipe}")
        time.sleep(0.02)
    return {"listening": pipe}


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    sys.path.insert(0, ROOT)
    driver = importlib.import_module("tests.wine.driver")
    scenarios = importlib.import_module("tests.wine.shim_scenarios")
    events = driver.Events("bench")
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            listening = asked.get("listening")
            say(wait(driver, listening) if listening else live(driver, scenarios, events, asked))
        except Exception as error:  # one life that fails is a finding, not the end of the run
            say({"error": f"{type(error).__name__}: {error}"[:500]})
    os._exit(0)


if __name__ == "__main__":
    main()
