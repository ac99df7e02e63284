"""The process that `wine_scaling` runs inside Wine, in Python for Windows: only Windows programs can open named pipes.

A JSON line on stdin is a request, a line on stdout its response; an error is {"error": text}.

- {"start": {"program", "directory", "id", "scope", "command", "environment"}} starts a pod, a sandbox and a container
  with this command. The response has the pipe of its shim, and the seconds until the sandbox and the container run.
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
READER_TIMEOUT = 150.0


class Connection:
    """A ttrpc client without a thread, since Wine gives every thread a megabyte: one call at a time."""

    def __init__(self, address: str) -> None:
        pipe = importlib.import_module("shim.platform.windows.pipe")
        self._core = importlib.import_module("shim.ttrpc.core")
        self._envelope = importlib.import_module("shim.ttrpc.envelope")
        self._status = importlib.import_module("shim.ttrpc.status")
        self._stream = pipe.PipeStream(pipe.dial(address, 30.0), 60.0)
        self._next = 1
        self._received = b""

    def call(self, service: str, method: str, payload: bytes, timeout: float | None = None) -> bytes:
        stream, self._next = self._next, self._next + 2
        route = self._envelope.encode_route(service, method)
        request = self._envelope.encode_request(route, payload, int((timeout or 60.0) * 1e9))
        self._stream.sendall(self._core.encode_frame(stream, self._core.REQUEST, 0, request))
        header = self._read(self._core.HEADER)
        size, answered = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
        code, text, response = self._envelope.decode_response(self._read(size))
        if answered != stream:
            raise RuntimeError(f"{method}: response to stream {answered}, not {stream}")
        if code:
            raise self._status.StatusError(code, text)
        return bytes(response)

    def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self._stream.recv(1 << 16)
            if not data:
                raise self._status.ClosedError("the shim has closed the connection")
            self._received += data
        found, self._received = self._received[:size], self._received[size:]
        return found

    def close(self) -> None:
        self._stream.release()


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
        begin = time.perf_counter()
        self._run(sandbox)
        running = time.perf_counter()
        self._run(container)
        return {"pipe": sandbox.address, "sandbox": running - begin, "pod": time.perf_counter() - begin}

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
        client = importlib.import_module("runhcs.task_client")
        done = shim.command("start")
        if done.returncode:
            raise RuntimeError((done.stderr + done.stdout).decode(errors="replace"))
        shim.address = done.stdout.decode().strip()
        task = client.TaskClient(Connection(shim.address), shim.id, shim.bundle)
        self.tasks.append(task)
        task.connect()
        task.create()
        task.start()

    def stop(self) -> None:
        scenarios = importlib.import_module("tests.wine.shim_scenarios")
        sandbox, container = self.tasks
        for task in (container, sandbox):
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
