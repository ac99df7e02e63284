"""The host's end of a GCS bridge, as far as tests of the guest service need it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from pathlib import Path
from typing import Any

from hcs_emulator.vm import bridge_frames

GCS = "acef5661-84a1-4e44-856b-6245e69f4620"
NULL = "00000000-0000-0000-0000-000000000000"
TIMEOUT = 60.0


class Listener:
    """A Hyper-V socket service of the host."""

    def __init__(self, directory: Path, runtime_id: str, service: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT)
        self.path = directory / "hvsock" / runtime_id / service
        self._socket.bind(str(self.path))
        self._socket.listen(16)

    def accept(self) -> socket.socket:
        connection, _ = self._socket.accept()
        connection.settimeout(TIMEOUT)
        return connection

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)


class LoopbackListener(Listener):
    """The same for a host program under Wine: it listens on the loopback interface, and a file has the port."""

    def __init__(self, directory: Path, runtime_id: str, service: str) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(TIMEOUT)
        self.path = directory / "hvsock" / runtime_id / service
        self.path.write_text(str(self._socket.getsockname()[1]))


class Bridge:
    """An accepted bridge. `call` waits for the response; notifications are collected."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._next = 0
        self._responses: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._closed = False
        self.notifications: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reader.join(TIMEOUT)
        self._socket.close()

    def begin(self, procedure: int, container: str, **members: Any) -> int:
        message = {"ContainerId": container, "ActivityId": NULL} | members
        body = json.dumps(message).encode()
        with self._arrived:
            number = self._next
            self._next += 1
            self._socket.sendall(struct.pack("<IIQ", bridge_frames.REQUEST | procedure, 16 + len(body), number) + body)
            return number

    def rewind(self) -> None:
        """Use the last request id again."""
        self._next -= 1

    def send_raw(self, data: bytes) -> None:
        """Bytes that are no valid request."""
        with self._arrived:
            self._socket.sendall(data)

    def finish(self, number: int) -> dict[str, Any]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: number in self._responses or self._closed, TIMEOUT), "no response"
            if number not in self._responses:
                raise ConnectionError("the guest closed the bridge")
            return self._responses.pop(number)

    def call(self, procedure: int, container: str, **members: Any) -> dict[str, Any]:
        return self.finish(self.begin(procedure, container, **members))

    def ok(self, procedure: int, container: str, **members: Any) -> dict[str, Any]:
        response = self.call(procedure, container, **members)
        assert response["Result"] == 0, response
        return response

    def refused(self, procedure: int, container: str, **members: Any) -> str:
        """The code of an error response, as eight hex digits."""
        response = self.call(procedure, container, **members)
        assert response["Result"] != 0 and response["ErrorMessage"] and response["ErrorRecords"], response
        return f"{response['Result'] & 0xFFFFFFFF:08X}"

    def modify(self, kind: str, change: str, settings: Any, container: str = NULL) -> dict[str, Any]:
        request = {"ResourceType": kind, "RequestType": change, "Settings": settings}
        return self.call(bridge_frames.MODIFY_SETTINGS, container, Request=request)

    def wait_notification(self, container: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((entry for entry in self.notifications if entry["ContainerId"] == container), None)

        with self._arrived:
            assert self._arrived.wait_for(lambda: found() is not None, TIMEOUT), f"no notification of {container}"
            entry = found()
            assert entry is not None
            return entry

    def wait_closed(self) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._closed, TIMEOUT), "the bridge is still open"

    def _read(self) -> None:
        collected = bridge_frames.Reader()
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            with self._arrived:
                for frame_type, number, body in collected.feed(data):
                    message = json.loads(body)
                    if frame_type & bridge_frames.KIND == bridge_frames.NOTIFICATION:
                        self.notifications.append(message)
                    else:
                        self._responses[number] = message
                self._closed = not data
                self._arrived.notify_all()
            if not data:
                return
