"""A connection to the Guest Compute Service (GCS): its messages as calls. They are the same for every kind of guest.

Responses that are failures become HcsError, so that callers need not know whether a container runs on the host or in a
VM. When the connection is lost, everything in the guest is lost: calls fail at once as they do for a system that has
stopped, processes exit with an unknown code, containers have exited.
"""

from __future__ import annotations

import json
from threading import Lock

from shim.container.base import run_all
from shim.hcs_bindings.errors import (
    NOT_FOUND,
    OPERATION_TIMEOUT,
    SYSTEM_ALREADY_STOPPED,
    UNEXPECTED,
    HcsError,
    normalise,
)
from shim.spans import GUEST, span
from shim.uvm.gcs import members, protocol
from shim.uvm.gcs.bridge import RPC_TIMEOUT, Bridge, BridgeError, GuestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.gcs.bridge import Stream

    Document = dict[str, Any]

#: The id of the VM itself where messages name a container.
THE_VM = protocol.NULL_CONTAINER
NO_ACTIVITY = "00000000-0000-0000-0000-000000000000"
NO_TIMEOUT = 0xFFFFFFFF
UNKNOWN_EXIT = -1
# How long the guest may take to acknowledge that a container is to shut down.
SHUTDOWN_SECONDS = 30.0


class LinuxGuestError(HcsError):
    """A failure that a Linux guest explains: its words alone, such as runc's. What the code means on Windows would
    mislead."""

    def __str__(self) -> str:
        return f"{self.operation}: {self.detail}"


