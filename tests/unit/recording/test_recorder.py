"""The queue of a recording is limited, whatever a guest sends."""

from __future__ import annotations

from _thread import allocate_lock

from shim.recording import recorder
from shim.recording.recorder import Recorder


def new_recorder() -> Recorder:
    """One without a connection."""
    one = Recorder.__new__(Recorder)
    one._lock, one._queue, one._guest_open = allocate_lock(), [], {}
    one._guest_bytes = one._dropped = 0
    return one


def test_messages_of_a_guest_are_limited_by_their_bytes() -> None:
    """50,000 messages of 64 KiB would be gigabytes."""
    one = new_recorder()
    size = 64 << 10
    for _ in range(1000):
        one.guest("notification", 0, 0, {"ContainerId": "x"}, size)
    fits = recorder.MAX_GUEST_BYTES // size
    assert len(one._queue) == fits and one._dropped == 1000 - fits
    one.guest("request", 1, 0, {}, 0)
    one.guest("response", 1, 0, {}, size)
    assert one._dropped == 1001 - fits
    one.add({"kind": "rpc"})
    assert len(one._queue) == fits + 1, "what the shim itself does is still recorded"


def test_entries_are_limited_in_number() -> None:
    one = new_recorder()
    for _ in range(recorder.MAX_ENTRIES + 5):
        one.add({"kind": "rpc"})
    assert len(one._queue) == recorder.MAX_ENTRIES and one._dropped == 5
