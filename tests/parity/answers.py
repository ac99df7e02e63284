"""Responses of the task API in the format of the recordings: JSON with proto3's names, without empty members.

A value that differs from run to run (a pid, a time, the path of a pipe) becomes a placeholder such as `a pid`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

from runhcs.task_events import exec_of
from shim.api.runhcs_options import ProcessDetails
from shim.api.runhcs_stats import Statistics
from shim.api.types import ProcessInfo, Status
from shim.api.wellknown import Any as PackedAny
from shim.api.wellknown import Timestamp
from shim.api.wire import Message
from shim.ttrpc.status import ClosedError, StatusError

#: The operation that follows `events` in a recording. Older recordings do not have it.
EVENT_CONTENTS = "event contents"
INIT = "init"
CODES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated",
)  # fmt: skip
STATUSES = {value: name for name, value in vars(Status).items() if isinstance(value, int)}
ZERO_TIME = -62135596800
_RPC_ERROR = re.compile(r"rpc error: code = (\w+) desc = (.*)", re.DOTALL)
_IO = re.compile(r'stdout=("(?:[^"\\]|\\.)*") stderr=("(?:[^"\\]|\\.)*")')
_PIDS = ("pid", "shimPid", "taskPid", "processId")


def failure(error: StatusError | ClosedError) -> dict[str, Any]:
    if isinstance(error, ClosedError):
        return {"error": "ttrpc: closed"}
    return {"code": CODES[error.code], "text": error.message}


def to_json(message: Message) -> dict[str, Any]:
    """A message as in a recording, normalized."""
    normalized = _normalize(_members(message))
    assert isinstance(normalized, dict)
    return normalized


def _members(message: Message) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, Timestamp):
            value = "0001-01-01T00:00:00Z" if value.seconds == ZERO_TIME else "a time"
        elif isinstance(value, Message):
            value = _members(value)
        elif isinstance(value, list):
            value = [_members(item) if isinstance(item, Message) else item for item in value]
        elif name == "status":
            value = STATUSES[value]
        if value or value == {}:
            members[_camel(name)] = value
    return members


def _all_members(message: Message) -> dict[str, Any]:
    """With the members that are zero, too, because the value of a counter depends on the moment."""
    members: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, Message) and not isinstance(value, Timestamp):
            value = _all_members(value)
        if value is not None:
            members[_camel(name)] = value
    return members


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def event_contents(id: str, messages: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
    """The events of a task by process: their order and the content of each. Those of different processes may overtake
    each other."""
    found: dict[str, dict[str, Any]] = {}
    for kind, event in messages:
        if event.container_id != id:
            continue
        content = to_json(event)
        for mount in content.get("rootfs", ()):
            mount["options"] = [_mount_option(option) for option in mount.get("options", ())]
        events = found.setdefault(exec_of(event) or INIT, {"order": ""})
        events["order"] = f"{events['order']} {kind}".strip()
        events[f"{kind} again" if kind in events else kind] = content
    return found


def _mount_option(option: str) -> Any:
    """Without the format of the JSON in it."""
    name, _, value = option.partition("=")
    return {name: json.loads(value)} if value.startswith("[") else option


def process_list(processes: list[ProcessInfo]) -> list[dict[str, Any]]:
    shown = []
    for process in processes:
        entry: dict[str, Any] = {"pid": "a pid", "type": None}
        if process.info is not None and process.info.type_url.endswith(ProcessDetails.FULL_NAME):
            entry["type"] = ProcessDetails.FULL_NAME
            entry["details"] = _names(_all_members(ProcessDetails.decode(process.info.value)))
        shown.append(entry)
    return shown


def statistics(stats: PackedAny) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": stats.type_url}
    if stats.type_url == Statistics.FULL_NAME:
        shown["values"] = _names(_all_members(Statistics.decode(stats.value)))
    return shown


def process_details(processes: list[ProcessInfo]) -> str:
    """The response to Pids as in a recording. Wine starts a console host as a child of a program of a job, a moment
    later, and only if the program needs one."""
    shown = []
    for process in processes:
        details = ProcessDetails.decode(process.info.value) if process.info is not None else ProcessDetails()
        if not details.exec_id and details.image_name in ("", "conhost.exe"):
            continue
        shown.append(f"{process.pid} {ProcessDetails.FULL_NAME} {json.dumps(_members(details))}")
    return f"[{' '.join(shown)}]"


def stats_text(stats: PackedAny) -> str:
    """The response to Stats as in a recording."""
    return f"{Statistics.FULL_NAME} {json.dumps(_members(Statistics.decode(stats.value)))}"


def _names(value: Any) -> Any:
    """The names of the values only: the values in a recording are not real."""
    if isinstance(value, dict):
        return {name: _names(item) for name, item in value.items()}
    return "a value"


def recorded(result: dict[str, Any]) -> dict[str, Any]:
    """One result of a recording, normalized as by `to_json`."""
    operation = result["op"]
    if "error" in result:
        match = _RPC_ERROR.fullmatch(result["error"])
        if match is None:
            return {"op": operation, "error": result["error"]}
        return {"op": operation, "code": match[1], "text": match[2]}
    text = result.get("result", "")
    return {"op": operation, "answer": _recorded_answer(operation, text)}


def _recorded_answer(operation: str, text: str) -> Any:
    if operation == "start":
        return "an address"
    if operation == "dial":
        return None
    if operation == "bundle":
        return re.findall(r"(?:^| )([\w.]+)=", text)
    if operation == "after-failed-create":
        return text.partition(" after ")[0] or "released"
    if operation.startswith("io("):
        match = _IO.fullmatch(text)
        assert match, text
        # A program for Windows may write `\r\n` in text mode.
        out, err = (re.sub(r"\r+\n", "\n", ast.literal_eval(quoted)) for quoted in match.groups())
        return {"stdout": out, "stderr": err}
    if operation == "events":
        return [event.split()[1] for event in text.split(" | ") if event]
    if operation == "delete-cmd":
        return _normalize(json.loads(text[len("stdout=") : text.index("} ") + 1]))
    if operation == "Pids":
        return [
            {"pid": "a pid", "type": kind, "details": _names(json.loads(details))}
            for kind, details in re.findall(r"\d+ ([\w.]+) (\{[^{}]*\})", text)
        ]
    if operation == "Stats":
        kind, _, values = text.partition(" ")
        return {"type": kind, "values": _names(json.loads(values))}
    return _normalize(json.loads(text) if text else {})


def _normalize(value: Any, member: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _normalize(item, name) for name, item in value.items()}
    if member in _PIDS:
        return "a pid"
    if member == "exitedAt":
        return value if value.startswith("0001-") else "a time"
    if member in ("stdin", "stdout", "stderr"):
        return re.split(r"[\\/]", value)[-1]
    if member == "bundle":
        return re.split(r"[\\/]", value)[-1]
    return value
