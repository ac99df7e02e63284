"""A Windows guest, over the bridge.

Answers that are failures become HcsError, so that nobody above has to know whether a container lives on the host or
in a VM. The end of the link means the end of everything inside: calls fail at once as they do for a system that has
stopped, processes end with a code that is not known, containers are gone.
"""

from __future__ import annotations

import json
from threading import Lock

from shim.hcs_bindings.errors import OPERATION_TIMEOUT, SYSTEM_ALREADY_STOPPED, UNEXPECTED, HcsError
from shim.spans import GUEST, span
from shim.uvm.gcs import protocol
from shim.uvm.gcs.bridge import RPC_TIMEOUT, Bridge, BridgeError, GuestError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.gcs.bridge import Stream

    Document = dict[str, Any]

# The Hyper-V socket service that the guest dials for the bridge, and the one it sends its log to.
SERVICE_ID = "acef5661-84a1-4e44-856b-6245e69f4620"
LOG_SERVICE_ID = "172dad59-976d-45f2-8b6c-6d1b13f2ac4d"
# The host, as Hyper-V sockets of a guest see it.
PARENT_ADDRESS = "894cc2d6-9d79-424f-93fe-42969ae6d8d1"
THE_VM = protocol.NULL_CONTAINER
NO_ACTIVITY = "00000000-0000-0000-0000-000000000000"
FOR_EVER = 0xFFFFFFFF
UNKNOWN_EXIT = -1
# How long the guest may take to take note that a container is to end.
SHUTDOWN_SECONDS = 30.0


