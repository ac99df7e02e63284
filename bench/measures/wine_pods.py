"""The process that `wine_scaling` runs inside Wine, in Python for Windows: only Windows programs can open named pipes.

A JSON line on stdin is a request, a line on stdout its response; an error is {"error": text}.

- {"start": {"program", "directory", "id", "scope", "command", "environment"}} starts a pod, a sandbox and a container
  with this command. The response has the pipe of its shim, and three times in seconds since the epoch: the begin of
  `start`, and when the sandbox and the container run.
- {"stats": [ID, …], "seconds"} calls Stats of sandbox and container of each pod, evenly over the seconds. The
  response has the seconds until the last response.
- {"output": [ID, …], "program", "size"} runs the writer of wine_program.c as another process of each container, and its
  reader. The response has the bytes that arrived and the seconds.
- {"stop": ID} ends a pod.

It keeps the two connections of a pod open, as containerd does. Standard library only.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROLE, SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
SCOPE = "io.microsoft.container.shim-scope"
KILL = 9
STOPPED = 3
READER_TIMEOUT = 150.0


class Pod:
    """A sandbox and its container."""

    def __init__(self, events: Any, request: dict[str, Any]) -> None:
        self.id = request["id"]
        self._request = request
        self._events = events
        self._shims: list[Any] = []
        self.tasks: list[Any] = []

    def start(self) -> dict[str, Any]:
        sandbox, container = self._shim(self.id, "sandbox"), self._shim(f"{self.id}-1", "container")
        epoch = time.time() - time.perf_counter()
        times = [time.perf_counter()]
        for shim in (sandbox, container):
            self._run(shim)
            times.append(time.perf_counter())
        return {"pipe": sandbox.address, "times": [epoch + one for one in times]}

    @property
    def container(self) -> Any:
        return self.tasks[1]

    def _shim(self, id: str, role: str) -> Any:
        driver = importlib.import_module("tests.wine.driver")
        annotations = {ROLE: role, SANDBOX: self.id}
        if self._request["scope"]:
            annotations[SCOPE] = self._request["scope"]
        request = self._request
        shim = driver.Shim(
            request["program"], request["directory"], id, request["command"], self._events, annotations=annotations
        )
        shim.environment.update(request["environment"])
        self._shims.append(shim)
        return shim

    def _run(self, shim: Any) -> None:
        client = importlib.import_module("bench.measures.wine_client")
        client.start(shim)
        task = client.connect(shim)
        self.tasks.append(task)
        task.connect()
        task.create()
        task.start()

    def stop(self) -> None:
        scenarios = importlib.import_module("tests.wine.shim_scenarios")
        sandbox, container = self.tasks
        for task in (container, sandbox):
            state = task.state()
            if state.status == STOPPED:  # its program waits until it is terminated
                raise RuntimeError(f"the process {state.pid} of {state.id} exited by itself with {state.exit_status}")
            task.kill(KILL)
            task.wait()
            task.delete()
        scenarios.shut_down(sandbox)
        for task in self.tasks:
            task.client.close()
        if not self._shims[0].wait_exited():
            raise TimeoutError(f"the shim of {self.id} does not exit")
        for shim in reversed(self._shims):
            shim.delete()


def call_stats(pods: list[Pod], seconds: float) -> dict[str, Any]:
    begin = time.perf_counter()
    for number, pod in enumerate(pods):
        time.sleep(max(begin + number * seconds / len(pods) - time.perf_counter(), 0.0))
        for task in pod.tasks:
            task.stats()
    time.sleep(max(begin + seconds - time.perf_counter(), 0.0))
    return {"seconds": time.perf_counter() - begin}


def write_output(pods: list[Pod], program: str, size: int) -> dict[str, Any]:
    name = f"bench-output-{pods[0].id}-{time.perf_counter_ns()}"
    pipes = [rf"\\.\pipe\{name}-{number}" for number in range(len(pods))]
    reader = subprocess.Popen(
        [program, "read", name, *pipes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        assert reader.stdout is not None
        ready = reader.stdout.readline()
        if ready.strip() != "ready":
            raise RuntimeError(f"the reader of the output failed: {ready}")
        process = {"cwd": "C:\\", "commandLine": f"{program} write {name} {size}", "args": [], "user": {}}
        for pod, pipe in zip(pods, pipes, strict=True):
            pod.container.exec("writer", process, stdout=pipe)
            pod.container.start("writer")
        printed, _ = reader.communicate("\n", timeout=READER_TIMEOUT)
        for pod in pods:
            status = pod.container.wait("writer").exit_status
            pod.container.delete("writer")
            if status:
                raise RuntimeError(f"the writer of {pod.id} exited with {status}")
    finally:
        reader.kill()
        reader.wait()
    if reader.returncode:
        raise RuntimeError(f"the reader of the output failed: {printed}")
    received, seconds = printed.split()
    return {"bytes": int(received), "seconds": float(seconds)}


def respond(response: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(response) + "\n")
    sys.stdout.flush()


def handle(pods: dict[str, Pod], events: Any, request: dict[str, Any]) -> dict[str, Any]:
    if "start" in request:
        pod = Pod(events, request["start"])
        found = pod.start()
        pods[pod.id] = pod
        return found
    if "stats" in request:
        return call_stats([pods[one] for one in request["stats"]], request["seconds"])
    if "output" in request:
        return write_output([pods[one] for one in request["output"]], request["program"], request["size"])
    pods.pop(request["stop"]).stop()
    return {}


def main() -> None:
    sys.path.insert(0, ROOT)
    driver = importlib.import_module("tests.wine.driver")
    events = driver.Events("bench-pods")
    pods: dict[str, Pod] = {}
    for line in sys.stdin:
        try:
            respond(handle(pods, events, json.loads(line)))
        except Exception as error:  # a failed pod is a violation; the run continues
            respond({"error": f"{type(error).__name__}: {error}"[:500]})
    os._exit(0)


if __name__ == "__main__":
    main()
