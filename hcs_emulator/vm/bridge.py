"""The guest's end of the GCS bridge: connects to the host, reads requests, sends responses and notifications."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from hcs_emulator.service.errors import ERROR_INSUFFICIENT_BUFFER, HcsError, guest_spelling, signed
from hcs_emulator.vm import bridge_frames, hvsocket

FIRST_RETRY, LAST_RETRY = 0.005, 0.5
NULL = "00000000-0000-0000-0000-000000000000"  # the id of the VM itself, and of no activity

Message = dict[str, Any]


class Bridge:
    """`handle` gets the procedure and the body of a request and returns the response. `connected` is called for every
    new connection.
    """

    def __init__(
        self,
        sockets: str,
        service: str,
        handle: Callable[[int, bytes], Awaitable[Message]],
        connected: Callable[[], None],
    ) -> None:
        self._sockets = sockets
        self._service = service
        self._handle = handle
        self._connected = connected
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Connect to the host until it listens, and again whenever the connection is lost."""
        pause = FIRST_RETRY
        while True:
            try:
                link = await hvsocket.connect(self._sockets, self._service)
                reader, self._writer = await asyncio.open_connection(sock=link)
            except OSError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_RETRY)
                continue
            pause = FIRST_RETRY
            self._connected()
            await self._serve(reader, self._writer)

    def notify(self, procedure: int, message: Message) -> None:
        """Send a notification; it is lost when there is no connection."""
        self._send(bridge_frames.NOTIFICATION | procedure, 0, message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        collected = bridge_frames.Reader()
        try:
            while data := await reader.read(1 << 16):
                for frame_type, number, body in collected.feed(data):
                    if frame_type & bridge_frames.KIND != bridge_frames.REQUEST:
                        raise bridge_frames.FrameError(f"a frame of type 0x{frame_type:08X}")
                    task = asyncio.get_running_loop().create_task(
                        self._respond(frame_type & bridge_frames.PROCEDURE, number, body)
                    )
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except (ConnectionError, bridge_frames.FrameError) as error:
            print(f"guest: the bridge was closed: {error}", file=sys.stderr, flush=True)
        finally:
            writer.close()
            self._writer = None

    async def _respond(self, procedure: int, number: int, body: bytes) -> None:
        self._send(bridge_frames.RESPONSE | procedure, number, await self._handle(procedure, body))

    def _send(self, frame_type: int, number: int, message: Message) -> None:
        if self._writer is None:
            return
        try:
            data = bridge_frames.encode(frame_type, number, message)
        except bridge_frames.TooLargeError as error:
            failure = HcsError(ERROR_INSUFFICIENT_BUFFER, f"the answer is too large for the bridge: {error}")
            response = {"ActivityId": message.get("ActivityId", NULL)} | error_response(failure)
            data = bridge_frames.encode(frame_type, number, response)
        self._writer.write(data)


def error_response(error: HcsError) -> Message:
    """The members of a response that reports an error."""
    result = signed(guest_spelling(error.hresult))
    text = error.events[0]["Message"] if error.events else str(error)
    record = {"Result": result, "Message": text, "StackTrace": "", "ModuleName": "gcs", "FileName": "", "Line": 0}
    return {"Result": result, "ErrorMessage": text, "ErrorRecords": [record]}
