"""The guest of a VM with recorded answers: connects to the shim's listener as a guest does, and answers its messages.

WaitForProcess is answered when the recorded exit is due (`answer_wait`). The streams of a process are connected and
stay open until then. A Linux guest reads entropy and connects its log first; its log is empty, since a recording has
its entries as those of the shim.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from hcs_emulator.replay.script import Script
from hcs_emulator.service.errors import E_NOTIMPL, HcsError
from hcs_emulator.vm import bridge_frames, bridge_report, hvsocket
from hcs_emulator.vm.bridge import FIRST_RETRY, Bridge, error_response
from hcs_emulator.vm.linux.vsock import BRIDGE_PORT, service_id
from hcs_emulator.vm.windows.guest import SERVICE

WAIT = "WaitForProcess"
# The ports of a Linux guest's first connections.
ENTROPY_PORT, LOG_PORT = 1, 109
_READ_SIZE = 4096


class ReplayGuest:
    def __init__(self, directory: str, script: Script) -> None:
        # Through a descriptor: the path of a socket is limited.
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._sockets = f"/proc/self/fd/{self._descriptor}"
        self._script = script
        self._is_linux = script.is_linux
        service = service_id(BRIDGE_PORT) if self._is_linux else SERVICE
        self._bridge = Bridge(self._sockets, service, self._handle, lambda: None)
        self._log: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._waits: dict[tuple[str, int], asyncio.Future[dict[str, Any]]] = {}
        self._streams: dict[tuple[str, int], list[Any]] = {}

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        if self._script.delays:
            await asyncio.sleep(self._script.boot_seconds)
        if self._is_linux:
            with await self._dial(ENTROPY_PORT) as entropy:
                while await asyncio.get_running_loop().sock_recv(entropy, _READ_SIZE):
                    pass
            self._log = await self._dial(LOG_PORT)
        await self._bridge.run()

    async def _dial(self, port: int) -> socket.socket:
        """As soon as the shim listens."""
        while True:
            try:
                return await hvsocket.connect(self._sockets, service_id(port))
            except OSError:
                await asyncio.sleep(FIRST_RETRY)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._log is not None:
            self._log.close()
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
        settings = message.get("Settings") or {}
        services = settings.get("StdioRelaySettings") or {}
        if self._is_linux:
            ports = settings.get("VsockStdioRelaySettings") or {}
            services = {name: service_id(port) for name, port in ports.items() if port}
        streams = self._streams.setdefault((container, pid), [])
        for service in services.values():
            streams.append(await hvsocket.connect(self._sockets, str(service)))


def _close(streams: list[Any]) -> None:
    for stream in streams:
        stream.close()
