"""Log forwarding: the guest sends its log to a service of the host on request."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import socket
from datetime import UTC, datetime
from typing import Any

from hcs_emulator.service.errors import ERROR_INVALID_PARAMETER, HCS_E_INVALID_JSON, HcsError
from hcs_emulator.vm import stdio_relay

SERVICE = "172dad59-976d-45f2-8b6c-6d1b13f2ac4d"


class LogForwarding:
    def __init__(self, sockets: str) -> None:
        self._sockets = sockets
        self._connection: socket.socket | None = None
        self.sources: Any = None

    async def modify(self, message: dict[str, Any]) -> None:
        if message["PropertyType"] != "LogForwardService":
            raise HcsError(
                ERROR_INVALID_PARAMETER, f"no service property {message['PropertyType']}", data="$.PropertyType"
            )
        settings = message.get("Settings") or {}
        kind = settings.get("RPCType") if isinstance(settings, dict) else None
        if kind == "ModifyServiceSettings":
            try:
                self.sources = json.loads(base64.b64decode(settings.get("Settings", ""), validate=True))
            except (ValueError, binascii.Error, TypeError) as error:
                raise HcsError(
                    HCS_E_INVALID_JSON, f"log sources: {error} at $.Settings.Settings", data="$.Settings.Settings"
                ) from None
        elif kind == "StartLogForwarding":
            await self._start()
        elif kind == "StopLogForwarding":
            self._stop()
        else:
            raise HcsError(
                HCS_E_INVALID_JSON, f"unknown RPCType {kind!r} at $.Settings.RPCType", data="$.Settings.RPCType"
            )

    async def _start(self) -> None:
        if self._connection is None:
            self._connection = await stdio_relay.dial(self._sockets, SERVICE)
            await self.write("log forwarding started")

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def write(self, text: str) -> None:
        if self._connection is None:
            return
        line = {"Source": "gcs", "Level": "info", "time": datetime.now(UTC).isoformat(), "Message": text}
        try:
            await asyncio.get_running_loop().sock_sendall(self._connection, json.dumps(line).encode() + b"\n")
        except OSError:
            self._stop()
