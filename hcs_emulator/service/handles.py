"""Handles of clients, and what happens when a client closes them or dies.

A handle belongs to the connection that opened it. Its target decides what closing means: a compute system may terminate
with its last handle, a process keeps running.
"""

from __future__ import annotations

import itertools
from typing import Protocol, TypeVar

from hcs_emulator.service.errors import ERROR_INVALID_HANDLE, HcsError


class EventSink(Protocol):
    """What handles need of a client."""

    @property
    def pid(self) -> int: ...

    def send_event(self, handle: int, event_type: int, document: str | None = None) -> None: ...


class Target(Protocol):
    """The object that a handle is open on."""

    def handle_closed(self, handle: Handle) -> None: ...


T = TypeVar("T")


class Handle:
    """One open handle. `listening` is set when the client registers a callback; only then are events sent to it."""

    __slots__ = ("client", "listening", "number", "target")

    def __init__(self, number: int, client: EventSink, target: Target) -> None:
        self.number = number
        self.client = client
        self.target = target
        self.listening = False


class HandleTable:
    """All handles of all clients. Numbers are never reused, so a stale handle cannot reach another target."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._by_client: dict[EventSink, dict[int, Handle]] = {}

    def open(self, client: EventSink, target: Target) -> Handle:
        handle = Handle(next(self._numbers), client, target)
        self._by_client.setdefault(client, {})[handle.number] = handle
        return handle

    def find(self, client: EventSink, number: int, kind: type[T]) -> tuple[Handle, T]:
        """The client's handle and its target, which must be of this kind."""
        handle = self._by_client.get(client, {}).get(number)
        if handle is None or not isinstance(handle.target, kind):
            raise HcsError(ERROR_INVALID_HANDLE, f"handle {number} is not open, or is not one of a {kind.__name__}")
        return handle, handle.target

    def close(self, client: EventSink, number: int) -> None:
        handles = self._by_client.get(client, {})
        handle = handles.pop(number, None)
        if handle is None:
            raise HcsError(ERROR_INVALID_HANDLE, f"handle {number} is not open")
        if not handles:
            del self._by_client[client]
        handle.target.handle_closed(handle)

    def close_all(self, client: EventSink) -> None:
        for handle in self._by_client.pop(client, {}).values():
            handle.target.handle_closed(handle)

    def holders(self, target: Target) -> list[int]:
        """The pids of the clients that have a handle open on the target."""
        clients = self._by_client.items()
        return sorted({client.pid for client, handles in clients for one in handles.values() if one.target is target})

    def count(self) -> int:
        return sum(len(handles) for handles in self._by_client.values())
