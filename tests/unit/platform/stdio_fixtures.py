"""Fixtures of the stdio tests: a client's FIFOs, and a process whose part the test takes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from shim.task.stdio.process_io import Stdio, open_stdio


class Process:
    """A process of the bindings, with our ends of its pipes. The test uses the process's ends (`inside`)."""

    def __init__(self) -> None:
        stdin_reader, self.stdin = os.pipe()
        self.stdout, stdout_writer = os.pipe()
        self.stderr, stderr_writer = os.pipe()
        self.inside = [stdin_reader, stdout_writer, stderr_writer]
        self.modified: list[dict[str, Any]] = []

    def modify(self, settings: dict[str, Any], timeout: float | None = None) -> None:
        self.modified.append(settings)

    def exit(self) -> None:
        for descriptor in self.inside:
            os.close(descriptor)
        self.inside = []

    def close_unused(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor is not None:
                os.close(descriptor)


class Lab:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: list[str] = []
        for name in ("in", "out", "err"):
            os.mkfifo(directory / name)
            self.paths.append(str(directory / name))
        self.stdin, self.stdout, self.stderr = self.paths
        self.opened: list[Stdio] = []
        self.processes: list[Process] = []

    def open(self, stdin: str = "", stdout: str = "", stderr: str = "", terminal: bool = False, **more: Any) -> Stdio:
        stdio = open_stdio(stdin, stdout, stderr, terminal, namespace="ns", id="c1", exec_id="", **more)
        self.opened.append(stdio)
        return stdio

    def start(self, stdio: Stdio) -> Process:
        process = Process()
        self.processes.append(process)
        for name, requested in stdio.requested_pipes().items():
            if not requested:
                os.close(getattr(process, name))
                setattr(process, name, None)
        stdio.attach(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.exit()
        for stdio in self.opened:
            stdio.close()
            stdio.close()


def reader(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


class Reader:
    """A client that reads a stream to EOF in a thread."""

    def __init__(self, path: str) -> None:
        self._received = b""
        self._descriptor = reader(path)
        os.set_blocking(self._descriptor, True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self._received = read_all(self._descriptor)

    def end(self) -> bytes:
        """All output, after EOF."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the stream has not ended"
        return self._received


def read_all(descriptor: int) -> bytes:
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def fill(descriptor: int) -> int:
    """Write until every pipe on the way is full; returns the number of bytes."""
    os.set_blocking(descriptor, False)
    written = 0
    stuck = 0
    while stuck < 20:
        try:
            written += os.write(descriptor, bytes(1 << 16))
            stuck = 0
        except BlockingIOError:
            stuck += 1
            time.sleep(0.005)
    return written