class GcsConnection:
    """`on_closed` is called once, from any thread, with the reason in words."""

    def __init__(self, stream: Stream, on_closed: Callable[[str], object]) -> None:
        self._lock = Lock()
        self._on_closed = on_closed
        self._closed = False
        self._container_exits: dict[str, Callable[[], object]] = {}
        self._capabilities: Document = {}
        self._is_linux = False
        self._bridge = Bridge(stream, self._notified, self._bridge_closed)
        self._bridge.start()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def negotiate(self, os_type: str, timeout: float) -> None:
        """Agree on the protocol and read the guest's capabilities. The first call."""
        body = {"MinimumVersion": protocol.VERSION, "MaximumVersion": protocol.VERSION}
        answer = self._call(protocol.NEGOTIATE_PROTOCOL, "", body, timeout)
        version = members.number(answer, "Version")
        if version != protocol.VERSION:
            raise HcsError(UNEXPECTED, "guest NegotiateProtocol", detail=f"it chose version {version}")
        self._capabilities = members.section(answer, "Capabilities")
        system = (members.text(self._capabilities, "RuntimeOsType") or "windows").lower()
        self._is_linux = system == "linux"
        if system != os_type:
            raise HcsError(UNEXPECTED, "guest NegotiateProtocol", detail=f"the guest runs {system}, not {os_type}")

    def supports(self, capability: str) -> bool:
        """A capability of the guest's own (`SignalProcessSupported` …)."""
        return bool(members.section(self._capabilities, "GuestDefinedCapabilities").get(capability))

    def expects(self, message: str) -> bool:
        """Whether the guest expects a message about the VM itself (`SendHostCreateMessage` …)."""
        return bool(self._capabilities.get(message))

    def close(self) -> None:
        self._bridge.close()

    # Containers.

    def create_container(self, id: str, document: Document, timeout: float | None = None) -> None:
        self._call(protocol.CREATE, id, {"ContainerConfig": _text(document)}, timeout)

    def start_container(self, id: str, timeout: float | None = None) -> None:
        self._call(protocol.START, id, {}, timeout)

    def shut_down_container(self, id: str, *, force: bool) -> None:
        """Begin to shut a container down; `on_container_exit` reports when it has exited."""
        procedure = protocol.SHUTDOWN_FORCED if force else protocol.SHUTDOWN_GRACEFUL
        self._call(procedure, id, {}, SHUTDOWN_SECONDS, may_be_late=True)

    def delete_container_state(self, id: str) -> None:
        self._call(protocol.DELETE_CONTAINER_STATE, id, {})

    def on_container_exit(self, id: str, callback: Callable[[], object]) -> None:
        """Call back once, from any thread, when the container has exited or the connection is lost."""
        with self._lock:
            if not self._closed:
                self._container_exits[id] = callback
                return
        callback()

    def forget_container(self, id: str) -> None:
        with self._lock:
            self._container_exits.pop(id, None)

    # Processes.

    def execute(self, id: str, parameters: Document, stdio: Document) -> int:
        """Start a process and return its pid. `stdio` is `Guest.stdio_settings`."""
        settings: Document = {"ProcessParameters": _text(parameters), **stdio}
        answer = self._call(protocol.EXECUTE_PROCESS, id, {"Settings": settings})
        return members.number(answer, "ProcessId")

    def on_process_exit(self, id: str, pid: int, callback: Callable[[int], object]) -> Callable[[], object]:
        """Call back once, from any thread, with the exit code; UNKNOWN_EXIT when the guest cannot report it. Returns
        what forgets the callback: a guest may never report the exit."""

        def answered(body: Document | None, error: BridgeError | None) -> None:
            callback(UNKNOWN_EXIT if body is None else _exit_code(body))

        request = self._body(id, {"ProcessId": pid, "TimeoutInMs": NO_TIMEOUT})
        try:
            number = self._bridge.submit(protocol.WAIT_FOR_PROCESS, request, answered)
        except BridgeError:
            callback(UNKNOWN_EXIT)
            return lambda: None
        return lambda: self._bridge.forget(number)

    def signal(self, id: str, pid: int, options: Document | None, timeout: float | None = None) -> None:
        body: Document = {"ProcessId": pid}
        if options:
            body["Options"] = options
        self._call(protocol.SIGNAL_PROCESS, id, body, timeout, may_be_late=timeout is not None)

    def resize(self, id: str, pid: int, height: int, width: int, timeout: float | None = None) -> None:
        body = {"ProcessId": pid, "Height": height, "Width": width}
        self._call(protocol.RESIZE_CONSOLE, id, body, timeout, may_be_late=timeout is not None)

    # Settings and properties.

    def properties(self, id: str, *types: str, timeout: float | None = None) -> Document:
        query = _text({"PropertyTypes": list(types)}) if types else _text({})
        late = timeout is not None
        answer = self._call(protocol.GET_PROPERTIES, id, {"Query": query}, timeout, may_be_late=late)
        try:
            found = json.loads(members.text(answer, "Properties") or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise HcsError(UNEXPECTED, f"guest GetProperties {id}", detail="the answer is not a JSON object")
        try:
            members.check_properties(found)
        except protocol.ProtocolError as error:
            raise HcsError(UNEXPECTED, f"guest GetProperties {id}", detail=str(error)) from None
        return found

    def modify(self, id: str, request: Document, timeout: float | None = None) -> None:
        self._call(protocol.MODIFY_SETTINGS, id, {"Request": request}, timeout, may_be_late=timeout is not None)

    def modify_vm(self, resource: str, request: str, settings: Document) -> None:
        """A change of the VM itself (`MappedVirtualDisk`, `CombinedLayers`, `Network` …)."""
        self.modify(THE_VM, {"RequestType": request, "ResourceType": resource, "Settings": settings})

    def modify_service(self, service: str, settings: Document) -> None:
        body = {"PropertyType": service, "Settings": settings}
        self._call(protocol.MODIFY_SERVICE_SETTINGS, THE_VM, body)

    def stacks(self, timeout: float) -> str:
        answer = self._call(protocol.DUMP_STACKS, THE_VM, {}, timeout, may_be_late=True)
        return members.text(answer, "GuestStacks")

    # The bridge.

    @staticmethod
    def _body(id: str, body: Document) -> Document:
        return {"ContainerId": id, "ActivityId": NO_ACTIVITY, **body}

    def _call(
        self, procedure: int, id: str, body: Document, timeout: float | None = None, *, may_be_late: bool = False
    ) -> Document:
        """One call; without a `timeout` of its own it has the bridge's. If it `may_be_late`, its timeout does not close
        the connection."""
        operation = f"guest RPC failure: {protocol.NAMES[procedure]} {id}".rstrip()
        seconds = RPC_TIMEOUT if timeout is None else timeout
        try:
            with span(GUEST + protocol.NAMES[procedure]):
                return self._bridge.call(procedure, self._body(id, body), seconds, may_be_late=may_be_late)
        except GuestError as error:
            if self._is_linux and error.message:
                raise LinuxGuestError(error.code, "guest RPC failure", detail=error.message) from error
            records = [{"Message": members.text(record, "Message")} for record in error.records]
            raise HcsError(error.code, operation, records, error.message) from error
        except TimeoutError as error:
            raise HcsError(OPERATION_TIMEOUT, operation, detail=str(error)) from error
        except BridgeError as error:
            raise HcsError(SYSTEM_ALREADY_STOPPED, operation, detail=str(error)) from error

    def _notified(self, body: Document) -> None:
        """In the reader's thread. Every type of notification means that a container has exited."""
        with self._lock:
            callback = self._container_exits.pop(members.text(body, "ContainerId"), None)
        if callback is not None:
            callback()

    def _bridge_closed(self, reason: BridgeError) -> None:
        with self._lock:
            self._closed = True
            callbacks, self._container_exits = list(self._container_exits.values()), {}
        run_all([*callbacks, lambda: self._on_closed(str(reason))])


def _exit_code(body: Document) -> int:
    """A guest forgets a process when it has exited, and answers a later wait with ERROR_NOT_FOUND and the exit code; 0
    is left out (https://github.com/microsoft/hcsshim/blob/main/internal/gcs/process.go)."""
    result = members.number(body, "Result")
    if result & 0x80000000 and normalise(result) != NOT_FOUND:
        return UNKNOWN_EXIT
    return members.number(body, "ExitCode")


def _text(document: Document) -> str:
    """Documents inside messages are JSON strings."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
