"""The frames of the bridge, without I/O: bytes to messages, and back. PROTOCOL.md describes them."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REQUEST = 0x10000000
RESPONSE = 0x20000000
NOTIFICATION = 0x30000000
_KIND_MASK = 0xF0000000

CREATE = 0x00100101
START = 0x00100201
SHUTDOWN_GRACEFUL = 0x00100301
SHUTDOWN_FORCED = 0x00100401
EXECUTE_PROCESS = 0x00100501
WAIT_FOR_PROCESS = 0x00100601
SIGNAL_PROCESS = 0x00100701
RESIZE_CONSOLE = 0x00100801
GET_PROPERTIES = 0x00100901
MODIFY_SETTINGS = 0x00100A01
NEGOTIATE_PROTOCOL = 0x00100B01
DUMP_STACKS = 0x00100C01
DELETE_CONTAINER_STATE = 0x00100D01
MODIFY_SERVICE_SETTINGS = 0x00200101
CONTAINER_NOTIFICATION = 0x00100101

NAMES = {
    CREATE: "Create",
    START: "Start",
    SHUTDOWN_GRACEFUL: "ShutdownGraceful",
    SHUTDOWN_FORCED: "ShutdownForced",
    EXECUTE_PROCESS: "ExecuteProcess",
    WAIT_FOR_PROCESS: "WaitForProcess",
    SIGNAL_PROCESS: "SignalProcess",
    RESIZE_CONSOLE: "ResizeConsole",
    GET_PROPERTIES: "GetProperties",
    MODIFY_SETTINGS: "ModifySettings",
    NEGOTIATE_PROTOCOL: "NegotiateProtocol",
    DUMP_STACKS: "DumpStacks",
    DELETE_CONTAINER_STATE: "DeleteContainerState",
    MODIFY_SERVICE_SETTINGS: "ModifyServiceSettings",
}

HEADER = 16
# What the guest may send in one frame. What we send is bounded by the documents themselves.
MAX_INCOMING = 0x10000
NULL_CONTAINER = "00000000-0000-0000-0000-000000000000"
VERSION = 4


class ProtocolError(Exception):
    """The guest violated the protocol; the stream cannot be used any more."""


class Message:
    """One frame: its kind and procedure, the id that ties a response to its request, the JSON body, and its size."""

    __slots__ = ("body", "id", "kind", "procedure", "size")

    def __init__(self, kind: int, procedure: int, id: int, body: dict[str, Any], size: int) -> None:
        self.kind = kind
        self.procedure = procedure
        self.id = id
        self.body = body
        self.size = size

    def __repr__(self) -> str:
        name = NAMES.get(self.procedure, hex(self.procedure))
        return f"Message({self.kind:#x}, {name}, id={self.id}, {self.body!r})"


def encode(kind: int, procedure: int, id: int, body: dict[str, Any]) -> bytes:
    return frame(kind, procedure, id, encode_body(body))


def encode_body(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def frame(kind: int, procedure: int, id: int, data: bytes) -> bytes:
    header = (kind | procedure).to_bytes(4, "little") + (HEADER + len(data)).to_bytes(4, "little")
    return header + id.to_bytes(8, "little") + data


class Decoder:
    """Feed it received bytes; it returns the messages that are complete."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = MAX_INCOMING) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        messages = []
        while len(self._buffer) >= HEADER:
            size = int.from_bytes(self._buffer[4:8], "little")
            if size < HEADER:
                raise ProtocolError(f"a frame of {size} bytes is shorter than its own header")
            if size > self._limit:
                raise ProtocolError(f"a frame of {size} bytes is longer than the {self._limit} that are allowed")
            if len(self._buffer) < size:
                break
            messages.append(self._message(bytes(self._buffer[:size])))
            del self._buffer[:size]
        return messages

    @property
    def pending(self) -> bool:
        """Whether a frame is incomplete: an end of stream now is an error."""
        return bool(self._buffer)

    @staticmethod
    def _message(frame: bytes) -> Message:
        type_ = int.from_bytes(frame[:4], "little")
        kind = type_ & _KIND_MASK
        if kind not in (REQUEST, RESPONSE, NOTIFICATION):
            raise ProtocolError(f"a frame of unknown kind: {type_:#010x}")
        try:
            body = json.loads(frame[HEADER:]) if len(frame) > HEADER else {}
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"the body of a frame is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise ProtocolError("the body of a frame is not a JSON object")
        return Message(kind, type_ & ~_KIND_MASK & 0xFFFFFFFF, int.from_bytes(frame[8:16], "little"), body, len(frame))
