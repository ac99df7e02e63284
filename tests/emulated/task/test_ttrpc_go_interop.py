"""Our ttrpc client and server with Go's, in both directions, over a Unix socket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.harness.go_programs import interop_program, is_listening, ttrpc_calls_to_all
from shim.api.wire import put_bytes, read_bytes, read_varint, signed64, varint
from shim.ttrpc import status
from shim.ttrpc.client import Client
from shim.ttrpc.core import MAX_DATA, REQUEST, Decoder, encode_frame
from shim.ttrpc.envelope import decode_response, encode_request, encode_route
from shim.ttrpc.server import Call, Method, Server, ServerStream
from shim.ttrpc.status import StatusError

SERVICE = "interop.Service"


@pytest.fixture(scope="module")
def program() -> Path:
    if shutil.which("go") is None and os.environ.get("CI") != "true":
        pytest.skip("Go is not installed: install it (https://go.dev/dl) to test against Go's ttrpc")
    return interop_program("the interop test")  # under CI a missing Go is a failure that says so


# -- protobuf's wrappers


def wrap(data: bytes) -> bytes:
    return put_bytes(b"\n", data) if data else b""


def unwrap(message: bytes) -> bytes:
    return read_bytes(message, 1, len(message))[0] if message else b""


def wrap_int(number: int) -> bytes:
    return b"\x08" + varint(number) if number else b""


def unwrap_int(message: bytes) -> int:
    return signed64(read_varint(message, 1, len(message))[0]) if message else 0


# -- Go calls us


class OurService:
    def __init__(self) -> None:
        self.server = Server(
            {
                SERVICE: {
                    "Echo": Method.inline(lambda call: wrap(unwrap(call.payload))),
                    "EchoLater": Method.worker(self.echo_later),
                    "Fail": Method.inline(self.fail),
                    "Crash": Method.worker(self.crash),
                    "Wait": Method.inline(lambda call: call.defer()),
                    "Blob": Method.worker(lambda call: wrap(bytes(unwrap_int(call.payload)))),
                    "Meta": Method.inline(self.meta),
                    "Left": Method.inline(self.left),
                    "Count": Method.stream(self.count),
                    "Sum": Method.stream(self.sum),
                    "Bidi": Method.stream(self.bidi),
                }
            }
        )

    def echo_later(self, call: Call) -> bytes:
        time.sleep(0.001)
        return wrap(unwrap(call.payload))

    def fail(self, call: Call) -> bytes:
        code = unwrap_int(call.payload)
        raise StatusError(code, f"code {code}")

    def crash(self, call: Call) -> bytes:
        raise RuntimeError("out of luck")

    def meta(self, call: Call) -> bytes:
        return wrap(dict(call.metadata)[unwrap(call.payload).decode()].encode())

    def left(self, call: Call) -> bytes:
        return wrap_int(int((call.deadline - time.monotonic()) * 1e9) if call.deadline is not None else 0)

    def count(self, stream: ServerStream) -> None:
        many = unwrap_int(stream.recv(10) or b"")
        for number in range(many):
            stream.send(wrap_int(number))
        if many == 13:
            raise StatusError(status.FAILED_PRECONDITION, "thirteen")

    def sum(self, stream: ServerStream) -> bytes:
        return wrap_int(sum(unwrap_int(message) for message in stream))

    def bidi(self, stream: ServerStream) -> None:
        for message in stream:
            stream.send(message)


CHECKS = [
    "unary", "status codes", "unknown names", "metadata", "deadlines", "oversized request",
    "server streaming", "client streaming", "bidirectional streaming", "concurrent calls", "oversized answer",
    "still alive",
]  # fmt: skip


def run_checks(program: Path, path: Path) -> dict[str, str]:
    done = subprocess.run([program, "check", path], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["check"] for result in results] == CHECKS
    return {result["check"]: result["problem"] for result in results if result["problem"]}


def test_go_client_of_benchmark_calls_all_servers(program: Path, tmp_path: Path) -> None:
    """Each server as often as the others, with its own value; a failed call fails the benchmark."""
    received: dict[bytes, int] = {}
    lock = threading.Lock()

    def count(call: Call) -> bytes:
        with lock:
            received[unwrap(call.payload)] = received.get(unwrap(call.payload), 0) + 1
        return b""

    servers, targets = [], {}
    for number in range(5):
        path = tmp_path / f"s{number}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(4)
        servers.append(Server({SERVICE: {"Count": Method.inline(count)}}))
        threading.Thread(target=servers[-1].serve, args=(listener,), daemon=True).start()
        targets[str(path)] = f"pod{number}"
    try:
        found = ttrpc_calls_to_all(program, targets, 4, 400, SERVICE, "Count")
        assert found["rate"] > 0 and found["p99_us"] >= found["p50_us"] > 0
        assert received == {f"pod{number}".encode(): 80 for number in range(5)}
        with pytest.raises(subprocess.CalledProcessError):
            ttrpc_calls_to_all(program, targets, 4, 400, SERVICE, "Unknown")
    finally:
        for server in servers:
            server.shutdown(5)


def test_go_client_against_our_server(program: Path, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(16)
    server = OurService().server
    serving = threading.Thread(target=server.serve, args=(listener,))
    serving.start()
    try:
        assert run_checks(program, tmp_path / "s") == {}
    finally:
        server.shutdown(10)
        serving.join(60)
    assert not serving.is_alive()
    assert server.connections() == []


# -- we call Go


@pytest.fixture
def go_server(program: Path, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "go"
    process = subprocess.Popen([program, "serve", path], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not is_listening(path):
            assert process.poll() is None, "the Go server ended"
            assert time.monotonic() < deadline, "the Go server does not listen"
            time.sleep(0.01)
        yield path
    finally:
        process.communicate(timeout=60)


def dial(path: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(str(path))
    return connected


@pytest.fixture
def client(go_server: Path) -> Iterator[Client]:
    with Client(dial(go_server)) as client:
        yield client


def failure(client: Client, method: str, payload: bytes, service: str = SERVICE) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        client.call(service, method, payload, timeout=30)
    return caught.value.code, caught.value.message


def test_go_agrees_with_itself(program: Path, go_server: Path) -> None:
    """Go's server passes the checks of our server, except the last, where it closes the connection."""
    assert set(run_checks(program, go_server)) <= {"oversized answer", "still alive"}


