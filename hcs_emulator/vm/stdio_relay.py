"""Relays data between a process's pipes and the Hyper-V sockets that the host has named for them.

The guest connects; data then flows one way per stream. A half close signals the end of a stream, in both directions.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket

from hcs_emulator.service.errors import HCS_E_CONNECT_FAILED, HcsError
from hcs_emulator.vm import hvsocket

PIECE = 64 << 10
DIAL_TIMEOUT = 10.0


async def dial(directory: str, service: str) -> socket.socket:
    """Connect to a service of the host, with a timeout; raises HcsError."""
    try:
        return await asyncio.wait_for(hvsocket.connect(directory, service), DIAL_TIMEOUT)
    except (OSError, TimeoutError) as error:
        raise HcsError(HCS_E_CONNECT_FAILED, f"the host does not listen on {service}: {error}", data=service) from error


async def pump_output(descriptor: int, sock: socket.socket) -> None:
    """From the process to the host, until every process that shares the stream has closed it."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    try:
        while data := await _read(descriptor):
            await loop.sock_sendall(sock, data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the host has closed the connection: the rest is discarded
    finally:
        os.close(descriptor)
        sock.close()


async def pump_input(sock: socket.socket, descriptor: int) -> bool:
    """From the host to the process, until the host half-closes or the process stops reading.

    False: the host has closed the connection instead. Hyper-V sockets then discard what was not read yet, and the guest
    gets a reset and no EOF.
    """
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    try:
        while data := await loop.sock_recv(sock, PIECE):
            await _write(descriptor, data)
        return not _is_reset(sock)
    except OSError:
        return True
    finally:
        os.close(descriptor)
        sock.close()


def _is_reset(sock: socket.socket) -> bool:
    """Whether the peer has closed both directions."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


async def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, PIECE)
        except BlockingIOError:
            await _ready(descriptor, write=False)
        except OSError:  # a console whose last process has exited
            return b""


async def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            await _ready(descriptor, write=True)


async def _ready(descriptor: int, *, write: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
