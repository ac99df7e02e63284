"""The registry of exports, and a call's arguments by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hcs_emulator.service.errors import ERROR_INVALID_PARAMETER, HCS_E_INVALID_JSON, HcsError
from hcs_emulator.service.handles import Handle, Target
from hcs_emulator.service.host import Host
from hcs_emulator.service.schema.process import NO_OPTIONS
from hcs_emulator.service.schema.shapes import Shape, check, parse
from hcs_emulator.service.transport.server import Client
from hcs_emulator.service.transport.wire import CALLS_BY_NAME, Reply, Request

INFINITE = 0xFFFFFFFF
T = TypeVar("T")


class Call:
    """One call: its client, and its arguments by the names in calls.def."""

    def __init__(self, host: Host, client: Client, request: Request) -> None:
        self.host = host
        self.client = client
        self.name = request.call
        self.handle_number = request.handle
        self.number = request.number
        self._strings = request.strings
        self._names = CALLS_BY_NAME[request.call].strings

    def text(self, name: str) -> str | None:
        index = self._names.index(name)
        return self._strings[index] if index < len(self._strings) else None

    def required(self, name: str) -> str:
        text = self.text(name)
        if text is None:
            raise HcsError(ERROR_INVALID_PARAMETER, f"[{self.name}] {name} is NULL", data=name)
        return text

    def rest(self) -> list[str]:
        """The strings of the `*name` argument."""
        first = next(index for index, name in enumerate(self._names) if name.startswith("*"))
        return [text or "" for text in self._strings[first:]]

    def layer_paths(self) -> list[str]:
        """*layers are pairs of id and path."""
        return self.rest()[1::2]

    def document(self, name: str, *, code: int = HCS_E_INVALID_JSON) -> Any:
        return parse(self.text(name), self.name, code=code)

    def options(self, shape: Shape = NO_OPTIONS) -> Any:
        """An options document: optional, validated if present."""
        document = self.document("options")
        if document is not None:
            check(shape, document, self.name, self.host.build)
        return document

    def target(self, kind: type[T]) -> T:
        return self.host.handles.find(self.client, self.handle_number, kind)[1]

    def handle(self, kind: type[T]) -> tuple[Handle, T]:
        return self.host.handles.find(self.client, self.handle_number, kind)

    def open(self, target: Target) -> Handle:
        return self.host.handles.open(self.client, target)

    def close(self, kind: type[Any]) -> Reply:
        self.host.handles.find(self.client, self.handle_number, kind)
        self.host.handles.close(self.client, self.handle_number)
        return Reply()

    def timeout(self) -> float | None:
        return None if self.number == INFINITE else self.number / 1000


Export = Callable[[Call], Awaitable[Reply]]

EXPORTS: dict[str, Export] = {}
# Exports that older builds lack.
SINCE: dict[str, int] = {}


def export(*names: str, since: int = 0) -> Callable[[Export], Export]:
    def register(function: Export) -> Export:
        for name in names:
            assert name in CALLS_BY_NAME and name not in EXPORTS, name
            EXPORTS[name] = function
            SINCE[name] = since
        return function

    return register