def test_our_client_unary(client: Client) -> None:
    for method in ("Echo", "EchoLater"):
        for size in (0, 1, 127, 128, 1 << 16, MAX_DATA - 200):
            assert client.call(SERVICE, method, wrap(b"\7" * size), timeout=30) == wrap(b"\7" * size)
    metadata = [("containerd-namespace-ttrpc", "k8s.io")]
    assert client.call(SERVICE, "Meta", wrap(b"containerd-namespace-ttrpc"), metadata=metadata) == wrap(b"k8s.io")


def test_our_client_sees_go_errors(client: Client) -> None:
    for code in range(1, 17):
        assert failure(client, "Fail", wrap_int(code)) == (code, f"code {code}")
    assert failure(client, "Crash", b"") == (status.UNKNOWN, "out of luck")
    assert failure(client, "None", b"") == (status.UNIMPLEMENTED, "method None")
    assert failure(client, "Echo", b"", "no.Service") == (status.UNIMPLEMENTED, "service no.Service")


def test_our_client_deadlines(client: Client) -> None:
    with pytest.raises(StatusError) as caught:
        client.call(SERVICE, "Wait", timeout=0.03)
    assert caught.value.code == status.DEADLINE_EXCEEDED
    assert 1e9 < unwrap_int(client.call(SERVICE, "Left", timeout=40)) <= 40e9
    assert unwrap_int(client.call(SERVICE, "Left")) == 0


def test_our_client_oversized(client: Client, go_server: Path) -> None:
    assert failure(client, "Echo", bytes(5 << 20))[0] == status.RESOURCE_EXHAUSTED
    assert client.call(SERVICE, "Echo", wrap(b"x")) == wrap(b"x")
    raw = dial(go_server)
    raw.settimeout(60)
    request = encode_request(encode_route(SERVICE, "Echo"), wrap(b"after"))
    raw.sendall(encode_frame(1, REQUEST, 0, bytes(MAX_DATA + 1)) + encode_frame(3, REQUEST, 0, request))
    decoder, frames = Decoder(), []
    while len(frames) < 2:
        frames += decoder.feed(raw.recv(1 << 16))
    raw.close()
    assert {frame[0]: decode_response(frame[3])[0] for frame in frames} == {1: status.RESOURCE_EXHAUSTED, 3: 0}


def test_our_client_streams(client: Client) -> None:
    for many in (0, 1, 500):
        counted = client.stream(SERVICE, "Count", wrap_int(many), sends=False)
        assert [unwrap_int(message) for message in counted] == list(range(many))
    broken = client.stream(SERVICE, "Count", wrap_int(13), sends=False)
    assert [unwrap_int(broken.recv(10) or b"") for _ in range(13)] == list(range(13))
    with pytest.raises(StatusError, match="FailedPrecondition: thirteen"):
        broken.recv(10)
    total = client.stream(SERVICE, "Sum", sends=True)
    for number in range(1, 1001):
        total.send(wrap_int(number))
    total.close_send()
    assert unwrap_int(total.recv(10) or b"") == 500500
    assert total.recv(10) is None
    both = client.stream(SERVICE, "Bidi", sends=True)
    for number in range(300):
        both.send(wrap(bytes((number % 256,)) * number))
        assert both.recv(10) == wrap(bytes((number % 256,)) * number)
    both.close_send()
    assert both.recv(10) is None


def test_our_client_thousand_concurrent_calls(client: Client) -> None:
    def call(number: int) -> bool:
        payload = wrap(b"call %d" % number)
        return client.call(SERVICE, "EchoLater" if number % 2 else "Echo", payload, timeout=60) == payload

    with ThreadPoolExecutor(1000) as pool:
        assert all(pool.map(call, range(1000)))
