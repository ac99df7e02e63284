"""Streaming calls over real sockets: all kinds, and messages that are not consumed."""

from __future__ import annotations

import pytest

from shim.ttrpc import status
from shim.ttrpc.envelope import encode_route
from shim.ttrpc.server import Method
from shim.ttrpc.status import StatusError
from tests.unit.ttrpc.fixtures import SERVICE, RpcLab


def test_all_kinds_of_streams(rpc: RpcLab) -> None:
    with rpc.connect() as client:
        both = client.stream(SERVICE, "Bidi", sends=True)
        for message in (b"a", b"", b"c"):
            both.send(message)
            assert both.recv(10) == message
        both.close_send()
        both.close_send()
        assert both.recv(10) is None
        assert both.recv(10) is None
        with pytest.raises(ValueError, match="closed"):
            both.send(b"x")
        total = client.stream(SERVICE, "Sum", b"100", sends=True)
        for number in range(10):
            total.send(b"%d" % number)
        total.close_send()
        assert list(total) == [b"145"]
        assert list(client.stream(SERVICE, "Count", b"1000", sends=False)) == [b"%d" % n for n in range(1000)]
        broken = client.stream(SERVICE, "Sum", b"not a number", sends=False)
        with pytest.raises(StatusError, match="invalid literal"):
            broken.recv(10)
        missing = client.stream(SERVICE, "Missing", sends=True)
        with pytest.raises(StatusError, match="Unimplemented"):
            missing.recv(10)
        with pytest.raises(TimeoutError):
            client.stream(SERVICE, "Bidi", sends=True).recv(0.01)


def test_stream_with_full_queue_fails_alone(rpc: RpcLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from shim.ttrpc import messages

    monkeypatch.setattr(messages, "LIMIT", 1 << 20)
    rpc.server.routes[encode_route(SERVICE, "Deaf")] = Method.stream(lambda stream: rpc.block(stream))
    with rpc.connect() as client:
        stream = client.stream(SERVICE, "Deaf", sends=True)
        with pytest.raises(StatusError):
            while True:
                stream.send(bytes(100_000))
        with pytest.raises(StatusError) as caught:
            stream.recv(10)
        assert caught.value.code == status.RESOURCE_EXHAUSTED
        assert client.call(SERVICE, "Echo", b"x") == b"x"
        rpc.release.set()
