"""The guest of a VM with recorded answers: connects to the shim's listener as a guest does, and answers its messages.

WaitForProcess is answered when the recorded exit is due (`answer_wait`). The streams of a process are connected and
stay open until then.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from hcs_emulator.replay.script import Script
from hcs_emulator.service.errors import E_NOTIMPL, HcsError
from hcs_emulator.vm import bridge_frames, bridge_report, hvsocket
from hcs_emulator.vm.bridge import Bridge, error_response
from hcs_emulator.vm.windows.guest import SERVICE

WAIT = "WaitForProcess"


class ReplayGuest:
    def __init__(self, directory: str, script: Script) -> None:
        # Through a descriptor: the path of a socket is limited.
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._sockets = f"/proc/self/fd/{self._descriptor}"
        self._script = script
        self._bridge = Bridge(self._sockets, SERVICE, self._handle, lambda: None)
        self._task: asyncio.Task[None] | None = None
        self._waits: dict[tuple[str, int], asyncio.Future[dict[str, Any]]] = {}
        self._streams: dict[tuple[str, int], list[Any]] = {}

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._bridge.run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for streams in self._streams.values():
            _close(streams)
        self._streams.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def notify(self, body: dict[str, Any]) -> None:
        self._bridge.notify(bridge_frames.CREATE, body)

    def answer_wait(self, container: str, pid: int, response: dict[str, Any]) -> None:
        _close(self._streams.pop((container, pid), []))
        future = self._wait(container, pid)
        if not future.done():
            future.set_result(response)

    def _wait(self, container: str, pid: int) -> asyncio.Future[dict[str, Any]]:
        return self._waits.setdefault((container, pid), asyncio.get_running_loop().create_future())

    async def _handle(self, procedure: int, body: bytes) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(body)
        name, container = bridge_report.name(procedure), str(message.get("ContainerId", ""))
        found = self._script.match_guest_call(name, container, message)
        if found is None:
            return error_response(HcsError(E_NOTIMPL, f"the recording has no answer to {name}"))
        if name == WAIT:
            return await self._wait(container, int(message.get("ProcessId", 0)))
        if found.response is None:
            await asyncio.Event().wait()  # it was never answered
        assert found.response is not None
        if self._script.delays:
            await asyncio.sleep(found.seconds)
        if name == "ExecuteProcess" and "ProcessId" in found.response:
            await self._connect_streams(container, int(found.response["ProcessId"]), message)
        self._script.on_done(found)
        return found.response

    async def _connect_streams(self, container: str, pid: int, message: dict[str, Any]) -> None:
        services = (message.get("Settings") or {}).get("StdioRelaySettings") or {}
        streams = self._streams.setdefault((container, pid), [])
        for service in services.values():
            streams.append(await hvsocket.connect(self._sockets, str(service)))


def _close(streams: list[Any]) -> None:
    for stream in streams:
        stream.close()
