"""control.sock: what `runhcs emulator …` and tests talk to while the service runs.

JSON lines both ways. A request is {"command": …, …}; the answer {"ok": true, …} or {"ok": false, "error": sentence}.
`journal` with "follow" keeps the connection open and sends every further line of the journal as it is.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from hcs_emulator.service.dispatch import Dispatcher, status
from hcs_emulator.service.host import QUIRKS
from hcs_emulator.service.latency import Profile
from hcs_emulator.service.transport.unix_socket import listening_socket

LONGEST_REQUEST = 1 << 20
# A follower that does not read is dropped at this many unsent bytes, so that it cannot eat the service's memory.
LARGEST_BACKLOG = 16 << 20


class Control:
    def __init__(self, dispatcher: Dispatcher, stop: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._stop = stop
        self._server: asyncio.Server | None = None
        self._path = ""

    async def serve(self, path: str) -> None:
        """Listen at `path`, replacing a leftover: the caller holds the instance's lock."""
        with listening_socket(path) as sock:
            self._server = await asyncio.start_unix_server(self._talk, sock=sock, limit=LONGEST_REQUEST)
        self._path = path

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            if os.path.lexists(self._path):
                os.unlink(self._path)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                await self._handle(line, reader, writer)
        except (ConnectionError, ValueError, asyncio.CancelledError):  # cancelled: the service stops
            pass
        finally:
            writer.close()

    async def _handle(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("a request is a JSON object")
            answer = self._run(request)
        except (ValueError, TypeError, OSError) as error:
            request, answer = {}, {"ok": False, "error": str(error)}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        if request.get("command") == "stop":
            self._stop()
        elif request.get("command") == "journal" and request.get("follow") and answer["ok"]:
            await self._follow(reader, writer)

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments = {name: value for name, value in request.items() if name != "command"}
        commands: dict[str, Callable[..., dict[str, Any]]] = {
            "status": lambda: status(self._dispatcher),
            "stop": dict,
            "journal": self._journal,
            "fault-add": lambda **fault: {"fault": self._dispatcher.faults.add(**fault).describe()},
            "fault-list": lambda: {"faults": self._dispatcher.faults.describe()},
            "fault-clear": self._clear,
            "profile": self._profile,
            "quirk": self._quirk,
        }
        command = commands.get(str(request.get("command")))
        if command is None:
            raise ValueError(f"unknown command {request.get('command')!r} (known: {', '.join(commands)})")
        return {"ok": True} | command(**arguments)

    def _clear(self, id: int | None = None) -> dict[str, Any]:
        return {"removed": self._dispatcher.faults.clear(id)}

    def _journal(self, follow: bool = False) -> dict[str, Any]:
        return {"path": self._dispatcher.journal.path}

    def _profile(self, path: str | None = None, clear: bool = False) -> dict[str, Any]:
        if clear:
            self._dispatcher.profile = Profile()
        elif path is not None:
            self._dispatcher.profile = Profile.load(path)
        return {"profile": self._dispatcher.profile.describe()}

    def _quirk(self, name: str, on: bool = True) -> dict[str, Any]:
        if name not in QUIRKS:
            raise ValueError(f"unknown quirk {name} (known: {', '.join(sorted(QUIRKS))})")
        quirks = self._dispatcher.host.options.quirks
        quirks.add(name) if on else quirks.discard(name)
        return {"quirks": sorted(quirks)}

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(line: str) -> None:
            if writer.transport.get_write_buffer_size() > LARGEST_BACKLOG:
                writer.transport.abort()
            else:
                writer.write(line.encode() + b"\n")

        self._dispatcher.journal.follow(send)
        try:
            await reader.read()  # until the follower hangs up
        finally:
            self._dispatcher.journal.unfollow(send)
