"""The process that `wine` runs inside Wine, in Python for Windows: only Windows programs can open named pipes.

A JSON line on stdin requests one lifecycle of a container: {"program", "directory", "id", "isolated", "environment"}.
Lines on stdout are the responses: {"idle": …} while the container runs, so that the caller can sample the shim's memory
before it sends any line; and then {"steps": {name: [begin, end]}}, in seconds since the epoch by a monotonic clock.
{"listening": PIPE} gets a response when a process listens on the pipe. Standard library only.
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
TIMEOUT = 60.0


class Steps:
    """Begin and end of each step."""

    def __init__(self) -> None:
        self.times: dict[str, tuple[float, float]] = {}
        self._epoch = time.time() - time.perf_counter()

    def measure(self, name: str, call: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = call()
        self.times[name] = (self._epoch + begin, self._epoch + time.perf_counter())
        return result


def run_lifecycle(driver: Any, scenarios: Any, events: Any, request: dict[str, Any]) -> dict[str, Any]:
    extra: dict[str, Any] = {"windows": {"hyperv": {}}} if request["isolated"] else {}
    fields = {"options": scenarios.isolated()} if request["isolated"] else {}
    shim = driver.Shim(request["program"], request["directory"], request["id"], COMMAND, events, **extra)
    if request["isolated"]:
        scenarios.boot_image(request["directory"])
    shim.environment.update(request["environment"])
    steps = Steps()
    task = steps.measure("start", shim.start)
    steps.measure("Connect", task.connect)
    steps.measure("Create", lambda: task.create(**fields))
    steps.measure("Start", task.start)
    steps.measure("State", task.state)
    respond({"idle": request["id"]})
    sys.stdin.readline()
    steps.measure("Kill", lambda: task.kill(KILL))
    steps.measure("Wait", task.wait)
    steps.measure("Delete", task.delete)
    scenarios.shut_down(task)
    if not shim.wait_exited():
        raise TimeoutError(f"the shim of {request['id']} does not exit")
    steps.measure("delete", shim.delete)
    return {"steps": steps.times}


def wait_listening(driver: Any, pipe: str) -> dict[str, Any]:
    end = time.monotonic() + TIMEOUT
    while not driver.endpoint.exists(pipe):
        if time.monotonic() > end:
            raise TimeoutError(f"no process listens on {pipe}")
        time.sleep(0.02)
    return {"listening": pipe}


def respond(response: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(response) + "\n")
    sys.stdout.flush()


def main() -> None:
    sys.path.insert(0, ROOT)
    driver = importlib.import_module("tests.wine.driver")
    scenarios = importlib.import_module("tests.wine.shim_scenarios")
    events = driver.Events("bench")
    for line in sys.stdin:
        try:
            request = json.loads(line)
            pipe = request.get("listening")
            if pipe:
                respond(wait_listening(driver, pipe))
            else:
                respond(run_lifecycle(driver, scenarios, events, request))
        except Exception as error:  # a failed lifecycle is a violation; the run continues
            respond({"error": f"{type(error).__name__}: {error}"[:500]})
    os._exit(0)


if __name__ == "__main__":
    main()
