"""The node on Linux: the emulator, an image of its stand-in commands, and a launcher built for this run."""

from __future__ import annotations

import argparse
import os
import select
from pathlib import Path
from threading import Event

from runhcs import emulator
from runhcs.demo import DemoError
from runhcs.demo.workspace import Workspace, check_prerequisites, mounts_below
from runhcs.selftest.node import Node, NodeError

POLL_SECONDS = 0.1


def open_linux_node(args: argparse.Namespace, prefix: str) -> Node:
    """On the emulator in HCS_EMULATOR_DIR if it runs, else on a private one."""
    given = os.environ.get("HCS_EMULATOR_DIR", "")
    try:
        check_prerequisites()
        workspace = Workspace(prefix=f"runhcs-{prefix}-")
        try:
            directory = given if given and _runs(given) else str(workspace.hcs)
            if directory != given:
                workspace.start_emulator(has_journal=False)
        except BaseException:
            workspace.remove()
            raise
    except DemoError as error:
        raise NodeError(str(error)) from None
    workspace.env |= {"HCS_EMULATOR_DIR": directory, "RUNHCS_STANDBY": "0"}
    os.environ["HCS_EMULATOR_DIR"] = directory  # for the bindings of this process

    def close() -> None:
        workspace.stop_emulator()
        leaked = mounts_below(workspace.directory)
        workspace.remove()
        if leaked:
            raise NodeError(f"mounts are left: {', '.join(leaked)}")

    program = args.shim or str(workspace.launcher)
    layers = args.layers or [str(workspace.base)]
    return Node(workspace.directory, program, workspace.env, layers, emulator=directory, close=close)


def _runs(directory: str) -> bool:
    try:
        emulator.command(directory, "status")
    except emulator.ControlError:
        return False
    return True


class OutputPipe:
    """The reading end of stdout or stderr: a FIFO, read by a thread until the last writer closes it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = str(directory / name)
        os.mkfifo(self.path, 0o600)
        self._fifo = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self, is_closed: Event) -> bytes:
        """The next data; b"" at the end, and when `is_closed` is set."""
        waiting = select.poll()
        waiting.register(self._fifo, select.POLLIN)
        while not is_closed.is_set():
            for _, state in waiting.poll(POLL_SECONDS * 1000):
                return os.read(self._fifo, 1 << 16) if state & select.POLLIN else b""
        return b""

    def stop(self) -> None:
        """Nothing to do: a read ends soon after its event is set."""

    def close(self) -> None:
        os.close(self._fifo)
        Path(self.path).unlink(missing_ok=True)


class InputPipe:
    """The writing end of stdin."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = str(directory / name)
        os.mkfifo(self.path, 0o600)
        # Opened for both directions, so that neither this open nor the shim's waits for the other.
        self._fifo = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._is_open = True

    def write(self, data: bytes) -> None:
        """Blocks until the shim has taken the data, or until `close` in another thread."""
        waiting = select.poll()
        waiting.register(self._fifo, select.POLLOUT)
        while data and self._is_open:
            if waiting.poll(POLL_SECONDS * 1000):
                data = data[os.write(self._fifo, data[:4096]) :]

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._fifo)
            Path(self.path).unlink(missing_ok=True)
