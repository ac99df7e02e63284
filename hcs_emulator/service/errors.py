"""Failures as the Host Compute Service reports them: an HRESULT and a ResultError document with error events.

The service raises `HcsError` to refuse a call; the dispatcher turns it into a reply and a journal line. All code uses
computecore's codes 0x8037xxxx. The guest service in a utility VM converts them (`guest_spelling`), as vmcompute and the
real guest service do.
"""

from __future__ import annotations

import json
from typing import Any

S_OK = 0
E_NOTIMPL = 0x80004001
E_FAIL = 0x80004005
E_OUTOFMEMORY = 0x8007000E

HCS_E_TERMINATED_DURING_START = 0x80370100
HCS_E_IMAGE_MISMATCH = 0x80370101
HCS_E_INVALID_STATE = 0x80370105
HCS_E_UNEXPECTED_EXIT = 0x80370106
HCS_E_TERMINATED = 0x80370107
HCS_E_CONNECT_FAILED = 0x80370108
HCS_E_CONNECTION_TIMEOUT = 0x80370109
HCS_E_CONNECTION_CLOSED = 0x8037010A
HCS_E_UNKNOWN_MESSAGE = 0x8037010B
HCS_E_UNSUPPORTED_PROTOCOL_VERSION = 0x8037010C
HCS_E_INVALID_JSON = 0x8037010D
HCS_E_SYSTEM_NOT_FOUND = 0x8037010E
HCS_E_SYSTEM_ALREADY_EXISTS = 0x8037010F
HCS_E_SYSTEM_ALREADY_STOPPED = 0x80370110
HCS_E_PROTOCOL_ERROR = 0x80370111
HCS_E_INVALID_LAYER = 0x80370112
HCS_E_SERVICE_NOT_AVAILABLE = 0x80370114
HCS_E_ACCESS_DENIED = 0x8037011B
HCS_E_PROCESS_INFO_NOT_AVAILABLE = 0x8037011D
HCS_E_SERVICE_DISCONNECT = 0x8037011E
HCS_E_PROCESS_ALREADY_STOPPED = 0x8037011F

ERROR_FILE_NOT_FOUND = 0x80070002
ERROR_PATH_NOT_FOUND = 0x80070003
ERROR_ACCESS_DENIED = 0x80070005
ERROR_INVALID_HANDLE = 0x80070006
ERROR_NOT_ENOUGH_MEMORY = 0x80070008
ERROR_INVALID_DATA = 0x8007000D
ERROR_NOT_READY = 0x80070015
ERROR_SHARING_VIOLATION = 0x80070020
ERROR_NOT_SUPPORTED = 0x80070032
ERROR_FILE_EXISTS = 0x80070050
ERROR_INVALID_PARAMETER = 0x80070057
ERROR_INSUFFICIENT_BUFFER = 0x8007007A
ERROR_PROC_NOT_FOUND = 0x8007007F
ERROR_DIR_NOT_EMPTY = 0x80070091
ERROR_BUSY = 0x800700AA
ERROR_ALREADY_EXISTS = 0x800700B7
ERROR_NOT_FOUND = 0x80070490
ERROR_FLT_INSTANCE_NOT_FOUND = 0x801F0015

# Codes of ntdll, which are NTSTATUS and not HRESULT.
STATUS_NOT_IMPLEMENTED = 0xC0000002
STATUS_INVALID_PARAMETER = 0xC000000D
STATUS_OBJECT_NAME_NOT_FOUND = 0xC0000034

HCN_E_NETWORK_NOT_FOUND = 0x803B0001
HCN_E_ENDPOINT_NOT_FOUND = 0x803B0002
HCN_E_ENDPOINT_ALREADY_ATTACHED = 0x803B0014
HCN_E_INVALID_JSON = 0x803B001B
HCN_E_ENDPOINT_ALREADY_IN_NAMESPACE = 0x803B002B