class WindowsGuest:
    """`on_gone` is called once, from any thread, with the reason in words."""

    def __init__(self, stream: Stream, on_gone: Callable[[str], object]) -> None:
        self._lock = Lock()
        self._on_gone = on_gone
        self._gone = False
        self._container_exits: dict[str, Callable[[], object]] = {}
        self._capabilities: Document = {}
        self._bridge = Bridge(stream, self._notified, self._closed)
        self._bridge.start()

    # The link.

    @property
    def is_gone(self) -> bool:
        return self._gone

    def can(self, capability: str) -> bool:
        return bool((self._capabilities.get("GuestDefinedCapabilities") or {}).get(capability))

    def negotiate(self, timeout: float) -> None:
        """Agree on the protocol and learn what the guest can do. The first call."""
        body = {"MinimumVersion": protocol.VERSION, "MaximumVersion": protocol.VERSION}
        answer = self._call(protocol.NEGOTIATE_PROTOCOL, "", body, timeout)
        if answer.get("Version") != protocol.VERSION:
            raise HcsError(UNEXPECTED, "guest NegotiateProtocol", detail=f"it chose version {answer.get('Version')}")
        self._capabilities = answer.get("Capabilities") or {}
        system = str(self._capabilities.get("RuntimeOsType") or "windows").lower()
        if system != "windows":
            raise HcsError(UNEXPECTED, "guest NegotiateProtocol", detail=f"the guest runs {system}, not Windows")

    def begin(self, runtime_id: str, time_zone: Document, timeout: float) -> None:
        """What the guest wants to be told once before any container: the host's time zone, its own address."""
        if self._capabilities.get("SendHostCreateMessage"):
            document = {"SystemType": "Container", "TimeZoneInformation": time_zone}
            self._call(protocol.CREATE, THE_VM, {"ContainerConfig": _text(document)}, timeout)
            if self._capabilities.get("SendHostStartMessage"):
                self._call(protocol.START, THE_VM, {}, timeout)
        self.modify_vm("HvSocket", "Update", {"LocalAddress": runtime_id, "ParentAddress": PARENT_ADDRESS})

    def forward_logs(self, sources: str) -> None:
        """Have the guest send its log to the log service. `sources`: base64 of what is to be logged, "" for nothing
        in particular."""
        if sources:
            self._modify_log_service({"RPCType": "ModifyServiceSettings", "Settings": sources})
        self._modify_log_service({"RPCType": "StartLogForwarding"})

    def _modify_log_service(self, settings: Document) -> None:
        body = {"PropertyType": "LogForwardService", "Settings": settings}
        self._call(protocol.MODIFY_SERVICE_SETTINGS, THE_VM, body)

    def close(self) -> None:
        self._bridge.close()

    # Containers.

    def create_container(self, id: str, document: Document) -> None:
        self._call(protocol.CREATE, id, {"ContainerConfig": _text(document)})

    def start_container(self, id: str) -> None:
        self._call(protocol.START, id, {})

    def shut_down_container(self, id: str, *, force: bool) -> None:
        procedure = protocol.SHUTDOWN_FORCED if force else protocol.SHUTDOWN_GRACEFUL
        self._call(procedure, id, {}, SHUTDOWN_SECONDS, may_be_late=True)

    def delete_container_state(self, id: str) -> None:
        self._call(protocol.DELETE_CONTAINER_STATE, id, {})

    def on_container_exit(self, id: str, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self._gone:
                self._container_exits[id] = callback
                return
        callback()

    def forget_container(self, id: str) -> None:
        with self._lock:
            self._container_exits.pop(id, None)

    # Processes.

    def execute(self, id: str, parameters: Document, streams: dict[str, str]) -> int:
        settings: Document = {"ProcessParameters": _text(parameters), "StdioRelaySettings": streams}
        answer = self._call(protocol.EXECUTE_PROCESS, id, {"Settings": settings})
        return int(answer.get("ProcessId") or 0)

    def on_process_exit(self, id: str, pid: int, callback: Callable[[int], object]) -> None:
        def answered(body: Document | None, error: BridgeError | None) -> None:
            failed = body is None or int(body.get("Result") or 0) & 0x80000000
            callback(UNKNOWN_EXIT if body is None or failed else int(body.get("ExitCode") or 0))

        request = self._body(id, {"ProcessId": pid, "TimeoutInMs": FOR_EVER})
        try:
            self._bridge.submit(protocol.WAIT_FOR_PROCESS, request, answered)
        except BridgeError:
            callback(UNKNOWN_EXIT)

    def signal(self, id: str, pid: int, options: Document | None, timeout: float | None = None) -> None:
        body: Document = {"ProcessId": pid}
        if options:
            body["Options"] = options
        self._call(protocol.SIGNAL_PROCESS, id, body, timeout, may_be_late=timeout is not None)

    def resize(self, id: str, pid: int, height: int, width: int, timeout: float | None = None) -> None:
        body = {"ProcessId": pid, "Height": height, "Width": width}
        self._call(protocol.RESIZE_CONSOLE, id, body, timeout, may_be_late=timeout is not None)

    # Settings and figures.

    def properties(self, id: str, *types: str, timeout: float | None = None) -> Document:
        query = _text({"PropertyTypes": list(types)}) if types else _text({})
        late = timeout is not None
        answer = self._call(protocol.GET_PROPERTIES, id, {"Query": query}, timeout, may_be_late=late)
        try:
            found = json.loads(answer.get("Properties") or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HcsError(UNEXPECTED, f"guest GetProperties {id}", detail="the answer is not a JSON object")
        return found

    def modify(self, id: str, request: Document, timeout: float | None = None) -> None:
        self._call(protocol.MODIFY_SETTINGS, id, {"Request": request}, timeout, may_be_late=timeout is not None)

    def modify_vm(self, resource: str, request: str, settings: Document) -> None:
        self.modify(THE_VM, {"RequestType": request, "ResourceType": resource, "Settings": settings})

    def stacks(self, timeout: float) -> str:
        answer = self._call(protocol.DUMP_STACKS, THE_VM, {}, timeout, may_be_late=True)
        return str(answer.get("GuestStacks") or "")

    # Below.

    @staticmethod
    def _body(id: str, body: Document) -> Document:
        return {"ContainerId": id, "ActivityId": NO_ACTIVITY, **body}

    def _call(
        self, procedure: int, id: str, body: Document, timeout: float | None = None, *, may_be_late: bool = False
    ) -> Document:
        """One call; without a `timeout` of its own it may take as long as the bridge bears."""
        operation = f"guest RPC failure: {protocol.NAMES[procedure]} {id}".rstrip()
        patience = RPC_TIMEOUT if timeout is None else timeout
        try:
            with span(GUEST + protocol.NAMES[procedure]):
                return self._bridge.call(procedure, self._body(id, body), patience, may_be_late=may_be_late)
        except GuestError as error:
            records = [{"Message": record.get("Message")} for record in error.records if isinstance(record, dict)]
            raise HcsError(error.code, operation, records, error.message) from error
        except TimeoutError as error:
            raise HcsError(OPERATION_TIMEOUT, operation, detail=str(error)) from error
        except BridgeError as error:
            raise HcsError(SYSTEM_ALREADY_STOPPED, operation, detail=str(error)) from error

    def _notified(self, body: Document) -> None:
        """In the reader's thread. Whatever its type, it says that a container is gone."""
        with self._lock:
            callback = self._container_exits.pop(str(body.get("ContainerId") or ""), None)
        if callback is not None:
            callback()

    def _closed(self, reason: BridgeError) -> None:
        with self._lock:
            self._gone = True
            callbacks, self._container_exits = list(self._container_exits.values()), {}
        for callback in callbacks:
            callback()
        self._on_gone(str(reason))


def _text(document: Document) -> str:
    """Documents inside of messages are strings."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
