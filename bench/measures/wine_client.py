"""A ttrpc client for the processes that benchmarks run inside Wine: for one caller at a time, without a thread.

`shim.ttrpc.client`, which many threads share, hands each response to another thread. Under Wine that takes several
times as long as a call, the same for every shim, and would hide differences. Standard library only.
"""

from __future__ import annotations

from typing import Any

from runhcs.task_client import TaskClient
from shim.platform.windows.pipe import PipeStream, dial
from shim.ttrpc.core import HEADER, REQUEST, encode_frame
from shim.ttrpc.envelope import decode_response, encode_request, encode_route
from shim.ttrpc.status import OK, ClosedError, StatusError

DIAL_TIMEOUT = 30.0
TIMEOUT = 60.0
READ_SIZE = 1 << 16


class PipeClient:
    def __init__(self, path: str) -> None:
        self._stream = PipeStream(dial(path, DIAL_TIMEOUT), TIMEOUT)
        self._number = -1

    def call(self, service: str, method: str, payload: bytes, timeout: float | None = TIMEOUT) -> bytes:
        """Raises StatusError, ClosedError, or TimeoutError, after which the connection is of no use."""
        self._number += 2
        request = encode_request(encode_route(service, method), payload, int((timeout or TIMEOUT) * 1e9))
        self._stream.sendall(encode_frame(self._number, REQUEST, 0, request))
        data = b""
        while len(data) < HEADER or len(data) < HEADER + int.from_bytes(data[:4], "big"):
            more = self._stream.recv(READ_SIZE)
            if not more:
                raise ClosedError
            data += more
        stream = int.from_bytes(data[4:8], "big")
        if stream != self._number:
            raise RuntimeError(f"a response for stream {stream} instead of {self._number}")
        code, text, response = decode_response(data[HEADER:])
        if code != OK:
            raise StatusError(code, text)
        return response

    def close(self) -> None:
        self._stream.release()


def start(shim: Any, options: bytes = b"") -> None:
    """Run `start` of a shim of tests/wine/driver.py, without connecting. `options`: the runtime options, which
    containerd passes on stdin, and again in Create."""
    done = shim.command("start", options)
    if done.returncode:
        raise RuntimeError((done.stderr + done.stdout).decode(errors="replace").strip())
    shim.address = done.stdout.decode().strip()


def connect(shim: Any) -> TaskClient:
    return TaskClient(PipeClient(shim.address), shim.id, shim.bundle)  # type: ignore[arg-type]
