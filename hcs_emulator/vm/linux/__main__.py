"""The worker of a Linux VM: `python -m hcs_emulator.vm.linux FD`, started by the service with a channel to it at
descriptor FD. The messages are those of service/virtual_machine/worker.py.

It has threads and no asyncio: a VM starts in a fraction of the time that the import would take.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux import syscalls
from hcs_emulator.vm.linux.machine import Machine


class Worker:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._machine: Machine | None = None
        self._watching: threading.Thread | None = None
        self._stopping = False
        self._requests: dict[str, Callable[[dict[str, Any]], None]] = {
            "start": self._start,
            "resources": lambda request: self._running.change_resources(request["resources"]),
            "limits": lambda request: self._running.set_limits(request["limits"]),
            "faults": lambda request: self._running.faults.replace(request["faults"]),
            "pause": lambda _: self._running.freeze(True),
            "resume": lambda _: self._running.freeze(False),
        }

    @property
    def _running(self) -> Machine:
        assert self._machine is not None
        return self._machine

    def send(self, **message: Any) -> None:
        with self._lock:
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def run(self) -> None:
        """Handle requests one after the other until the service closes the channel, which stops the VM."""
        try:
            for line in self._channel.makefile("rb"):
                self._handle(json.loads(line))
        except ConnectionError:
            pass  # the service was killed

    def _handle(self, request: dict[str, Any]) -> None:
        try:
            self._requests[request["request"]](request)
        except Exception as error:  # a failing request must not stop the VM; the service gets the reason
            self.send(id=request["id"], error=f"{type(error).__name__}: {error}")
        else:
            self.send(id=request["id"])
            if request["request"] == "start":  # only now: a VM that stops at once has started
                self._watching = threading.Thread(target=self._watch, daemon=True)
                self._watching.start()

    def _start(self, request: dict[str, Any]) -> None:
        self._machine = Machine(request["settings"], self.send)
        self._machine.start()

    def _watch(self) -> None:
        shut_down = self._running.wait()
        if self._stopping:
            return
        if shut_down:
            self.send(shut_down=True)
        os._exit(0)  # the service removes what is left

    def stop(self) -> None:
        """The service has gone: stop the VM and leave nothing behind."""
        self._stopping = True
        if self._machine is not None:
            self._machine.stop()
            if self._watching is not None:
                self._watching.join()
            self._machine.remove_cgroups()


def main() -> None:
    # A worker that was stopped with its paused VM goes on, finds its channel closed and cleans up.
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGCONT)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    worker = Worker(channel)
    worker.run()
    worker.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
