"""Clients under Wine: the emulator's DLLs, connected over TCP on the loopback interface.

A client must know the secret in `<directory>/loopback`, a file that only its owner can read. A connection begins with
the secret and a ticket. Ticket 0 is a native library: its frames are those of Unix clients, except that descriptors
cannot be attached. Instead, a frame of kind 4 with a ticket for each stream precedes the response, and the library
opens a connection for each. The lowest bit of a ticket is set if the stream is an input of the process.

Paths in requests are Windows paths and are translated here (`paths`), so no other module needs to know about Wine.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import signal
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from hcs_emulator.service.transport.server import Client, Server
from hcs_emulator.service.transport.wire import Reply, Request, encode_reply
from hcs_emulator.service.wine.paths import WindowsPaths

FILE = "loopback"
TICKETS = 4  # the kind of frame
SECRET_BYTES = 64
GREETING_TIME = 10.0
TICKET_TIME = 30.0
COPY = 64 << 10
_FRAME = struct.Struct("<IB3xQ")
_U64 = struct.Struct("<Q")

Taker = Callable[[socket.socket], None]


class Loopback:
    """The listening socket, its clients, and the open tickets."""

    def __init__(self, directory: str, server: Server, paths: WindowsPaths) -> None:
        self.server = server
        self.paths = paths
        self._path = os.path.join(directory, FILE)
        self._secret = secrets.token_hex(SECRET_BYTES // 2).encode()
        self._tickets: dict[int, Taker] = {}
        self._last = 0
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def secret(self) -> str:
        return self._secret.decode()

    def start(self) -> None:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(256)
        self._listener.setblocking(False)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"%d %s\n" % (self.port, self._secret))
        self.run(self._accept())

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._listener.close()
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass  # the whole directory was removed

    def offer(self, taker: Taker, *, is_input: bool = False) -> int:
        """A new ticket, valid for one connection, which `taker` gets."""
        self._last += 2
        ticket = self._last | is_input
        self._tickets[ticket] = taker
        return ticket

    def withdraw(self, ticket: int) -> bool:
        """Invalidate a ticket; True if it was not used."""
        return self._tickets.pop(ticket, None) is not None

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run in the background, until the service stops at the latest."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            connection, _ = await self._loop.sock_accept(self._listener)
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.run(self._greet(connection))

    async def _greet(self, connection: socket.socket) -> None:
        try:
            async with asyncio.timeout(GREETING_TIME):
                greeting = b""
                while len(greeting) < SECRET_BYTES + _U64.size:
                    piece = await self._loop.sock_recv(connection, SECRET_BYTES + _U64.size - len(greeting))
                    if not piece:
                        raise ConnectionResetError
                    greeting += piece
        except (OSError, TimeoutError):
            connection.close()
            return
        if not hmac.compare_digest(greeting[:SECRET_BYTES], self._secret):
            connection.close()
            return
        (ticket,) = _U64.unpack(greeting[SECRET_BYTES:])
        taker = self._tickets.pop(ticket, None) if ticket else self._adopt
        if taker is None:
            connection.close()
        else:
            taker(connection)

    def _adopt(self, connection: socket.socket) -> None:
        self.server.clients.add(WineClient(self, connection))

    # -- streams

    def offer_stream(self, descriptor: int, *, is_input: bool) -> int:
        """A ticket for a process's end of a pipe. Takes ownership of the descriptor."""
        move = self._move_in if is_input else self._move_out
        ticket = self.offer(lambda connection: self.run(move(connection, descriptor)), is_input=is_input)

        def expire() -> None:
            if self.withdraw(ticket):
                os.close(descriptor)

        self._loop.call_later(TICKET_TIME, expire)
        return ticket

    async def _move_out(self, connection: socket.socket, descriptor: int) -> None:
        reader = asyncio.StreamReader(limit=COPY)
        file = os.fdopen(descriptor, "rb", 0)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            while data := await reader.read(COPY):
                await self._loop.sock_sendall(connection, data)
        except OSError:
            pass  # the client has closed its end, or the console was closed
        finally:
            transport.close()
            connection.close()

    async def _move_in(self, connection: socket.socket, descriptor: int) -> None:
        file = os.fdopen(descriptor, "wb", 0)
        transport, protocol = await self._loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        writer = asyncio.StreamWriter(transport, protocol, None, self._loop)
        try:
            while data := await self._loop.sock_recv(connection, COPY):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the process has closed its input
        finally:
            transport.close()
            connection.close()


class WineClient(Client):
    """A native library under Wine."""

    def __init__(self, loopback: Loopback, connection: socket.socket) -> None:
        self._loopback = loopback
        super().__init__(loopback.server, connection)

    def kill(self) -> None:
        """Kill the client's process. A TCP connection does not have its pid."""
        if self.connected:
            for pid in processes_with(self._socket.getpeername(), self._socket.getsockname()):
                os.kill(pid, signal.SIGKILL)

    def _begin(self, request_id: int, request: Request) -> None:
        super()._begin(request_id, self._loopback.paths.translate(request))

    def _answer(self, request_id: int, reply: Reply) -> None:
        tickets = [
            self._loopback.offer_stream(descriptor, is_input=at == 0)
            for at, descriptor in enumerate(reply.streams)
            if descriptor is not None
        ]
        if tickets:
            body = b"".join(map(_U64.pack, tickets))
            self._send(_FRAME.pack(_FRAME.size - 4 + len(body), TICKETS, request_id) + body, ())
        self._send(encode_reply(request_id, reply), ())


def processes_with(local: tuple[str, int], remote: tuple[str, int]) -> list[int]:
    """The processes that have the socket with these two IPv4 addresses open, without the wineserver, which has all
    sockets of its prefix. Linux gives one local port to several connections, if they are to different addresses."""
    wanted = [_kernel_format(local), _kernel_format(remote)]
    with open("/proc/net/tcp", "rb") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    sockets = {f"socket:[{int(row[9])}]" for row in rows if row[1:3] == wanted}
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has_open(pid, sockets)]


def _kernel_format(address: tuple[str, int]) -> bytes:
    """As in /proc/net/tcp."""
    return b"%08X:%04X" % (int.from_bytes(socket.inet_aton(address[0]), "little"), address[1])


def _has_open(pid: int, sockets: set[str]) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            if file.read().startswith(b"wineserver"):
                return False
        names = os.listdir(directory)
    except OSError:
        return False  # it has just exited
    return any(_target(f"{directory}/{name}") in sockets for name in names)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # it has just been closed
