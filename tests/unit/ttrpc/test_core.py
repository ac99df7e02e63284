"""Frames, envelopes and stream rules of ttrpc, without I/O."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.api.ttrpc import KeyValue, Request, Response, Status
from shim.ttrpc import envelope
from shim.ttrpc.core import (
    DATA,
    HEADER,
    NO_DATA,
    OVERSIZED,
    REMOTE_CLOSED,
    REMOTE_OPEN,
    REQUEST,
    RESPONSE,
    Decoder,
    encode_frame,
    encode_response_frame,
)
from shim.ttrpc.status import INTERNAL, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED
from shim.ttrpc.streams import ANSWERED, MESSAGE, OPENED, REFUSED, ClientStreams, ServerStreams

SMALL = 64  # a limit that makes oversized frames cheap to try

ids = st.integers(0, 2**32 - 1)
frames = st.tuples(ids, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=SMALL * 2))
byte_streams = st.one_of(
    st.binary(max_size=400),
    st.lists(frames, max_size=8).map(lambda many: b"".join(encode_frame(*one) for one in many)),
    st.tuples(st.lists(frames, max_size=8), st.integers(0, 300)).map(
        lambda cut: b"".join(encode_frame(*one) for one in cut[0])[: cut[1]]
    ),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(marks)]


@given(byte_streams, st.lists(st.integers(0, 10_000), max_size=20))
def test_any_split_gives_the_same_frames(data: bytes, cuts: list[int]) -> None:
    whole = Decoder(SMALL).feed(data)
    decoder = Decoder(SMALL)
    assert [frame for piece in pieces(data, cuts) for frame in decoder.feed(piece)] == whole
    decoder = Decoder(SMALL)
    assert [frame for byte in data for frame in decoder.feed(bytes((byte,)))] == whole
    assert decoder.buffered < HEADER + SMALL


@given(st.lists(st.tuples(ids, st.sampled_from([1, 2, 3]), st.integers(0, 255), st.binary(max_size=SMALL))))
def test_encoded_frames_decode_to_the_same(many: list[tuple[int, int, int, bytes]]) -> None:
    assert Decoder(SMALL).feed(b"".join(encode_frame(*one) for one in many)) == many


def events_of(machine: Any, parts: list[bytes]) -> list[Any]:
    return [event for part in parts for event in machine.receive(part)]


requests = st.builds(
    Request,
    service=st.text(max_size=5),
    method=st.text(max_size=5),
    payload=st.binary(max_size=10),
    timeout_nano=st.integers(-(2**63), 2**63 - 1),
    metadata=st.lists(st.builds(KeyValue, key=st.text(max_size=5), value=st.text(max_size=5)), max_size=3),
)
few_ids = st.integers(0, 6)
conversations = st.lists(
    st.one_of(
        st.builds(encode_frame, few_ids, st.just(REQUEST), st.integers(0, 7), requests.map(lambda r: r.encode())),
        st.builds(encode_frame, few_ids, st.just(DATA), st.integers(0, 7), st.binary(max_size=3)),
        st.builds(encode_frame, few_ids, st.integers(0, 5), st.integers(0, 7), st.binary(max_size=80)),
    ),
    max_size=12,
).map(b"".join)


@given(conversations, st.lists(st.integers(0, 10_000), max_size=20))
@settings(max_examples=300)
def test_any_split_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert events_of(ServerStreams(SMALL), pieces(data, cuts)) == events_of(ServerStreams(SMALL), [data])
    clients = [ClientStreams(SMALL), ClientStreams(SMALL)]
    for client in clients:
        assert [client.open(), client.open(True), client.open(True)] == [1, 3, 5]
    assert events_of(clients[0], pieces(data, cuts)) == events_of(clients[1], [data])


@given(conversations)
def test_each_stream_ends_at_most_once(data: bytes) -> None:
    machine = ServerStreams(SMALL)
    alive: set[int] = set()
    for event in machine.receive(data):
        if event[0] == OPENED:
            assert event[1] not in alive
            alive.add(event[1])
        elif event[0] == MESSAGE:
            assert event[1] in alive
        elif event[1] not in machine.active:
            alive.discard(event[1])
        assert machine.active == alive


def test_example_of_the_wire_format() -> None:
    route = envelope.encode_route("containerd.task.v2.Task", "Connect")
    request = envelope.encode_request(route, b"\x0a\x02c1", 0, [("containerd-namespace-ttrpc", "default")])
    assert encode_frame(1, REQUEST, 0, request).hex() == (
        "0000004f000000010100"
        + "0a17" + b"containerd.task.v2.Task".hex() + "1207" + b"Connect".hex() + "1a04" + "0a02" + b"c1".hex()
        + "2a25" + "0a1a" + b"containerd-namespace-ttrpc".hex() + "1207" + b"default".hex()
    )  # fmt: skip
    answer = encode_response_frame(1, envelope.encode_response(bytes.fromhex("089221109221")))
    assert answer.hex() == "000000080000000102001206089221109221"
    assert encode_response_frame(1, envelope.encode_response(b"")).hex() == "00000000000000010200"
    error = encode_response_frame(1, envelope.encode_error(NOT_FOUND, "task c1: not found"))
    assert error.hex() == "000000180000000102000a1608051212" + b"task c1: not found".hex()


@given(requests)
def test_requests_decode_as_by_generated_codec(request: Request) -> None:
    route, payload, timeout, metadata = envelope.decode_request(request.encode())
    assert envelope.route_names(route) == (request.service, request.method)
    assert route == envelope.encode_route(request.service, request.method)
    assert (payload, timeout) == (request.payload, request.timeout_nano)
    assert metadata == [(entry.key, entry.value) for entry in request.metadata]
    assert envelope.encode_request(route, payload, timeout, metadata) == request.encode()


@given(st.one_of(st.binary(max_size=60), requests.map(lambda r: r.encode()).flatmap(
    lambda data: st.tuples(st.just(data), st.integers(0, 200), st.integers(0, 255)).map(
        lambda t: t[0] if not t[0] else bytes(
            t[2] if at == t[1] % len(t[0]) else byte for at, byte in enumerate(t[0])
        )
    )
)))  # fmt: skip
def test_malformed_requests_decode_as_by_generated_codec(data: bytes) -> None:
    try:
        route, payload, timeout, metadata = envelope.decode_request(data)
        names = envelope.route_names(route)
    except envelope.DecodeError:
        with pytest.raises(envelope.DecodeError):
            Request.decode(data)
        return
    request = Request.decode(data)
    assert names == (request.service, request.method)
    assert (payload, timeout) == (request.payload, request.timeout_nano)
    assert metadata == [(entry.key, entry.value) for entry in request.metadata]


@given(st.integers(-(2**31), 2**31 - 1), st.text(max_size=200), st.binary(max_size=300))
def test_responses_round_trip(code: int, text: str, payload: bytes) -> None:
    assert envelope.decode_response(envelope.encode_response(payload)) == (0, "", payload)
    assert envelope.decode_response(envelope.encode_error(code, text)) == (code, text, b"")
    both = Response(status=Status(code=code, message=text), payload=payload)
    assert envelope.decode_response(both.encode()) == (code, text, payload)


# -- the rules, one by one

HELLO = Request(service="s", method="m").encode()


def one(machine: ServerStreams, stream: int, kind: int, flags: int = 0, data: bytes = b"") -> Any:
    events = list(machine.receive(encode_frame(stream, kind, flags, data)))
    assert len(events) <= 1
    return events[0] if events else None


def test_stream_id_must_be_odd_and_unused() -> None:
    machine = ServerStreams()
    assert one(machine, 2, REQUEST, 0, HELLO)[:3] == (REFUSED, 2, INVALID_ARGUMENT)
    assert one(machine, 0, DATA)[:3] == (REFUSED, 0, INVALID_ARGUMENT)
    assert one(machine, 5, REQUEST, 0, HELLO)[:2] == (OPENED, 5)
    assert one(machine, 3, REQUEST, 0, HELLO)[:2] == (OPENED, 3), "order is not insisted on"
    assert one(machine, 5, REQUEST, 0, HELLO)[:3] == (REFUSED, 5, INVALID_ARGUMENT)
    assert machine.active == {3, 5}, "the call that uses the id continues"
    assert machine.end(5)
    assert not machine.end(5)
    assert one(machine, 5, REQUEST, 0, HELLO)[:2] == (OPENED, 5)


def test_server_ignores_client_frames() -> None:
    machine = ServerStreams()
    assert one(machine, 1, RESPONSE, 0, HELLO) is None
    assert one(machine, 1, 99, 255, b"x") is None


def test_data_without_stream_is_rejected() -> None:
    machine = ServerStreams()
    assert one(machine, 1, DATA)[:3] == (REFUSED, 1, INVALID_ARGUMENT)
    one(machine, 1, REQUEST, 0, HELLO)
    assert one(machine, 1, DATA)[:3] == (REFUSED, 1, INVALID_ARGUMENT), "a unary call has one frame"
    assert machine.active == set()


def test_stream_open_to_half_close() -> None:
    machine = ServerStreams()
    assert one(machine, 1, REQUEST, REMOTE_OPEN, HELLO)[0] == OPENED
    assert one(machine, 1, DATA, 0, b"a") == (MESSAGE, 1, False, b"a")
    assert one(machine, 1, DATA, 0, b"") == (MESSAGE, 1, False, b""), "an empty message is a message"
    assert one(machine, 1, DATA, REMOTE_CLOSED | NO_DATA) == (MESSAGE, 1, True, None)
    assert one(machine, 1, DATA, 0, b"late")[:3] == (REFUSED, 1, INVALID_ARGUMENT)
    assert machine.active == set()


def test_closing_frame_with_data_is_rejected() -> None:
    machine = ServerStreams()
    one(machine, 1, REQUEST, REMOTE_OPEN, HELLO)
    assert one(machine, 1, DATA, REMOTE_CLOSED, b"x")[:3] == (REFUSED, 1, INVALID_ARGUMENT)


def test_oversized_frame_ends_only_its_stream() -> None:
    machine = ServerStreams(SMALL)
    one(machine, 1, REQUEST, REMOTE_OPEN, HELLO)
    one(machine, 3, REQUEST, REMOTE_OPEN, HELLO)
    long = encode_frame(1, DATA, 0, b"x" * (SMALL + 1))
    events = list(machine.receive(long + encode_frame(3, DATA, 0, b"fine")))
    assert [event[:3] for event in events] == [(REFUSED, 1, RESOURCE_EXHAUSTED), (MESSAGE, 3, False)]
    assert machine.active == {3}
    assert Decoder(SMALL).feed(long)[0][:2] == (1, OVERSIZED)


def test_client_stream_rules() -> None:
    client = ClientStreams(SMALL)
    unary, other, streaming = client.open(), client.open(), client.open(True)
    assert (unary, other, streaming) == (1, 3, 5)
    assert list(client.receive(encode_response_frame(9, b""))) == [], "a response without a waiting call"
    (wrong,) = client.receive(encode_frame(unary, DATA, 0, b"x"))
    assert wrong[:3] == (ANSWERED, unary, INTERNAL)
    (broken,) = client.receive(encode_response_frame(other, b"\xff"))
    assert broken[:3] == (ANSWERED, other, INTERNAL)
    (long,) = client.receive(encode_frame(streaming, DATA, 0, b"x" * (SMALL + 1)))
    assert long[:3] == (ANSWERED, streaming, RESOURCE_EXHAUSTED)
    last = client.open(True)
    assert list(client.receive(encode_frame(last, DATA, REMOTE_CLOSED, b"bye"))) == [(MESSAGE, last, True, b"bye")]
    assert not client.active
