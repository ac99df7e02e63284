"""A ttrpc server with one method of each kind, for tests to call, cut off and look into."""

from __future__ import annotations

import socket
import threading

import pytest

from shim.ttrpc import status
from shim.ttrpc.client import Client
from shim.ttrpc.core import Decoder
from shim.ttrpc.envelope import encode_request, encode_route
from shim.ttrpc.server import Call, Method, Server, ServerStream
from shim.ttrpc.status import StatusError

SERVICE = "test.Service"


class RpcLab:
    """A server with one method of each kind, and what is needed to look at it from inside."""

    def __init__(self) -> None:
        self.waiting: list[Call] = []
        self.cancelled: list[Call] = []
        self.release = threading.Event()
        self.reports: list[BaseException] = []
        self.server = Server(
            {
                SERVICE: {
                    "Echo": Method.inline(lambda call: call.payload),
                    "EchoLater": Method.worker(lambda call: call.payload),
                    "Wait": Method.inline(self.wait),
                    "Block": Method.worker(self.block),
                    "Fail": Method.inline(self.fail),
                    "FailLater": Method.worker(self.fail),
                    "Crash": Method.inline(self.crash),
                    "CrashLater": Method.worker(self.crash),
                    "Blob": Method.inline(lambda call: bytes(int(call.payload))),
                    "Nothing": Method.worker(lambda call: None),  # type: ignore[arg-type,return-value]
                    "Meta": Method.inline(lambda call: repr((call.service, call.method, call.metadata)).encode()),
                    "Bidi": Method.stream(self.bidi),
                    "Sum": Method.stream(self.sum),
                    "Count": Method.stream(self.count),
                    "Flood": Method.stream(self.flood),
                }
            },
            self.reports.append,
        )

    def wait(self, call: Call) -> bytes:
        self.waiting.append(call)
        return call.defer(lambda: self.cancelled.append(call))

    def block(self, call: Call) -> bytes:
        assert self.release.wait(120)
        return b"released"

    def fail(self, call: Call) -> bytes:
        raise StatusError(status.NOT_FOUND, "task c1: not found")

    def crash(self, call: Call) -> bytes:
        raise RuntimeError("first line\nsecond line")

    def bidi(self, stream: ServerStream) -> None:
        for message in stream:
            stream.send(message)

    def sum(self, stream: ServerStream) -> bytes:
        return str(sum(int(message) for message in stream)).encode()

    def count(self, stream: ServerStream) -> None:
        message = stream.recv()
        assert message is not None
        for number in range(int(message)):
            stream.send(str(number).encode())

    def flood(self, stream: ServerStream) -> None:
        while True:
            stream.send(bytes(64 << 10))

    def connect(self) -> Client:
        ours, theirs = socket.socketpair()
        assert self.server.attach(theirs) is not None
        return Client(ours)

    def raw(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        assert self.server.attach(theirs) is not None
        ours.settimeout(60)
        return ours


def read_frames(raw: socket.socket, count: int) -> list[tuple[int, int, int, bytes]]:
    decoder = Decoder()
    frames: list[tuple[int, int, int, bytes]] = []
    while len(frames) < count:
        data = raw.recv(1 << 16)
        assert data, "the server closed the connection"
        frames += decoder.feed(data)
    return frames


def request(method: str, payload: bytes = b"", timeout: int = 0) -> bytes:
    return encode_request(encode_route(SERVICE, method), payload, timeout)


def code_of(client: Client, method: str, payload: bytes = b"", timeout: float | None = 60) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        client.call(SERVICE, method, payload, timeout)
    return caught.value.code, caught.value.message
