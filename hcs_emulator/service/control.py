"""control.sock: the interface for `runhcs emulator …` and tests while the service runs.

JSON lines both ways. A request is {"command": …, …}; the response is {"ok": true, …} or {"ok": false, "error":
sentence}. `journal` with "follow" keeps the connection open and sends every further line of the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import attrs

from hcs_emulator.service.dispatch import Dispatcher, status
from hcs_emulator.service.faults import FaultDefinition
from hcs_emulator.service.host import check_quirk
from hcs_emulator.service.latency import Profile
from hcs_emulator.service.memory import counts
from hcs_emulator.service.transport.unix_socket import listening_socket

LONGEST_REQUEST = 1 << 20
# A follower that does not read is disconnected at this many unsent bytes, to bound the service's memory.
LARGEST_BACKLOG = 16 << 20


@attrs.frozen
class NoArguments:
    """For commands without arguments."""


@attrs.frozen
class JournalRequest:
    follow: bool = False


@attrs.frozen
class FaultClearRequest:
    id: int | None = None  # None: all


@attrs.frozen
class ProfileRequest:
    """Returns the active profile, after loading one from `path` or clearing it."""

    path: str | None = None
    clear: bool = False


@attrs.frozen
class QuirkRequest:
    name: str = attrs.field(converter=check_quirk)
    on: bool = True


class Control:
    def __init__(self, dispatcher: Dispatcher, stop: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._stop = stop
        self._server: asyncio.Server | None = None
        self._path = ""

    async def serve(self, path: str) -> None:
        """Listen at `path` and replace a stale socket file there: the caller holds the instance's lock."""
        with listening_socket(path) as sock:
            self._server = await asyncio.start_unix_server(self._serve_client, sock=sock, limit=LONGEST_REQUEST)
        self._path = path

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            if os.path.lexists(self._path):
                os.unlink(self._path)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            response = self._run(request)
            if request["command"] in ("fault-add", "fault-clear"):
                await self._dispatcher.host.send_guest_faults()
        except (ValueError, TypeError, OSError) as error:
            request, response = {}, {"ok": False, "error": str(error)}
        writer.write(json.dumps(response).encode() + b"\n")
        await writer.drain()
        if request.get("command") == "stop":
            self._stop()
        elif request.get("command") == "journal" and request.get("follow") and response["ok"]:
            await self._follow(reader, writer)

    def _run(self, document: dict[str, Any]) -> dict[str, Any]:
        from hcs_emulator.service.convert import structure  # not at startup: cattrs is slow to import

        commands: dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]]]] = {
            "status": (NoArguments, lambda _: status(self._dispatcher)),
            "stop": (NoArguments, lambda _: {}),
            "memory": (NoArguments, lambda _: counts()),
            "journal": (JournalRequest, lambda _: {"path": self._dispatcher.journal.path}),
            "fault-add": (FaultDefinition, self._add_fault),
            "fault-list": (NoArguments, lambda _: {"faults": self._dispatcher.faults.describe()}),
            "fault-clear": (FaultClearRequest, self._clear_faults),
            "profile": (ProfileRequest, self._profile),
            "quirk": (QuirkRequest, self._quirk),
        }
        name = str(document.get("command"))
        if name not in commands:
            raise ValueError(f"unknown command {document.get('command')!r} (known: {', '.join(commands)})")
        kind, run = commands[name]
        arguments = {member: value for member, value in document.items() if member != "command"}
        return {"ok": True} | run(structure(arguments, kind, name))

    def _add_fault(self, definition: FaultDefinition) -> dict[str, Any]:
        return {"fault": self._dispatcher.faults.add(definition).describe()}

    def _clear_faults(self, request: FaultClearRequest) -> dict[str, Any]:
        return {"removed": self._dispatcher.faults.clear(request.id)}

    def _profile(self, request: ProfileRequest) -> dict[str, Any]:
        if request.clear:
            self._dispatcher.profile = Profile()
        elif request.path is not None:
            self._dispatcher.profile = Profile.load(request.path)
        return {"profile": self._dispatcher.profile.describe()}

    def _quirk(self, request: QuirkRequest) -> dict[str, Any]:
        quirks = self._dispatcher.host.options.quirks
        quirks.add(request.name) if request.on else quirks.discard(request.name)
        return {"quirks": sorted(quirks)}

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(line: str) -> None:
            if writer.transport.get_write_buffer_size() > LARGEST_BACKLOG:
                writer.transport.abort()
            else:
                writer.write(line.encode() + b"\n")

        self._dispatcher.journal.follow(send)
        try:
            await reader.read()  # until the follower disconnects
        finally:
            self._dispatcher.journal.unfollow(send)
