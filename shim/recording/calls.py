"""The calls of the HCS libraries: their arguments and results in the form that the replay needs.

An entry is a call as HCS sees it. The functions of an operation (create, submit, wait, close) make one entry, which is
complete when the operation is closed. Handles are numbered in the order in which they were opened.
"""

from __future__ import annotations

from time import perf_counter_ns

from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.guid import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]

# The arguments of each function, in the order of hcs.h:
#   s  a text or document          o  the operation          h  a handle        H  where a new handle is returned
#   n  a number                    D  a returned document    g  a GUID          G  a returned GUID
#   L  layers, and their count     B  a text of known size   E  a returned flag I  a returned process id
#   v  a returned Windows version  -  nothing that matters
_ARGUMENTS = {
    "HcsEnumerateComputeSystems": "so", "HcsCreateComputeSystem": "sso-H", "HcsOpenComputeSystem": "snH",
    "HcsCloseComputeSystem": "h", "HcsStartComputeSystem": "hos", "HcsShutDownComputeSystem": "hos",
    "HcsTerminateComputeSystem": "hos", "HcsCrashComputeSystem": "hos", "HcsPauseComputeSystem": "hos",
    "HcsResumeComputeSystem": "hos", "HcsSaveComputeSystem": "hos", "HcsGetComputeSystemProperties": "hos",
    "HcsModifyComputeSystem": "hos-", "HcsSetComputeSystemCallback": "h---",
    "HcsCreateProcess": "hso-H", "HcsOpenProcess": "hn-H", "HcsCloseProcess": "h", "HcsTerminateProcess": "hos",
    "HcsSignalProcess": "hos", "HcsGetProcessInfo": "ho", "HcsGetProcessProperties": "hos", "HcsModifyProcess": "hos",
    "HcsSetProcessCallback": "h---",
    "HcsGetServiceProperties": "sD", "HcsModifyServiceSettings": "sD", "HcsSubmitWerReport": "s",
    "HcsGrantVmAccess": "ss", "HcsRevokeVmAccess": "ss", "HcsGrantVmGroupAccess": "s", "HcsRevokeVmGroupAccess": "s",
    "HcsDestroyLayer": "s", "HcsInitializeWritableLayer": "sss", "HcsAttachLayerStorageFilter": "ss",
    "HcsDetachLayerStorageFilter": "s", "HcsAttachOverlayFilter": "ss", "HcsDetachOverlayFilter": "ss",
    "HcsGetLayerVhdMountPath": "hD",
    "ActivateLayer": "-s", "DeactivateLayer": "-s", "PrepareLayer": "-sL", "UnprepareLayer": "-s",
    "CreateSandboxLayer": "-ssL", "ExpandSandboxSize": "-sn", "GetLayerMountPath": "-sB", "LayerExists": "-sE",
    "DestroyLayer": "-s", "CreateLayer": "-ss", "NameToGuid": "sG", "GrantVmAccess": "ss", "HNSCall": "sssD",
    "HcnEnumerateNamespaces": "sDD", "HcnOpenNamespace": "gHD", "HcnCloseNamespace": "h",
    "HcnQueryNamespaceProperties": "hsDD", "HcnCreateNamespace": "gsHD", "HcnModifyNamespace": "hsD",
    "HcnDeleteNamespace": "gD", "HcnEnumerateEndpoints": "sDD", "HcnOpenEndpoint": "gHD", "HcnCloseEndpoint": "h",
    "HcnQueryEndpointProperties": "hsDD", "HcnCreateEndpoint": "hgsHD", "HcnModifyEndpoint": "hsD",
    "HcnDeleteEndpoint": "gD", "HcnEnumerateNetworks": "sDD", "HcnOpenNetwork": "gHD", "HcnCloseNetwork": "h",
    "HcnQueryNetworkProperties": "hsDD", "HcnCreateNetwork": "gsHD", "HcnDeleteNetwork": "gD",
    "RtlGetVersion": "v",
}  # fmt: skip
# Of an operation: they complete the entry of the call that was submitted.
_RESULTS = {
    "HcsWaitForOperationResult": "o-D",
    "HcsWaitForOperationResultAndProcessInfo": "o-ID",
    "HcsGetOperationResult": "oD",
}
# Functions of the libraries that are no calls of HCS.
_LOCAL = frozenset(("HcsCreateOperation", "HcsCancelOperation", "LocalFree", "CoTaskMemFree", "CloseHandle", "NtClose"))
# Their third argument is the context of the callback.
_CALLBACKS = ("HcsSetComputeSystemCallback", "HcsSetProcessCallback")
_CLOSE_OPERATION = "HcsCloseOperation"
_CLOSING = ("HcsClose", "HcnClose")


