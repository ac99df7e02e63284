"""The worker's end of the channel to the service: JSON lines, one response per request. The other end, and the
messages, are in service/virtual_machine/worker.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Handler = Callable[[dict[str, Any]], Awaitable[None]]


class Channel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, descriptor: int) -> Channel:
        return cls(*await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor), limit=16 << 20))

    def send(self, **message: Any) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def flush(self) -> None:
        await self._writer.drain()

    async def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Handle requests one after the other until the service closes the channel, which stops the VM."""
        while line := await self._reader.readline():
            request = json.loads(line)
            try:
                await handlers[request["request"]](request)
            except Exception as error:  # a failing request must not stop the VM; the service gets the reason
                self.send(id=request["id"], error=f"{type(error).__name__}: {error}")
            else:
                self.send(id=request["id"])
