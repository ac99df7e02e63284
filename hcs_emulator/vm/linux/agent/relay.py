"""Relays between the streams of a process and the connections to the host.

A process without a terminal has pipes. Every end of a stream is a half close: after the end of the output the agent
shuts its connection down for writing and waits until the host has closed it, so that the host has read everything when
it learns of the exit. A process with a terminal has a pty, whose connections are closed without that handshake.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import termios
import threading
from collections.abc import Iterable

from hcs_emulator.vm.linux.agent import background, log, vsock

PIECE = 1 << 16
_SPLICE_PIECE = 1 << 20


class Connections:
    """The host's connections of a process; a stream that the host does not want is None."""

    def __init__(self) -> None:
        self.stdin: socket.socket | None = None
        self.stdout: socket.socket | None = None
        self.stderr: socket.socket | None = None

    @classmethod
    def dial(cls, ports: dict[str, int | None]) -> Connections:
        """Connect every wanted stream, in the order in, out, err."""
        connections = cls()
        try:
            for name in ("stdin", "stdout", "stderr"):
                port = ports[name]
                if port is not None:
                    setattr(connections, name, vsock.dial(port, name))
        except BaseException:
            connections.close()
            raise
        return connections

    def close(self) -> None:
        for connection in (self.stdin, self.stdout, self.stderr):
            if connection is not None:
                connection.close()
        self.stdin = self.stdout = self.stderr = None


def _splice(source: int, target: int, connection: socket.socket) -> None:
    """From or to a pipe until the end of the source or an error; data moves in the kernel.

    The kernel holds the pipe's lock while a splice waits for a socket, and a process at the other end of the pipe could
    not even be killed then. So the socket does not block, and the waiting is done by poll.
    """
    poll = select.poll()
    poll.register(connection, select.POLLIN if connection.fileno() == source else select.POLLOUT)
    connection.setblocking(False)
    try:
        while True:
            try:
                if not os.splice(source, target, _SPLICE_PIECE):
                    return
            except BlockingIOError:
                poll.poll()
    finally:
        connection.setblocking(True)


def _copy(source: int, target: int, tee: int | None = None) -> None:
    """Until the end of the source or an error."""
    while data := os.read(source, PIECE):
        _write(target, data)
        if tee is not None:
            _write(tee, data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class PipeRelay:
    """`wanted` are the streams that get a pipe; others are /dev/null for the process."""

    def __init__(self, wanted: Iterable[str] = ("stdin", "stdout", "stderr")) -> None:
        self.connections = Connections()
        self.tee: int | None = None
        self._threads: list[threading.Event] = []
        self._inner: dict[str, int] = {}  # ends of the process
        self._outer: dict[str, int] = {}  # ends of the agent
        for name in wanted:
            read, write = os.pipe2(os.O_CLOEXEC)
            self._inner[name], self._outer[name] = (read, write) if name == "stdin" else (write, read)

    def inner(self, name: str) -> int | None:
        return self._inner.get(name)

    def close_inner(self) -> None:
        """The process has its own copies."""
        for descriptor in self._inner.values():
            os.close(descriptor)
        self._inner.clear()

    def start(self, connections: Connections) -> None:
        """Relay from now on. A pipe without a connection is closed: stdin is at its end, output fails."""
        self.connections = connections
        for name in [name for name in self._outer if getattr(connections, name) is None]:
            os.close(self._outer.pop(name))
        if connections.stdin is not None:
            self._threads.append(background.start(self._relay_input))
        for name in ("stdout", "stderr"):
            if getattr(connections, name) is not None:
                self._threads.append(background.start(self._relay_output, name))

    def _relay_input(self) -> None:
        assert self.connections.stdin is not None
        pipe = self._outer["stdin"]
        try:
            _splice(self.connections.stdin.fileno(), pipe, self.connections.stdin)
        except OSError as error:
            log.debug("error copying stdin to pipe", error=str(error))
        finally:
            os.close(self._outer.pop("stdin"))

    def _relay_output(self, name: str) -> None:
        connection: socket.socket = getattr(self.connections, name)
        try:
            if self.tee is None:
                _splice(self._outer[name], connection.fileno(), connection)
            else:
                _copy(self._outer[name], connection.fileno(), self.tee)
        except OSError as error:
            log.error("error copying from pipe", file=name, error=str(error))
        # The pipe stays open until the process has exited, also when the host closed the connection before.
        _close_cleanly(connection, name)

    def wait(self) -> None:
        """The process has exited: wait for the rest of its output, and until the host has closed its connections."""
        if self.connections.stdin is not None:
            _shut_down(self.connections.stdin, socket.SHUT_RD)
        for ended in self._threads:
            ended.wait()
        self.close()

    def close(self) -> None:
        self.close_inner()
        for descriptor in self._outer.values():
            os.close(descriptor)
        self._outer.clear()
        self.connections.close()
        if self.tee is not None:
            os.close(self.tee)
            self.tee = None


def _close_cleanly(connection: socket.socket, name: str) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1):
            log.error("error reading for clean close", file=name, error="unexpected data in socket")
    except OSError as error:
        log.error("error reading for clean close", file=name, error=str(error))


def _shut_down(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        pass  # the host has closed it


class TtyRelay:
    """`master` is the pty's descriptor."""

    def __init__(self, master: int) -> None:
        self.connections = Connections()
        self.tee: int | None = None
        self._master = master
        self._lock = threading.Lock()
        self._closed = False
        self._threads: list[threading.Event] = []

    def start(self, connections: Connections) -> None:
        self.connections = connections
        if connections.stdin is not None:
            self._threads.append(background.start(self._relay_input))
        if connections.stdout is not None:
            self._threads.append(background.start(self._relay_output))

    def _relay_input(self) -> None:
        assert self.connections.stdin is not None
        try:
            _copy(self.connections.stdin.fileno(), self._master)
        except OSError as error:
            log.debug("error copying stdin to pty", error=str(error))

    def _relay_output(self) -> None:
        assert self.connections.stdout is not None
        try:
            _copy(self._master, self.connections.stdout.fileno(), self.tee)
        except OSError as error:
            if error.errno != errno.EIO:  # no process has the terminal any more
                log.error("error copying pty to stdout", error=str(error))

    def resize(self, height: int, width: int) -> None:
        with self._lock:
            if not self._closed:
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def wait(self) -> None:
        if self.connections.stdin is not None:
            _shut_down(self.connections.stdin, socket.SHUT_RD)
        for ended in self._threads:
            ended.wait()
        self.close()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._master)
        self.connections.close()
        if self.tee is not None:
            os.close(self.tee)
            self.tee = None
