"""The agent's end of the bridge: one connection at a time, one thread per request, responses in any order."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm import bridge_frames as frames
from hcs_emulator.vm.linux.agent import background, log, messages, rules, vsock
from hcs_emulator.vm.linux.agent.errors import (
    E_FAIL,
    E_NOTIMPL,
    UNSUPPORTED_VERSION,
    GuestError,
    RuleError,
    panic,
    with_code,
)
from hcs_emulator.vm.linux.agent.guest import Answer, Guest

VERSION = 4
RECONNECT_INTERVAL = 0.1
NOTIFICATION = 0x30100101
CAPABILITIES = {
    "SupportedSchemaVersions": [{"Major": 2, "Minor": 1}],
    "RuntimeOsType": "Linux",
    "GuestDefinedCapabilities": {
        "NamespaceAddRequestSupported": True,
        "SignalProcessSupported": True,
        "DumpStacksSupported": True,
        "DeleteContainerStateSupported": True,
    },
}

NAMES = {
    frames.CREATE: "Create",
    frames.START: "Start",
    frames.SHUTDOWN_GRACEFUL: "ShutdownGraceful",
    frames.SHUTDOWN_FORCED: "ShutdownForced",
    frames.EXECUTE_PROCESS: "ExecuteProcess",
    frames.WAIT_FOR_PROCESS: "WaitForProcess",
    frames.SIGNAL_PROCESS: "SignalProcess",
    frames.RESIZE_CONSOLE: "ResizeConsole",
    frames.GET_PROPERTIES: "GetProperties",
    frames.MODIFY_SETTINGS: "ModifySettings",
    frames.NEGOTIATE: "NegotiateProtocol",
    frames.DUMP_STACKS: "DumpStacks",
    frames.DELETE_CONTAINER_STATE: "DeleteContainerState",
}

Message = dict[str, Any]


class Bridge:
    """`handlers` makes the guest, which sends its notifications through this bridge."""

    def __init__(self, make_guest: Callable[[Callable[[Message], None]], Guest], enabled: bool) -> None:
        self._guest = make_guest(self.notify)
        self._enabled = enabled  # gcs has no procedures at all without its flag -v4
        self._connection: Connection | None = None
        self._pending: list[Message] = []
        self._lock = threading.Lock()

    def run(self) -> None:
        """Serve connections one after the other. The VM's containers outlive a connection."""
        while True:
            try:
                link = vsock.connect(vsock.BRIDGE_PORT)
            except OSError as error:
                log.warning("failed to dial host, retrying", error=str(error))
                time.sleep(RECONNECT_INTERVAL)
                continue
            connection = Connection(link, self._guest, self._enabled)
            with self._lock:
                self._connection = connection
                pending, self._pending = self._pending, []
            log.info("bridge connected, serving")
            for message in pending:
                connection.send(NOTIFICATION, 0, message)
            failure = connection.serve()
            with self._lock:
                self._connection = None
            log.warning("bridge connection lost, will reconnect", error=failure)
            time.sleep(RECONNECT_INTERVAL)

    def notify(self, message: Message) -> None:
        """Send a notification now, or when there is a connection again."""
        with self._lock:
            connection = self._connection
            if connection is None:
                log.warning("bridge not connected, queueing container notification", cid=message["ContainerId"])
                self._pending.append(message)
                return
        connection.send(NOTIFICATION, 0, message)


