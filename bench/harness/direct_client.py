"""A ttrpc client for one caller at a time, to time single calls.

It writes and reads its socket in the thread of the caller. `shim.ttrpc.client`, which many threads share, hands each
response to another thread; that would be a large part of a short call, the same for every shim, and hide differences.
"""

from __future__ import annotations

import socket
import time

from attrs import frozen

from shim.ttrpc.core import HEADER, REQUEST, encode_frame
from shim.ttrpc.envelope import decode_response, encode_request, encode_route
from shim.ttrpc.status import OK, ClosedError, StatusError

TIMEOUT = 60.0
READ_SIZE = 1 << 16


@frozen
class TimedCall:
    """Seconds of perf_counter, and the payload of the response."""

    begin: float
    end: float
    payload: bytes

    @property
    def milliseconds(self) -> float:
        return (self.end - self.begin) * 1e3


class DirectClient:
    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT)
        self._stream = -1
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def call(self, service: str, method: str, payload: bytes) -> TimedCall:
        """Raises StatusError, ClosedError, or TimeoutError, after which the connection is of no use."""
        begin = self.send(service, method, payload)
        return self.receive(begin)

    def send(self, service: str, method: str, payload: bytes) -> float:
        """The first half of a call; returns the time right before the request is written."""
        self._stream += 2
        request = encode_request(encode_route(service, method), payload, int(TIMEOUT * 1e9))
        frame = encode_frame(self._stream, REQUEST, 0, request)
        begin = time.perf_counter()
        self._socket.sendall(frame)
        return begin

    def receive(self, begin: float) -> TimedCall:
        """The second half; `begin` is the time from which the call counts."""
        data = self._socket.recv(READ_SIZE)
        while len(data) < HEADER or len(data) < HEADER + int.from_bytes(data[:4], "big"):
            more = self._socket.recv(READ_SIZE)
            if not more:
                raise ClosedError
            data += more
        end = time.perf_counter()
        stream = int.from_bytes(data[4:8], "big")
        if stream != self._stream:
            raise RuntimeError(f"a response for stream {stream} instead of {self._stream}")
        code, text, payload = decode_response(data[HEADER:])
        if code != OK:
            raise StatusError(code, text)
        return TimedCall(begin, end, payload)
