"""The process that `wine` runs inside Wine, in Python for Windows: only Windows programs can open named pipes.

A JSON line on stdin requests one lifecycle of a container: {"program", "directory", "id", "kind", "boot",
"environment"}. Lines on stdout are the responses: {"idle": …} while the container runs, so that the caller can sample
the shim's memory before it sends any line; and then {"steps": {name: [begin, end]}}, in seconds since the epoch by a
monotonic clock. {"listening": PIPE} gets a response when a process listens on the pipe. Standard library only.
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
# As hcsshim up to v0.15.0-rc.3 names it; ours reads both names.
BOOT_FILES = "io.microsoft.virtualmachine.lcow.bootfilesrootpath"
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


def create_shim(request: dict[str, Any], events: Any) -> tuple[Any, dict[str, Any]]:
    """The shim with the bundle of one container, and further arguments of Create."""
    arguments = request["program"], request["directory"], request["id"]
    if request["kind"] == "linux":
        linux = importlib.import_module("tests.wine.lcow_driver")
        annotations = {BOOT_FILES: request["boot"]}
        shim = linux.LinuxShim(*arguments, "", events, annotations=annotations, args=linux.SLEEP)
        return shim, {"options": linux.linux()}
    driver = importlib.import_module("tests.wine.driver")
    scenarios = importlib.import_module("tests.wine.shim_scenarios")
    if request["kind"] == "process":
        return driver.Shim(*arguments, COMMAND, events), {}
    shim = driver.Shim(*arguments, COMMAND, events, windows={"hyperv": {}})
    scenarios.boot_image(request["directory"])
    return shim, {"options": scenarios.isolated()}


def run_exec(task: Any, process: dict[str, Any]) -> None:
    task.exec("probe", process)
    task.start("probe")
    status = task.wait("probe").exit_status
    if status:
        raise RuntimeError(f"the exec has exit status {status}")


def connect(client: Any, shim: Any) -> Any:
    """A new connection, and its first call."""
    task = client.connect(shim)
    task.connect()
    return task


def run_lifecycle(events: Any, request: dict[str, Any]) -> dict[str, Any]:
    client = importlib.import_module("bench.measures.wine_client")
    scenarios = importlib.import_module("tests.wine.shim_scenarios")
    shim, fields = create_shim(request, events)
    shim.environment.update(request["environment"])
    steps = Steps()
    options = fields["options"].encode() if fields else b""
    steps.measure("start", lambda: client.start(shim, options))
    task = steps.measure("Connect", lambda: connect(client, shim))
    steps.measure("Create", lambda: task.create(**fields))
    steps.measure("Start", task.start)
    steps.measure("State", task.state)
    if request["kind"] == "linux":
        linux = importlib.import_module("tests.wine.lcow_driver")
        steps.measure("Exec to exit", lambda: run_exec(task, linux.process("/bin/true")))
        task.delete("probe")
    respond({"idle": request["id"]})
    sys.stdin.readline()
    steps.measure("Pids", task.pids)
    steps.measure("Kill", lambda: task.kill(KILL))
    steps.measure("Wait", task.wait)
    steps.measure("Delete", task.delete)
    scenarios.shut_down(task)
    task.client.close()
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
    events = driver.Events("bench")
    for line in sys.stdin:
        try:
            request = json.loads(line)
            pipe = request.get("listening")
            if pipe:
                respond(wait_listening(driver, pipe))
            else:
                respond(run_lifecycle(events, request))
        except Exception as error:  # a failed lifecycle is a violation; the run continues
            respond({"error": f"{type(error).__name__}: {error}"[:500]})
    os._exit(0)


if __name__ == "__main__":
    main()
