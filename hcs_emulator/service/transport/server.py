"""The socket that native libraries connect to.

One event loop serves all clients. Each client is a connection: its frames become calls of a Dispatcher, started in the
order sent and answered in completion order. A client that misbehaves (invalid frames, death during a call, unread
responses, too many calls) affects only itself.

asyncio's streams cannot pass descriptors, which process calls need, so the sockets use add_reader and add_writer.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from hcs_emulator.service.transport.unix_socket import listening_socket
from hcs_emulator.service.transport.wire import Reply, Request, RequestReader, WireError, encode_event, encode_reply

__all__ = ["Client", "Dispatcher", "Reply", "Request", "Server", "serve"]

MAX_CLIENTS = 4096
# Each wait is a call. More calls are refused; not reading them could block the call that ends the waits.
MAX_CALLS_PER_CLIENT = 8192
PAUSE_READING_AT = 1 << 20  # unsent bytes
DROP_AT = 256 << 20
RECEIVE_SIZE = 256 << 10

E_UNEXPECTED = 0x8000FFFF
ERROR_NO_SYSTEM_RESOURCES = 0x800705AA
_WAITS = frozenset({"HcsWaitForComputeSystemExit", "HcsWaitForProcessExit"})


class Dispatcher(Protocol):
    """What a server passes its calls to."""

    async def call(self, client: Client, request: Request) -> Reply: ...

    def disconnected(self, client: Client) -> None:
        """Close all handles of the client.

        Running calls are not cancelled (except waits for an exit), as HCS finishes what a dead client started. When
        such a call returns a handle, disconnected() is called again, so that no handle of the client stays open.
        """


class Client:
    """One connection of a native library."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid, self.uid, _ = struct.unpack("3i", credentials)
        self.connected = True
        self._server = server
        self._socket = sock
        self._reader = RequestReader()
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._unsent: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._unsent_bytes = 0
        self._reading = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._readable)

    def send_event(self, handle: int, event_type: int, document: str | None = None) -> None:
        """Queue an event; does nothing when the client is disconnected."""
        self._send(encode_event(handle, event_type, document), ())

    def disconnect(self) -> None:
        """Close the connection; for the client this looks like the death of the service."""
        if not self.connected:
            return
        self.connected = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        for task, call in self._tasks.items():
            if call in _WAITS:
                task.cancel()
        self._server.forget(self)
        self._server.dispatcher.disconnected(self)

    def kill(self) -> None:
        """Kill the client's process."""
        if self.connected:
            os.kill(self.pid, signal.SIGKILL)

    def cancel_calls(self) -> list[asyncio.Task[None]]:
        """Cancel all running calls at the stop of the service; the tasks to wait for."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    def _readable(self) -> None:
        try:
            received = self._socket.recv_into(self._server.buffer)
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if not received:
            self.disconnect()
            return
        try:
            for request_id, request in self._reader.feed(self._server.buffer[:received]):
                if self.connected:
                    self._begin(request_id, request)
        except WireError as error:
            print(f"client {self.pid} dropped: {error}", file=sys.stderr, flush=True)
            self.disconnect()

    def _begin(self, request_id: int, request: Request) -> None:
        if len(self._tasks) >= MAX_CALLS_PER_CLIENT:
            message = f"{MAX_CALLS_PER_CLIENT} calls of this process are running: wait for some to finish"
            self._answer(request_id, _failure(ERROR_NO_SYSTEM_RESOURCES, message))
            return
        task = self._loop.create_task(self._run(request_id, request))
        self._tasks[task] = request.call
        task.add_done_callback(self._tasks.pop)

    async def _run(self, request_id: int, request: Request) -> None:
        try:
            reply = await self._server.dispatcher.call(self, request)
        except Exception as error:
            traceback.print_exc()
            reply = _failure(E_UNEXPECTED, f"the emulator failed in {request.call}: {error!r}; see service.log")
        self._answer(request_id, reply)
        if reply.handle and not self.connected:
            self._server.dispatcher.disconnected(self)

    def _answer(self, request_id: int, reply: Reply) -> None:
        descriptors = tuple(descriptor for descriptor in reply.streams if descriptor is not None)
        self._send(encode_reply(request_id, reply), descriptors)

    def _send(self, frame: bytes, descriptors: tuple[int, ...]) -> None:
        if not self.connected:
            _close_all(descriptors)
            return
        self._unsent.append((memoryview(frame), descriptors))
        self._unsent_bytes += len(frame)
        if len(self._unsent) == 1:
            self._flush()
        else:
            self._watch()
        if self._unsent_bytes > DROP_AT:
            print(f"client {self.pid} dropped: it does not read its responses", file=sys.stderr, flush=True)
            self.disconnect()

    def _flush(self) -> None:
        while self._unsent:
            frame, descriptors = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self._socket.sendmsg([frame], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # too many descriptors in flight: clients have to read some first
                    self._loop.remove_writer(self._socket)
                    self._loop.call_later(0.01, self._flush_if_connected)
                    return
                self.disconnect()
                return
            _close_all(descriptors)
            self._unsent_bytes -= sent
            if sent == len(frame):
                self._unsent.popleft()
            else:
                self._unsent[0] = (frame[sent:], ())
        self._watch()

    def _flush_if_connected(self) -> None:
        if self.connected:
            self._flush()

    def _watch(self) -> None:
        if self._unsent:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)
        reading = self._unsent_bytes < PAUSE_READING_AT
        if reading != self._reading:
            self._reading = reading
            if reading:
                self._loop.add_reader(self._socket, self._readable)
            else:
                self._loop.remove_reader(self._socket)


class Server:
    """A listening socket and its clients."""

    def __init__(self, path: str, dispatcher: Dispatcher, sock: socket.socket, lock: int) -> None:
        self.path = path
        self.dispatcher = dispatcher
        self.clients: set[Client] = set()
        # One for all: a large one for every read would fragment the heap, since only its begin is used.
        self.buffer = memoryview(bytearray(RECEIVE_SIZE))
        self._socket = sock
        self._lock = lock
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._acceptable)

    async def close(self) -> None:
        """Stop listening, disconnect all clients, and wait until their calls have ended."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(FileNotFoundError):  # the whole directory may have been removed
            os.unlink(self.path)
        self._loop.remove_reader(self._socket)
        self._socket.close()
        running = [task for client in self.clients for task in client.cancel_calls()]
        for client in list(self.clients):
            client.disconnect()
        if running:
            await asyncio.wait(running, timeout=10)
        os.close(self._lock)

    def forget(self, client: Client) -> None:
        self.clients.discard(client)

    def _acceptable(self) -> None:
        for _ in range(64):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                print(f"cannot accept a client: {error}", file=sys.stderr, flush=True)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(0.1, self._resume)
                return
            sock.setblocking(False)
            client = Client(self, sock)
            self.clients.add(client)
            if client.uid not in (os.geteuid(), 0) or len(self.clients) > MAX_CLIENTS:
                client.disconnect()

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket, self._acceptable)


async def serve(path: str | os.PathLike[str], dispatcher: Dispatcher) -> Server:
    """Listen at path, accessible to this user only. Raises FileExistsError when another service listens there.

    The lock decides which service runs, not the socket file: a stale file of a killed service is replaced.
    """
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise FileExistsError(errno.EEXIST, "another emulator service runs here; stop it first", path) from error
    try:
        with listening_socket(path) as sock:
            sock.listen(1024)
            sock.setblocking(False)
    except OSError:
        os.close(lock)
        raise
    return Server(path, dispatcher, sock, lock)


def _failure(code: int, message: str) -> Reply:
    events = [{"Message": message, "Source": "emulator"}]
    document = {"Error": code - (1 << 32), "ErrorMessage": message, "ErrorEvents": events}
    return Reply(hresult=code, document=json.dumps(document))


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