MESSAGES = {
    E_NOTIMPL: "Not implemented",
    E_FAIL: "Unspecified error",
    E_OUTOFMEMORY: "Not enough memory resources are available to complete this operation.",
    HCS_E_TERMINATED_DURING_START: "The virtual machine or container exited unexpectedly while starting.",
    HCS_E_IMAGE_MISMATCH: "The container operating system does not match the host operating system.",
    HCS_E_INVALID_STATE: "The requested virtual machine or container operation is not valid in the current state.",
    HCS_E_UNEXPECTED_EXIT: "The virtual machine or container exited unexpectedly.",
    HCS_E_TERMINATED: "The virtual machine or container was forcefully exited.",
    HCS_E_CONNECT_FAILED: "A connection could not be established with the container or virtual machine.",
    HCS_E_CONNECTION_TIMEOUT: "No response was received in time from the virtual machine or container.",
    HCS_E_CONNECTION_CLOSED: "The connection with the virtual machine or container was closed.",
    HCS_E_UNKNOWN_MESSAGE: "An unknown internal message was received by the virtual machine or container.",
    HCS_E_UNSUPPORTED_PROTOCOL_VERSION: "The virtual machine or container does not support the protocol version.",
    HCS_E_INVALID_JSON: "The virtual machine or container JSON document is invalid.",
    HCS_E_SYSTEM_NOT_FOUND: "A virtual machine or container with the specified identifier does not exist.",
    HCS_E_SYSTEM_ALREADY_EXISTS: "A virtual machine or container with the specified identifier already exists.",
    HCS_E_SYSTEM_ALREADY_STOPPED: "The virtual machine or container with the specified identifier is not running.",
    HCS_E_PROTOCOL_ERROR: "A protocol error has occurred between the virtual machine or container and the host.",
    HCS_E_INVALID_LAYER: "The container image contains a layer with an unrecognized format.",
    HCS_E_SERVICE_NOT_AVAILABLE: "The Host Compute Service feature is not available.",
    HCS_E_ACCESS_DENIED: "The caller has no access to the Host Compute Service.",
    HCS_E_PROCESS_INFO_NOT_AVAILABLE: "The process information is not available.",
    HCS_E_SERVICE_DISCONNECT: "The connection to the Host Compute Service was lost.",
    HCS_E_PROCESS_ALREADY_STOPPED: "The process has already exited.",
    ERROR_FILE_NOT_FOUND: "The system cannot find the file specified.",
    ERROR_PATH_NOT_FOUND: "The system cannot find the path specified.",
    ERROR_ACCESS_DENIED: "Access is denied.",
    ERROR_INVALID_HANDLE: "The handle is invalid.",
    ERROR_NOT_ENOUGH_MEMORY: "Not enough memory resources are available to process this command.",
    ERROR_INVALID_DATA: "The data is invalid.",
    ERROR_NOT_READY: "The device is not ready.",
    ERROR_SHARING_VIOLATION: "The process cannot access the file because it is being used by another process.",
    ERROR_NOT_SUPPORTED: "The request is not supported.",
    ERROR_FILE_EXISTS: "The file exists.",
    ERROR_INVALID_PARAMETER: "The parameter is incorrect.",
    ERROR_PROC_NOT_FOUND: "The specified procedure could not be found.",
    ERROR_DIR_NOT_EMPTY: "The directory is not empty.",
    ERROR_BUSY: "The requested resource is in use.",
    ERROR_ALREADY_EXISTS: "Cannot create a file when that file already exists.",
    ERROR_NOT_FOUND: "Element not found.",
    ERROR_FLT_INSTANCE_NOT_FOUND: "The filter has no instance on the volume.",
    HCN_E_NETWORK_NOT_FOUND: "The network was not found.",
    HCN_E_ENDPOINT_NOT_FOUND: "The endpoint was not found.",
    HCN_E_ENDPOINT_ALREADY_ATTACHED: "Cannot attach an endpoint that is already attached.",
    HCN_E_INVALID_JSON: "Invalid JSON document string.",
    HCN_E_ENDPOINT_ALREADY_IN_NAMESPACE: "The endpoint is already attached to a namespace.",
}

# The provider of all error events: a fixed id, by which tools distinguish emulated events from those of Windows.
PROVIDER = "5d3c1f0a-6b1e-4f0f-8f2b-0e9a4f1c7e55"


def signed(hresult: int) -> int:
    """The 32-bit value as documents carry it: a signed number."""
    return hresult - (1 << 32) if hresult & 0x80000000 else hresult


def guest_spelling(hresult: int) -> int:
    """The code as vmcompute and guest services report it: 0xC037xxxx, except the two that real guests do not convert.
    """
    if hresult & 0xFFFF0000 == 0x80370000 and hresult != HCS_E_INVALID_STATE:
        return hresult | 0x40000000
    return hresult


def error_event(message: str, *, data: str | None = None, event_id: int = 2003) -> dict[str, Any]:
    event: dict[str, Any] = {
        "Message": message,
        "StackTrace": "",
        "Provider": PROVIDER,
        "EventId": event_id,
        "Flags": 0,
        "Source": "vmcompute",
    }
    if data is not None:
        event["Data"] = [{"Type": "String", "Value": data}]
    return event


class HcsError(Exception):
    """A call is refused. `detail` is the message of one error event; `data` is its subject (a JSON path, an id)."""

    def __init__(
        self, hresult: int, detail: str = "", *, data: str | None = None, operation: str | None = None
    ) -> None:
        super().__init__(f"0x{hresult:08X} {detail or MESSAGES.get(hresult, '')}".rstrip())
        self.hresult = hresult
        self.events = [error_event(detail, data=data)] if detail else []
        self.operation = operation

    def document(self) -> str:
        result: dict[str, Any] = {
            "Error": signed(self.hresult),
            "ErrorMessage": MESSAGES.get(self.hresult, f"Error 0x{self.hresult:08X}"),
        }
        if self.events:
            result["ErrorEvents"] = self.events
        if self.operation:
            result["Attribution"] = [{"OperationFailure": {"Detail": self.operation}}]
        return json.dumps(result)
