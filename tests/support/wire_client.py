"""A client of the service's wire protocol, for tests of the service without the native library."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import threading
from collections import deque
from pathlib import Path
from typing import Any

from hcs_emulator.service.transport.wire import EVENT, RESPONSE, Request, encode_request

TIMEOUT = 60.0
EXITED, PROCESS_EXITED = 1, 0x10000


class Response:
    def __init__(self, hresult: int, handle: int, pid: int, streams: list[int | None], text: str | None) -> None:
        self.hresult = hresult
        self.handle = handle
        self.pid = pid
        self.stdin, self.stdout, self.stderr = streams
        self.text = text

    @property
    def document(self) -> Any:
        return json.loads(self.text or "null")

    @property
    def places(self) -> list[str]:
        """The paths in the document that the error events name."""
        events = (self.document or {}).get("ErrorEvents", ())
        return [item["Value"] for event in events for item in event.get("Data", ())]

    def read(self) -> bytes:
        """All of stdout, until it is closed."""
        assert self.stdout is not None
        with open(self.stdout, "rb") as stream:
            self.stdout = None
            return stream.read()

    def close(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor is not None:
                os.close(descriptor)
        self.stdin = self.stdout = self.stderr = None


class WireClient:
    """Blocking calls from any thread; events are collected."""

    def __init__(self, directory: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT)
        self.socket.connect(str(directory / "hcs.sock"))
        self.events: list[tuple[int, int, Any]] = []
        self._responses: dict[int, Response] = {}
        self._arrived = threading.Condition()
        self._next = 0
        self._descriptors: deque[int] = deque()
        self._closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reader.join(TIMEOUT)
        self.socket.close()
        for response in self._responses.values():
            response.close()

    def begin(self, call: str, *strings: Any, handle: int = 0, number: int = 0) -> int:
        """Send a call; documents may be given as dicts and lists."""
        texts = [json.dumps(text) if isinstance(text, dict | list) else text for text in strings]
        with self._arrived:
            self._next += 1
            frame = encode_request(self._next, Request(call, handle, number, texts))
            self.socket.sendall(frame)
            return self._next

    def finish(self, request: int) -> Response:
        with self._arrived:
            assert self._arrived.wait_for(lambda: request in self._responses or self._closed, TIMEOUT), "no response"
            if request not in self._responses:
                raise ConnectionError("the service closed the connection")
            return self._responses.pop(request)

    def call(self, call: str, *strings: Any, handle: int = 0, number: int = 0) -> Response:
        return self.finish(self.begin(call, *strings, handle=handle, number=number))

    def ok(self, call: str, *strings: Any, handle: int = 0, number: int = 0) -> Response:
        response = self.call(call, *strings, handle=handle, number=number)
        assert response.hresult == 0, f"{call}: 0x{response.hresult:08X} {response.text}"
        return response

    def wait_event(self, handle: int, event: int) -> Any:
        """Wait for an event, and return its document."""

        def found() -> tuple[int, int, Any] | None:
            return next((entry for entry in self.events if entry[:2] == (handle, event)), None)

        with self._arrived:
            assert self._arrived.wait_for(lambda: found() is not None, TIMEOUT), (
                f"no event {event:#x} for handle {handle}"
            )
            entry = found()
            assert entry is not None
            return entry[2]

    def _read(self) -> None:
        buffer = b""
        ancillary_size = socket.CMSG_SPACE(64 * 4)
        while True:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(1 << 20, ancillary_size, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError:
                continue
            except OSError:
                data, ancillary = b"", []
            for _level, _kind, content in ancillary:
                received = array.array("i")
                received.frombytes(content)
                self._descriptors.extend(received)
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + (size := struct.unpack_from("<I", buffer)[0]):
                self._frame(buffer[4 : 4 + size])
                buffer = buffer[4 + size :]
            if not data:
                with self._arrived:
                    self._closed = True
                    self._arrived.notify_all()
                return

    def _frame(self, frame: bytes) -> None:
        kind, number = struct.unpack_from("<B3xQ", frame)
        body = frame[12:]
        with self._arrived:
            if kind == RESPONSE:
                hresult, handle, pid, streams = struct.unpack_from("<IQII", body)
                ends = [self._descriptors.popleft() if streams >> bit & 1 else None for bit in range(3)]
                self._responses[number] = Response(hresult, handle, pid, ends, _string(body[20:]))
            elif kind == EVENT:
                text = _string(body[4:])
                self.events.append((number, struct.unpack_from("<I", body)[0], json.loads(text) if text else None))
            self._arrived.notify_all()


def _string(data: bytes) -> str | None:
    (length,) = struct.unpack_from("<I", data)
    return None if length == 0xFFFFFFFF else data[4 : 4 + length].decode("utf-16-le")
