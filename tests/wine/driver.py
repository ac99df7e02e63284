"""The driver of the tests under Wine, run by Python for Windows, because only Windows programs can open named pipes.

`python.exe driver.py EXE DIRECTORY SCENARIO`: EXE is the shim of the unpacked distribution. The result of the scenario
is written to DIRECTORY/result.json, because Wine may print messages of its own to the output. The driver connects to
the shim with the project's own client.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import _winapi  # noqa: E402

from runhcs.shim_driver import EventEndpoint, ShimCommands, ShimError, wait_until  # noqa: E402
from runhcs.task_events import read  # noqa: E402
from shim.platform.windows import endpoint  # noqa: E402
from shim.platform.windows.pipe import dial  # noqa: E402
from shim.ttrpc.server import Call  # noqa: E402
from shim.ttrpc.status import StatusError  # noqa: E402

TIMEOUT = 60.0


class Events(EventEndpoint):
    """containerd's endpoint for events."""

    def __init__(self, name: str) -> None:
        #: The kind and the message of each.
        self.messages: list[tuple[str, Any]] = []
        super().__init__(rf"\\.\pipe\driver-{name}.ttrpc")

    def _forward(self, call: Call) -> bytes:
        found = read(call.payload)
        assert found is not None, call.payload
        self.messages.append(found)
        return super()._forward(call)


class Pipe:
    """The client's end of a stream, which listens before Create, as with ctr."""

    def __init__(self, name: str, *, pause: float = 0.0, reads: bool = True) -> None:
        """With `reads` false it reads nothing until `read` is called. `pause` is the time between two reads."""
        self.path = rf"\\.\pipe\{name}"
        self.data = b""
        self._pause = pause
        self._reads = threading.Event()
        if reads:
            self.read()
        self._listener = endpoint.Listener(endpoint.ListeningPipe(self.path, endpoint.create(self.path, first=True)))
        self._stream: Any = None
        self._accepted = threading.Event()
        self._closed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._stream = self._listener.accept()
        self._accepted.set()
        self._reads.wait(TIMEOUT)
        while data := self._stream.recv(65536):
            self.data += data
            time.sleep(self._pause)
        self._closed.set()

    def read(self) -> None:
        self._reads.set()

    def write(self, data: bytes) -> None:
        assert self._accepted.wait(TIMEOUT)
        self._stream.sendall(data)

    def close(self) -> None:
        assert self._accepted.wait(TIMEOUT)
        self._stream.close()
        time.sleep(0.05)  # the reading thread stops using the handle
        self._stream.release()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def text(self) -> str:
        assert self._closed.wait(TIMEOUT), f"{self.path} is still open; so far {self.data!r}"
        return self.data.decode("utf-8", "replace")


class Shim(ShimCommands):
    """One container and its shim."""

    def __init__(
        self, program: str, directory: str, id: str, command: str, events: Events | None = None, **members: Any
    ) -> None:
        environment = dict(os.environ) if events is None else {**os.environ, "TTRPC_ADDRESS": events.address}
        super().__init__(
            program, id, os.path.join(directory, id), namespace="wine", address=r"\\.\pipe\none",
            environment=environment, publish_binary="none",
        )  # fmt: skip
        os.makedirs(self.bundle)
        self.write_spec(directory, command, members)

    def write_spec(self, directory: str, command: str, members: dict[str, Any]) -> None:
        """`members` are members of the spec; those of `windows` are merged with the layer folders."""
        layers = [os.path.join(directory, "base"), os.path.join(directory, f"scratch-{self.id}")]
        os.makedirs(os.path.join(layers[0], "Files"), exist_ok=True)
        os.makedirs(os.path.join(layers[1], "sandbox.vhdx.d"))
        with open(os.path.join(layers[1], "sandbox.vhdx"), "w") as file:
            file.write('{"Size": 1073741824}')
        spec = {
            "ociVersion": "1.1.0",
            "process": {"cwd": "C:\\", "commandLine": command, "args": [], "user": {}},
            "root": {"path": ""},
            **members,
            "windows": {"layerFolders": layers, **members.get("windows", {})},
        }
        with open(os.path.join(self.bundle, "config.json"), "w") as file:
            json.dump(spec, file)

    def wait_exited(self, timeout: float = TIMEOUT) -> bool:
        """Whether the daemon exits in time: its pipe disappears with it, and the bundle may be removed before."""
        return wait_until(lambda: not endpoint.exists(self.address), timeout)