class Connection:
    def __init__(self, link: socket.socket, guest: Guest, enabled: bool) -> None:
        self._link = link
        self._guest = guest
        self._enabled = enabled
        self._lock = threading.Lock()
        self._version = 0
        self._next_id = 0

    def serve(self) -> str:
        """Read requests until the connection ends; returns why."""
        reader = frames.Reader()
        failure = "EOF"
        try:
            while data := self._link.recv(1 << 16):
                for frame_type, number, body in reader.feed(data):
                    self._dispatch(frame_type, number, body)
        except frames.FrameError as error:
            panic(f"runtime error: makeslice: len out of range: {error}")
        except OSError as error:
            failure = str(error)
        self._link.close()
        return failure

    def _dispatch(self, frame_type: int, number: int, body: bytes) -> None:
        expected = self._next_id
        self._next_id = max(number + 1, expected)
        version = self._version
        if frame_type == frames.REQUEST | frames.NEGOTIATE:
            self._respond(frame_type, number, body, expected, version)  # requests after it have the new version
            return
        background.start(self._respond, frame_type, number, body, expected, version)

    def _respond(self, frame_type: int, number: int, body: bytes, expected: int, version: int) -> None:
        activity = ""
        answer = Answer()
        try:
            base = json.loads(body)
            activity = str(base.get("ActivityId") or "")
        except (ValueError, AttributeError):
            pass  # the procedure reports it
        try:
            # Larger is no violation: a fault of the emulator can drop requests before the guest sees them.
            if number < expected or (expected == 0 and number != 0):
                text = f"the request's id is {number}, not {expected}: ids count from 0 on every connection"
                raise RuleError(rules.REQUEST_IDS, text)
            answer = self._handle(frame_type, body, version)
            response = {"Result": 0, **answer.message}
        except GuestError as error:
            if isinstance(error, RuleError):
                log.error("the host broke a rule", rule=error.rule, error=str(error))
            response = error_members(error)
        except Exception as error:
            log.error("a request failed unexpectedly", error=f"{type(error).__name__}: {error}")
            response = error_members(GuestError(f"{type(error).__name__}: {error}"))
        if activity:
            response["ActivityId"] = activity
        self.send((frame_type & frames.PROCEDURE) | frames.RESPONSE, number, response)
        if answer.after is not None:
            answer.after()

    def _handle(self, frame_type: int, body: bytes, version: int) -> Answer:
        procedure = frame_type & frames.PROCEDURE
        if self._enabled and frame_type & frames.KIND == frames.REQUEST:
            if procedure == frames.NEGOTIATE and not version:
                return self._negotiate(body)
            if version and procedure in self._guest.procedures:
                shape, handle = self._guest.procedures[procedure]
                request = messages.decode(body, shape, "failed to unmarshal JSON in message")
                return handle(request | {"Text": body.decode(errors="replace")})
        raise with_code(E_NOTIMPL, f"bridge: function not supported, header type: {_name(frame_type)}")

    def _negotiate(self, body: bytes) -> Answer:
        request = messages.decode(body, messages.NEGOTIATE, "failed to unmarshal JSON in message")
        if request["MaximumVersion"] < VERSION or request["MinimumVersion"] > VERSION:
            raise with_code(UNSUPPORTED_VERSION)
        self._version = VERSION
        return Answer({"Version": VERSION, "Capabilities": CAPABILITIES})

    def send(self, frame_type: int, number: int, message: Message) -> None:
        try:
            data = frames.encode(frame_type, number, message)
        except frames.TooLargeError as error:
            failure = error_members(GuestError(f"the answer is too large for the bridge: {error}"))
            data = frames.encode(frame_type, number, {"ActivityId": message.get("ActivityId", "")} | failure)
        try:
            with self._lock:
                self._link.sendall(data)
        except OSError as error:
            log.debug("bridge: failed writing message", error=str(error))


def _name(frame_type: int) -> str:
    """The type of a message as gcs writes it."""
    kind, procedure = frame_type & frames.KIND, frame_type & frames.PROCEDURE
    if procedure in NAMES and kind in (frames.REQUEST, frames.RESPONSE):
        return f"ComputeSystem{'Response' if kind == frames.RESPONSE else ''}{NAMES[procedure]}V1"
    return "ComputeSystemNotificationV1" if frame_type == NOTIFICATION else str(frame_type)


def error_members(error: GuestError) -> Message:
    result = (error.hresult or E_FAIL) - (1 << 32)
    text = str(error)
    record = {"Result": result, "Message": text, "ModuleName": "gcs", "FileName": "", "Line": 0xFFFFFFFF}
    return {"Result": result, "ErrorMessage": text, "ErrorRecords": [record]}