class CallRecorder:
    """`add` gets each entry. Thread-safe: an operation belongs to one thread, and dicts are only read and set."""

    def __init__(self, add: Callable[[Entry], object]) -> None:
        self._add = add
        self._handles: dict[int, int] = {}
        self._contexts: dict[int, int] = {}
        self._operations: dict[int, Entry] = {}
        self._wrapped: dict[str, Callable[..., Any]] = {}
        self._next = 0

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of a library, with its calls recorded."""
        found = self._wrapped.get(name)
        if found is None:
            found = self._wrapped[name] = self._wrap(name, function)
        return found

    def _wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _LOCAL:
            return function
        if name == _CLOSE_OPERATION:
            return self._closing_operation(function)
        if name in _RESULTS:
            return self._result(name, function)
        kinds = _ARGUMENTS.get(name)

        def call(*arguments: Any) -> Any:
            if name in _CALLBACKS:
                # Before the call: of a process that has exited the event comes at once.
                self._contexts[_number(arguments[2])] = self._handle(arguments[0])
            begin = perf_counter_ns()
            code = None
            try:
                code = function(*arguments)
                return code
            finally:
                self._record(name, kinds, arguments, begin, code)

        return call

    def handle_of(self, context: int) -> int:
        """The handle whose callback has this context; 0 if it was registered before the recording."""
        return self._contexts.get(context, 0)

    def _record(self, name: str, kinds: str | None, arguments: tuple[Any, ...], begin: int, code: Any) -> None:
        try:
            entry: Entry = {"kind": "call", "call": name, "begin": begin, "end": perf_counter_ns()}
            entry["code"] = code & 0xFFFFFFFF if type(code) is int else 0
            if kinds is None:
                entry["strings"] = None  # arguments that are not recorded
                self._add(entry)
                return
            operation = self._read(entry, kinds, arguments)
            if name.startswith(_CLOSING):
                self._handles.pop(_number(arguments[0]), None)
            if operation:
                self._operations[operation] = entry
            else:
                self._add(entry)
        except Exception:
            # A recording must never fail a call.
            self._add({"kind": "call", "call": name, "begin": begin, "end": perf_counter_ns(), "code": 0})

    def _read(self, entry: Entry, kinds: str, arguments: tuple[Any, ...]) -> int:
        """Fill the entry; returns the operation, 0 if there is none."""
        operation = 0
        strings: list[str | None] = []
        position = 0
        for kind in kinds:
            value = arguments[position]
            position += 1
            if kind == "s":
                strings.append(_text(value))
            elif kind == "o":
                operation = _number(value)
            elif kind == "h":
                entry["handle"] = self._handle(value)
            elif kind == "H":
                if value[0] != ffi.NULL:
                    entry["opened"] = self._open(value[0])
            elif kind == "n":
                entry["number"] = int(value)
            elif kind == "D":
                _set_document(entry, value)
            elif kind == "I":
                entry["pid"] = int(value.ProcessId)
            elif kind == "g":
                strings.append(to_text(value))
            elif kind == "G":
                entry["document"] = to_text(value)
            elif kind == "E":
                entry["pid"] = int(value[0])
            elif kind == "v":
                entry["pid"] = int(value.Build)
            elif kind == "B":
                buffer = arguments[position]
                if buffer != ffi.NULL and not entry["code"]:
                    entry["document"] = str(ffi.string(buffer))
                position += 1
            elif kind == "L":
                for index in range(int(arguments[position])):
                    strings += [to_text(ffi.addressof(value[index].LayerId)), str(ffi.string(value[index].Path))]
                position += 1
        entry["strings"] = strings
        return operation

    def _result(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        kinds = _RESULTS[name]

        def call(*arguments: Any) -> Any:
            code = function(*arguments)
            entry = self._operations.get(_number(arguments[0]))
            if entry is not None:
                entry["end"] = perf_counter_ns()
                if name != "HcsGetOperationResult":
                    entry["code"] = code & 0xFFFFFFFF
                for kind, value in zip(kinds, arguments, strict=False):
                    if kind == "D":
                        _set_document(entry, value)
                    elif kind == "I":
                        entry["pid"] = int(value.ProcessId)
            return code

        return call

    def _closing_operation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(operation: Any) -> Any:
            entry = self._operations.pop(_number(operation), None)
            if entry is not None:
                self._add(entry)
            return function(operation)

        return call

    def pending(self) -> list[Entry]:
        """Operations whose result has not come: what a shim waits for."""
        return [{**entry, "end": 0} for entry in list(self._operations.values())]

    def _handle(self, raw: Any) -> int:
        known = self._handles.get(_number(raw))
        return self._open(raw) if known is None else known

    def _open(self, raw: Any) -> int:
        self._next += 1
        self._handles[_number(raw)] = self._next
        return self._next


def _number(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return None if value == ffi.NULL else str(ffi.string(value))


def _set_document(entry: Entry, place: Any) -> None:
    if place[0] != ffi.NULL:
        entry["document"] = str(ffi.string(place[0]))
