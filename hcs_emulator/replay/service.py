"""Serves the emulator's socket with recorded answers, in a thread of the caller's process.

The native library of the emulator connects as to the emulator's service. A process has pipes, which stay open until its
recorded exit; nothing is written to them, since recordings have no output of containers.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.replay.guest import ReplayGuest
from hcs_emulator.replay.script import Call, Script
from hcs_emulator.service.errors import E_NOTIMPL, HCS_E_INVALID_STATE, HcsError
from hcs_emulator.service.transport.server import Client, Server, serve
from hcs_emulator.service.transport.wire import CALLS_BY_NAME, Reply, Request

START_SECONDS = 10.0
PROCESS_EXITED = 0x00010000
_CALLBACKS = ("HcsSetComputeSystemCallback", "HcsSetProcessCallback")
_CLOSING = ("HcsClose", "HcnClose")
_PIPES = ("CreateStdInPipe", "CreateStdOutPipe", "CreateStdErrPipe")


class ReplayService:
    """`start` returns when it listens. The other methods may be called from any thread."""

    def __init__(self, directory: str, script: Script, vm_ids: list[str]) -> None:
        self._directory = directory
        self._script = script
        self._vm_ids = vm_ids
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: Server | None = None
        self._dispatcher = _Dispatcher(script)
        self.guests: list[ReplayGuest] = []

    def start(self) -> None:
        for vm_id in self._vm_ids:
            os.makedirs(os.path.join(self._directory, "hvsock", vm_id), mode=0o700, exist_ok=True)
        self._thread.start()
        self._run(self._serve())

    async def _serve(self) -> None:
        self._server = await serve(os.path.join(self._directory, "hcs.sock"), self._dispatcher)
        if self._script.guest_calls:
            for vm_id in self._vm_ids:
                guest = ReplayGuest(os.path.join(self._directory, "hvsock", vm_id), self._script)
                self.guests.append(guest)
        self._dispatcher.on_start = self._start_guests

    def _start_guests(self) -> None:
        for guest in self.guests:
            guest.start()

    def send_event(self, handle: int, type: int, document: str, timeout: float) -> bool:
        """False if nobody has registered for it in time."""
        return bool(self._run(self._dispatcher.send_event(handle, type, document, timeout)))

    def notify(self, body: dict[str, Any]) -> None:
        for guest in self.guests:
            self._loop.call_soon_threadsafe(guest.notify, body)

    def answer_wait(self, container: str, pid: int, response: dict[str, Any]) -> None:
        """A process in a VM has exited."""
        for guest in self.guests:
            self._loop.call_soon_threadsafe(guest.answer_wait, container, pid, response)

    def disconnect_guests(self) -> None:
        for guest in self.guests:
            self._loop.call_soon_threadsafe(guest.close)

    def close(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    async def _close(self) -> None:
        for guest in self.guests:
            guest.close()
        if self._server is not None:
            await self._server.close()
        self._dispatcher.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS * 10)


class _Dispatcher:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._clients: dict[int, Client] = {}
        self._registered = asyncio.Event()
        self._pipes: dict[int, list[int]] = {}
        self.on_start: Callable[[], None] = lambda: None

    async def call(self, client: Client, request: Request) -> Reply:
        if request.call == "RtlGetVersion":
            return Reply(pid=self._script.build)
        found = self._script.match_call(request.call, request.handle, self._strings(request))
        if found is None:
            return self._without_recording(request)
        if not found.end:
            await asyncio.Event().wait()  # it was never answered
        if self._script.delays:
            await asyncio.sleep(found.seconds)
        reply = self._reply(found, request)
        if request.call in _CALLBACKS:
            self._clients[request.handle] = client
            asyncio.get_running_loop().call_soon(self._registered.set)
        if request.call == "HcsStartComputeSystem" and not found.code:
            self.on_start()
        self._script.on_done(found)
        return reply

    @staticmethod
    def _strings(request: Request) -> list[Any]:
        definition = CALLS_BY_NAME[request.call]
        wanted = len(definition.strings)
        strings: list[Any] = list(request.strings)
        return strings if definition.strings[-1:] and definition.strings[-1].startswith("*") else strings[:wanted]

    def _without_recording(self, request: Request) -> Reply:
        if request.call.startswith(_CLOSING):
            return Reply()
        if request.call == "HcsGetProcessProperties":
            return Reply(document=json.dumps({"Exited": request.handle not in self._pipes, "LastWaitResult": 0}))
        if request.call == "HcsGetComputeSystemProperties" and '"Statistics"' in (request.strings[0] or ""):
            return Reply(HCS_E_INVALID_STATE)  # a system that has no statistics now
        failure = HcsError(E_NOTIMPL, f"the recording has no answer to {request.call}", data=request.call)
        return Reply(failure.hresult, document=failure.document())

    def _reply(self, found: Call, request: Request) -> Reply:
        if found.code & 0x80000000:
            return Reply(found.code, document=found.document)
        streams: tuple[int | None, int | None, int | None] = (None, None, None)
        if request.call == "HcsCreateProcess":
            streams = self._create_pipes(found, request)
        return Reply(found.code, found.opened, found.pid, streams, found.document)

    def _create_pipes(self, found: Call, request: Request) -> tuple[int | None, int | None, int | None]:
        parameters = json.loads(request.strings[0] or "{}")
        kept = self._pipes.setdefault(found.opened, [])
        given: list[int | None] = []
        for index, name in enumerate(_PIPES):
            if not parameters.get(name):
                given.append(None)
                continue
            read, write = os.pipe()
            own, other = (read, write) if index == 0 else (write, read)
            kept.append(own)
            given.append(other)
        return given[0], given[1], given[2]

    async def send_event(self, handle: int, type: int, document: str, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while handle not in self._clients:
                    self._registered.clear()
                    await self._registered.wait()
        except TimeoutError:
            return False
        if type == PROCESS_EXITED:
            _close_all(self._pipes.pop(handle, []))
        self._clients[handle].send_event(handle, type, document)
        return True

    def disconnected(self, client: Client) -> None:
        """The recording has what followed; nothing is closed here."""

    def close(self) -> None:
        for pipes in self._pipes.values():
            _close_all(pipes)
        self._pipes.clear()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
