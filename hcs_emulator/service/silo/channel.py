"""Messages between the service and a silo: packets over a SOCK_SEQPACKET socket pair, with descriptors attached.

The other end is `native/silo/main.c`; `native/silo/protocol.h` declares the same fields in the same order. Requests are
answered in order, one DONE each (SIGNAL and THAW have no answer). EXITED is unsolicited, and never sent before the DONE
of its spawn.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

# Requests.
SPAWN, SIGNAL, BIND, UNBIND, THAW = 1, 2, 3, 4, 5
# Replies.
HELLO, READY, DONE, EXITED = 1, 2, 3, 4
# Flags of SPAWN: which descriptors are attached, and whether to create a console.
STDIN, STDOUT, STDERR, CONSOLE = 1, 2, 4, 8
# Flag of BIND.
READ_ONLY = 1
# The stage at which a request failed.
STAGES = (
    *("", "namespaces", "root", "proc", "dev", "hostname", "console"),
    *("fork", "user", "directory", "lookup", "exec", "bind"),
)

_REQUEST = struct.Struct("<IIIIHHIII")  # kind, serial, flags, number, height, width, programs, arguments, variables
_REPLY = struct.Struct("<IIiIIII")  # kind, serial, errno, stage, wait status, exit code, peak memory in KiB
_LARGEST_REQUEST = 1 << 20
LONGEST_STRINGS = _LARGEST_REQUEST - _REQUEST.size  # with their terminators
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid
_ANCILLARY_ROOM = socket.CMSG_SPACE(4 * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)


class Reply:
    """`number` is a wait status; `pid` is the subject of the message, translated by the kernel to our pid namespace."""

    __slots__ = ("descriptors", "errno", "exit_code", "kind", "number", "peak_bytes", "pid", "serial", "stage")

    def __init__(self, data: bytes, pid: int, descriptors: list[int]) -> None:
        self.kind, self.serial, self.errno, stage, self.number, self.exit_code, peak = _REPLY.unpack(data)
        self.peak_bytes = peak * 1024
        self.pid = pid
        self.stage = STAGES[stage] if stage < len(STAGES) else str(stage)
        self.descriptors = descriptors

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class ClosedError(Exception):
    """The silo has exited."""


class Channel:
    """The service's end. Replies that match no waiting request go to `on_event`: EXITED, and DONE after a cancelled
    call.
    """

    def __init__(self, sock: socket.socket, on_event: Callable[[Reply], None], on_end: Callable[[], None]) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._on_end = on_end
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._serial = 0
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def post(
        self,
        kind: int,
        serial: int,
        *,
        flags: int = 0,
        number: int = 0,
        size: tuple[int, int] = (0, 0),
        counts: tuple[int, int, int] = (0, 0, 0),
        strings: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a request that has no answer, or whose answer `call` awaits."""
        if self.closed:
            raise ClosedError("the silo has exited")
        body = b"".join(os.fsencode(text) + b"\0" for text in strings)
        packet = _REQUEST.pack(kind, serial, flags, number, *size, *counts) + body
        ancillary = []
        if descriptors:
            ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors)))
        try:
            self._socket.sendmsg([packet], ancillary)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError("the silo has exited") from error

    async def call(self, kind: int, serial: int, **fields: Any) -> Reply:
        """Send a request and wait for its answer. The silo answers at once; its exit completes the call too."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[serial] = future
        try:
            while True:
                try:
                    self.post(kind, serial, **fields)
                    break
                except BlockingIOError:  # the buffer is full of large requests, which the silo is reading
                    await asyncio.sleep(0.001)
            return await future
        finally:
            self._waiting.pop(serial, None)

    def close(self) -> None:
        """Close the socket: the silo exits, and with it every process inside."""
        if self.closed:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ClosedError("the silo has exited"))
        self._waiting.clear()

    def _readable(self) -> None:
        while not self.closed:
            try:
                reply = self._receive()
            except BlockingIOError:
                return
            except ConnectionResetError:
                reply = None
            if reply is None:
                self.close()
                self._on_end()
                return
            waiter = self._waiting.get(reply.serial) if reply.kind == DONE else None
            if waiter is not None and not waiter.done():
                waiter.set_result(reply)
            else:
                self._on_event(reply)

    def _receive(self) -> Reply | None:
        data, ancillary, _, _ = self._socket.recvmsg(_REPLY.size, _ANCILLARY_ROOM, socket.MSG_CMSG_CLOEXEC)
        pid = 0
        descriptors = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
            elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack(content)[0]
        return Reply(data, pid, list(descriptors)) if data else None


def pair() -> tuple[socket.socket, socket.socket]:
    """The service's end and the silo's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    for option in (socket.SO_SNDBUF, 32):  # 32: SO_SNDBUFFORCE, which needs CAP_NET_ADMIN
        try:
            ours.setsockopt(socket.SOL_SOCKET, option, 2 * _LARGEST_REQUEST)
        except PermissionError:
            break
    return ours, theirs
