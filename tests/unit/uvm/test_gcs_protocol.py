"""Frames of the GCS bridge: split streams decode to the same messages, malformed frames are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.uvm.gcs import protocol
from shim.uvm.gcs.protocol import Decoder, ProtocolError, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text(max_size=10), json_values, max_size=4)
frames = st.tuples(
    st.sampled_from([protocol.REQUEST, protocol.RESPONSE, protocol.NOTIFICATION]),
    st.sampled_from(sorted(protocol.NAMES)),
    st.integers(0, 2**64 - 1),
    bodies,
)


@given(st.lists(frames, max_size=5), st.lists(st.integers(0, 400), max_size=10))
def test_frames_split_anywhere_decode_the_same(sent: list[tuple[int, int, int, dict]], cuts: list[int]) -> None:
    stream = b"".join(encode(*frame) for frame in sent)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    decoder = Decoder()
    received = [m for a, b in pairwise(edges) for m in decoder.feed(stream[a:b])]
    assert [(m.kind, m.procedure, m.id, m.body) for m in received] == sent
    assert not decoder.pending


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_raise_protocol_error(data: bytes) -> None:
    try:
        Decoder().feed(data)
    except ProtocolError:
        pass


def test_frame_layout() -> None:
    frame = encode(protocol.REQUEST, protocol.NEGOTIATE_PROTOCOL, 7, {"MinimumVersion": 4})
    assert frame[:4] == bytes.fromhex("010b1010")
    assert int.from_bytes(frame[4:8], "little") == len(frame)
    assert int.from_bytes(frame[8:16], "little") == 7
    assert frame[16:] == b'{"MinimumVersion":4}\n'


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"\x01\x0b\x10\x20" + (15).to_bytes(4, "little") + bytes(8), "shorter than its own header"),
        (b"\x01\x0b\x10\x20" + (0x10001).to_bytes(4, "little") + bytes(8), "longer than"),
        (b"\x01\x0b\x10\x50" + (16).to_bytes(4, "little") + bytes(8), "unknown kind"),
        (b"\x01\x0b\x10\x20" + (18).to_bytes(4, "little") + bytes(8) + b"[]", "not a JSON object"),
        (b"\x01\x0b\x10\x20" + (17).to_bytes(4, "little") + bytes(8) + b"{", "not JSON"),
        (b"\x01\x0b\x10\x20" + (18).to_bytes(4, "little") + bytes(8) + b"\xff\xff", "not JSON"),
    ],
)
def test_protocol_errors_name_the_cause(frame: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        Decoder().feed(frame)


def test_incomplete_frame_is_pending() -> None:
    decoder = Decoder()
    assert decoder.feed(encode(protocol.REQUEST, protocol.START, 0, {})[:10]) == []
    assert decoder.pending
