"""Untrusted input that comes over time: events of HCS, the messages of a guest, handovers of pods.

Each is a function of bytes, as in `tests.fuzz.parsers`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from shim.hcs_bindings import events, system
from shim.hcs_bindings.errors import AlreadyClosed, HcsError
from shim.hcs_bindings.events import SERVICE_DISCONNECT, SYSTEM_EXITED, Exit, Subscription
from shim.platform.linux.standby import DESCRIPTORS, Handover
from shim.uvm.gcs import protocol
from shim.uvm.gcs.bridge import Bridge, BridgeError
from shim.uvm.gcs.connection import UNKNOWN_EXIT, _exit_code

# Steps of one conversation.
_MOST = 64


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(byte, piece): the input as steps, each with a length of its own."""
    at = 0
    for _ in range(_MOST):
        if at + 2 > len(data):
            return
        step, size = data[at], data[at + 1]
        yield step, data[at + 2 : at + 2 + size]
        at += 2 + size


def hcs_events(data: bytes) -> None:
    """Malformed, repeated and late events, in any order with waits and the close of the handle: an exit is reported
    once to each callback, never changes, and is not made up by a close."""
    subscription = Subscription("fuzz", SYSTEM_EXITED, system._decode_exit)
    counts: list[int] = []
    others = 0
    is_released = False
    before, events.post = events.post, lambda function, *arguments: function(*arguments)

    def on_event(type: int, text: str) -> None:
        nonlocal others
        others += 1

    try:
        subscription.on_event(on_event)
        for step, piece in _pieces(data):
            known = subscription.exit
            if step % 6 == 0:
                subscription.deliver(SYSTEM_EXITED, piece.decode("utf-8", "replace"))
            elif step % 6 == 1:
                subscription.deliver(SERVICE_DISCONNECT, "")
            elif step % 6 == 2:
                subscription.deliver(int.from_bytes(piece[:4], "little"), piece[4:].decode("utf-8", "replace"))
            elif step % 6 == 3:
                _add_callback(subscription, counts, is_released)
            elif step % 6 == 4:
                subscription.release()
                is_released = True
            else:
                _wait(subscription, is_released)
            assert known is None or subscription.exit is known
            assert all(count == (subscription.exit is not None) for count in counts) or is_released
            assert all(count <= 1 for count in counts)
    finally:
        events.post = before


def _add_callback(subscription: Subscription, counts: list[int], is_released: bool) -> None:
    index = len(counts)
    counts.append(0)

    def exited(exit: Exit) -> None:
        assert exit is subscription.exit
        counts[index] += 1

    try:
        subscription.on_exit(exited)
    except AlreadyClosed:
        assert is_released and subscription.exit is None


def _wait(subscription: Subscription, is_released: bool) -> None:
    try:
        assert subscription.wait(0) is subscription.exit
    except AlreadyClosed:
        assert is_released
    except HcsError:
        assert subscription.exit is None and not is_released


class _Guest:
    """A connection that delivers the input in pieces, and takes whatever is sent."""

    def __init__(self, data: bytes) -> None:
        self._pieces = iter((data[: len(data) // 3], data[len(data) // 3 :]))
        self.closed = 0

    def recv(self, size: int, /) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")

    def sendall(self, data: bytes, /) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def guest_bridge(data: bytes) -> None:
    """A guest that sends anything while a call of each kind waits: at the end the bridge is closed once, and each call
    has ended once, with a body that can be used or an error."""
    guest = _Guest(data)
    closed: list[BridgeError] = []
    notified: list[dict[str, Any]] = []
    ended: dict[int, int] = {}
    bridge = Bridge(guest, notified.append, closed.append)

    def on_done(procedure: int, number: int) -> Callable[[dict[str, Any] | None, BridgeError | None], None]:
        def done(body: dict[str, Any] | None, error: BridgeError | None) -> None:
            assert (body is None) != (error is None)
            ended[number] = ended.get(number, 0) + 1
            if body is not None and procedure == protocol.WAIT_FOR_PROCESS:
                assert UNKNOWN_EXIT <= _exit_code(body) <= 0xFFFFFFFF or _exit_code(body) >= -(1 << 31)

        return done

    for number, procedure in enumerate(protocol.NAMES):
        assert bridge.submit(procedure, {}, on_done(procedure, number)) == number
    bridge._read()
    assert len(closed) == guest.closed == 1
    assert ended == dict.fromkeys(range(len(protocol.NAMES)), 1) and not bridge._calls
    for body in notified:
        assert isinstance(body.get("ContainerId", ""), str | None)


def handovers(data: bytes) -> None:
    """What a `start` sends to a standby or a shared daemon. The first byte is the number of descriptors, and whether
    the first of them is a socket. Those of a message that is refused are closed."""
    if not data:
        return
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(data[0] % (max(DESCRIPTORS) + 2))]
    if descriptors and data[0] & 0x80 == 0:
        os.close(descriptors[0])
        descriptors[0] = socket.socket(socket.AF_UNIX).detach()
    ours, theirs = socket.socketpair()
    try:
        handover = Handover(ours, data[1:], list(descriptors))
    except (OSError, ValueError):
        assert not [one for one in descriptors if _is_open(one)]
    else:
        assert all(isinstance(one, str) for one in (handover.bundle, *handover.arguments))
        handover.listener.close()
        os.close(handover.panic_log)
        if handover.options >= 0:
            os.close(handover.options)
    finally:
        ours.close()
        theirs.close()


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
