"""A shim v2 program that runs no container, for tests of programs that drive shims. It can inject faults.

    containerd-shim-fake-v1 [flags] start|delete

`FAKE_SHIM_FAULT`: `misorder` (publishes the exit before the start), `twice` (publishes the exit twice), `socket` (leaks
its socket), `process` (leaks a process), `refuse` (Create fails).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

from shim.api import events, task
from shim.api.events_ttrpc import Envelope, ForwardRequest
from shim.api.packing import pack
from shim.api.wellknown import Timestamp
from shim.api.wire import Message
from shim.ttrpc.client import Client
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import UNKNOWN, StatusError

ROOT = Path(__file__).resolve().parents[2]
EVENTS = "containerd.services.events.ttrpc.v1.Events"
SANDBOX = "io.kubernetes.cri.sandbox-id"
LIFETIME = 600


def write_program(directory: Path) -> Path:
    """Write the program under a name that containerd finds."""
    program = directory / "containerd-shim-fake-v1"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.fake_shim import main\nsys.exit(main(sys.argv))\n"
    )
    program.chmod(0o755)
    return program


class FakeShim:
    def __init__(self, id: str) -> None:
        self.id = id
        self.fault = os.environ.get("FAKE_SHIM_FAULT", "")
        self.exits: dict[tuple[str, str], threading.Event] = defaultdict(threading.Event)
        self.stopped = threading.Event()
        self.stdout: dict[str, str] = {}
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ["TTRPC_ADDRESS"])
        self._events = Client(connection)

    def publish(self, topic: str, event: Message) -> None:
        envelope = Envelope(timestamp=Timestamp(), namespace="bench", topic=f"/tasks/{topic}", event=pack(event))
        self._events.call(EVENTS, "Forward", ForwardRequest(envelope=envelope).encode(), timeout=20)

    def methods(self) -> dict[str, Method]:
        handlers = {
            "Connect": lambda call: task.ConnectResponse(shim_pid=os.getpid()).encode(),
            "Create": self.create, "Start": self.start, "Exec": self.exec, "Kill": self.kill, "Wait": self.wait,
            "Delete": self.delete, "Shutdown": self.shutdown,
        }  # fmt: skip
        empty = ("State", "Pids", "Stats", "CloseIO", "Pause", "Resume")
        return {name: Method.worker(handler) for name, handler in handlers.items()} | {
            name: Method.inline(lambda call: b"") for name in empty
        }

    def create(self, call: Call) -> bytes:
        if self.fault == "refuse":
            raise StatusError(UNKNOWN, "this fake refuses")
        request = task.CreateTaskRequest.decode(call.payload)
        self.stdout[request.id] = request.stdout
        self.publish("create", events.TaskCreate(container_id=request.id))
        return task.CreateTaskResponse().encode()

    def start(self, call: Call) -> bytes:
        request = task.StartRequest.decode(call.payload)
        if request.exec_id:
            event = events.TaskExecStarted(container_id=request.id, exec_id=request.exec_id)
            self.publish("exec-started", event)
            return task.StartResponse().encode()
        if self.fault == "misorder":
            self.exited(request.id, "")
        self.publish("start", events.TaskStart(container_id=request.id))
        if self.stdout[request.id]:
            with open(self.stdout[request.id], "wb", 0) as output:
                output.write(b"ready\n")
        return task.StartResponse().encode()

    def exited(self, id: str, exec_id: str) -> None:
        self.publish("exit", events.TaskExit(container_id=id, id=exec_id or id))

    def exec(self, call: Call) -> bytes:
        request = task.ExecProcessRequest.decode(call.payload)
        self.publish("exec-added", events.TaskExecAdded(container_id=request.id, exec_id=request.exec_id))
        return b""

    def kill(self, call: Call) -> bytes:
        request = task.KillRequest.decode(call.payload)
        if request.exec_id or self.fault != "misorder":
            for _ in range(2 if self.fault == "twice" else 1):
                self.exited(request.id, request.exec_id)
        self.exits[request.id, request.exec_id].set()
        return b""

    def wait(self, call: Call) -> bytes:
        request = task.WaitRequest.decode(call.payload)
        self.exits[request.id, request.exec_id].wait(60)
        return task.WaitResponse().encode()

    def delete(self, call: Call) -> bytes:
        request = task.DeleteRequest.decode(call.payload)
        if not request.exec_id:
            self.publish("delete", events.TaskDelete(container_id=request.id))
        return task.DeleteResponse().encode()

    def shutdown(self, call: Call) -> bytes:
        threading.Timer(0.05, self.stopped.set).start()
        return b""


def start(id: str) -> int:
    """Start one daemon per pod, or per container without a pod."""
    annotations = json.loads(Path("config.json").read_text()).get("annotations", {})
    pod = annotations.get(SANDBOX, id)
    path = str(Path.cwd().parent / f"{pod[-12:]}.sock")
    listener = socket.socket(socket.AF_UNIX)
    if pod == id:
        listener.bind(path)
        listener.listen(8)
    if pod != id or os.fork():
        print(f"unix://{path}", end="", flush=True)
        return 0
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    shim = FakeShim(id)
    if shim.fault == "process":
        subprocess.Popen(["sleep", str(LIFETIME)], start_new_session=True)
    server = Server({"containerd.task.v2.Task": shim.methods()})
    threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
    shim.stopped.wait(LIFETIME)
    if shim.fault != "socket":
        os.unlink(path)
    os._exit(0)


def main(argv: list[str]) -> int:
    if argv[-1] in ("-v", "-version"):
        print("fake:\n  Version: 1.0")
        return 0
    if argv[-1] == "start":
        return start(argv[argv.index("-id") + 1])
    sys.stdout.buffer.write(task.DeleteResponse().encode())
    return 0