def lifecycle(program: str, directory: str) -> Any:
    """start, Create, Start, output, exit code, Delete, Shutdown, delete, and the events."""
    events = Events("lifecycle")
    shim = Shim(program, directory, "lifecycle", "cmd /c echo hello from windows& exit 70000", events)
    out, err = Pipe("lifecycle-stdout"), Pipe("lifecycle-stderr")
    task = shim.start()
    created = task.create(stdout=out.path, stderr=err.path).pid
    pid = task.start()
    status = task.wait().exit_status
    text = out.text()
    deleted = task.delete().exit_status
    task.shutdown()
    exited = shim.wait_exited()
    response = shim.delete()
    remaining = sorted(os.listdir(shim.bundle))
    return {
        "address": shim.address, "created": created, "pid": pid, "status": status, "text": text, "deleted": deleted,
        "exited": exited, "response": len(response), "remaining": remaining, "events": events.topics,
        "stderr": err.text(),
    }  # fmt: skip


def stdin(program: str, directory: str) -> Any:
    """Input of the client reaches the process, and the close of the pipe closes its stdin."""
    shim = Shim(program, directory, "stdin", "cat")
    given, out, err = Pipe("stdin-stdin"), Pipe("stdin-stdout"), Pipe("stdin-stderr")
    task = shim.start()
    task.create(stdin=given.path, stdout=out.path, stderr=err.path)
    task.start()
    for number in range(1000):
        given.write(b"line %06d of many that go in and must come out\r\n" % number)
    given.close()
    status = task.wait().exit_status
    text = out.text()
    task.delete()
    task.shutdown()
    lines = text.splitlines()
    return {
        "status": status, "lines": len(lines), "last": lines[-1:], "stderr": err.text(), "size": len(text),
        "exited": shim.wait_exited(),
    }  # fmt: skip


def execs_and_kill(program: str, directory: str) -> Any:
    """A second process in a running container, then Kill."""
    shim = Shim(program, directory, "execs", "cmd /c ping -n 600 127.0.0.1")
    out = Pipe("execs-out")
    task = shim.start()
    task.create()
    task.start()
    process = {"cwd": "C:\\", "commandLine": "cmd /c echo second& exit 5", "args": [], "user": {}}
    task.exec("two", process, stdout=out.path)
    task.start("two")
    second = task.wait("two").exit_status
    text = out.text()
    task.delete("two")
    running = task.state().status
    task.kill(9)
    status = task.wait().exit_status
    missing = ""
    try:
        task.kill(9, "missing")
    except StatusError as error:
        missing = str(error)
    task.delete()
    task.shutdown()
    return {
        "second": second, "text": text, "running": running, "status": status, "missing": missing,
        "exited": shim.wait_exited(),
    }  # fmt: skip


def bundle_removed(program: str, directory: str) -> Any:
    """containerd removes the bundle as soon as Shutdown returns, while the shim is still exiting."""
    shim = Shim(program, directory, "bundle", "cmd /c exit 0")
    task = shim.start()
    task.create()
    task.delete()
    task.shutdown()
    problem = ""
    try:
        shutil.rmtree(shim.bundle)
    except OSError as error:
        problem = str(error)
    return {"problem": problem, "exited": shim.wait_exited()}


def squatted(program: str, directory: str) -> Any:
    """Another process already has the pipe name: `start` reports it and leaks nothing."""
    shim = Shim(program, directory, "squatted", "cmd /c exit 0")
    taken = endpoint.listen(endpoint.address_for("", "wine", "squatted"))
    try:
        shim.start()
    except ShimError as error:
        return {"error": str(error), "remaining": sorted(os.listdir(shim.bundle))}
    finally:
        taken.close()
    return {"error": "", "remaining": []}


def security_descriptor(handle: int) -> str:
    """The access control list of a kernel object, in SDDL."""
    import ctypes
    from ctypes import wintypes

    advapi32 = ctypes.windll.advapi32
    text, found = wintypes.LPWSTR(), ctypes.c_void_p()
    code = advapi32.GetSecurityInfo(wintypes.HANDLE(handle), 6, 4, None, None, None, None, ctypes.byref(found))
    assert code == 0, f"GetSecurityInfo returns {code}"
    convert = advapi32.ConvertSecurityDescriptorToStringSecurityDescriptorW
    assert convert(found, 1, 4, ctypes.byref(text), None)
    return str(text.value)


def descriptor(program: str, directory: str) -> Any:
    """The security descriptor of the shim's pipe."""
    shim = Shim(program, directory, "descriptor", "cmd /c exit 0")
    task = shim.start()
    handle = dial(shim.address, TIMEOUT)
    text = security_descriptor(handle)
    _winapi.CloseHandle(handle)
    task.shutdown()
    return {"text": text, "exited": shim.wait_exited()}


def main(*scenarios: Callable[[str, str], Any]) -> NoReturn:
    program, directory, name = sys.argv[1:]
    result = {one.__name__: one for one in scenarios}[name](program, directory)
    with open(os.path.join(directory, "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)
    os._exit(0)  # do not wait for threads of pipes that were not closed


if __name__ == "__main__":
    sys.modules["tests.wine.driver"] = sys.modules["__main__"]
    from tests.wine import shim_scenarios as scenarios

    main(lifecycle, stdin, execs_and_kill, bundle_removed, squatted, descriptor, *scenarios.ALL)
