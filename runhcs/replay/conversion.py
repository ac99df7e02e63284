"""From the entries of a recorded shim to the script of the emulator, and to the requests and events of the driver."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field

from hcs_emulator.replay.guest import WAIT
from hcs_emulator.replay.script import GUID, Call, GuestCall
from runhcs.recording.reading import Entry, RecordedShim, RecordingError

MOUNT_PATH = "GetLayerMountPath"
JOB_EVENT = "job event"
# Members of ExecuteProcess with the streams, for Windows and for Linux.
STREAMS = ("StdioRelaySettings", "VsockStdioRelaySettings")
#: Calls of containerd and of people that look at a shim; the order of others does not depend on them.
POLLS = ("State", "Connect", "Stats", "Pids", "SandboxStatus", "PingSandbox", "SandboxMetrics")


@define(eq=False)
class Request:
    service: str
    method: str
    fields: dict[str, Any]
    begin: int
    #: 0: it was not answered while it was recorded.
    end: int
    response: dict[str, Any] | None
    error: list[Any] | None

    @property
    def seconds(self) -> float:
        return max(0, self.end - self.begin) / 1e9


@define(eq=False)
class Event:
    """Something that HCS or a guest reports on its own: an exit, a notification, the end of the connection."""

    time: int
    kind: str
    entry: Entry


@define(eq=False)
class Published:
    time: int
    topic: str
    container: str
    exec: str


@define
class Replayable:
    requests: list[Request]
    events: list[Event]
    published: list[Published]
    calls: list[Call]
    guest_calls: list[GuestCall]
    specs: dict[str, Entry]
    #: Calls of `shim.platform.jobs`.
    jobs: list[Entry] = field(factory=list)
    vm_ids: list[str] = field(factory=list)
    #: Not made up by the shim.
    given_guids: frozenset[str] = frozenset()
    #: Of the guest of its VM.
    is_linux: bool = False
    boot_seconds: float = 0.0


def convert(shim: RecordedShim) -> Replayable:
    """Raises RecordingError for a recording that cannot be replayed."""
    try:
        return _convert(shim)
    except RecordingError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        raise _damaged(shim) from None


def _damaged(shim: RecordedShim) -> RecordingError:
    return RecordingError(f"the recording of {shim.name} is damaged: it has entries of another form; record it again")


def _convert(shim: RecordedShim) -> Replayable:
    _check(shim)
    calls = _without_unopened([_call(entry) for entry in shim.of_kind("call")])
    _complete_mount_paths(calls)
    guest_calls = [_guest_call(entry) for entry in shim.of_kind("guest")]
    events = [Event(entry["time"], "event", entry) for entry in shim.of_kind("event") if entry["handle"]]
    events += [Event(entry["time"], "notification", entry) for entry in shim.of_kind("notification")]
    events += [Event(entry["time"], JOB_EVENT, entry) for entry in shim.of_kind(JOB_EVENT)]
    events += [Event(entry["end"], WAIT, entry) for entry in shim.of_kind("guest")
               if entry["procedure"] == WAIT and entry["end"]]  # fmt: skip
    return Replayable(
        requests=sorted((_request(entry) for entry in shim.of_kind("rpc")), key=lambda one: one.begin),
        events=sorted(events, key=lambda one: one.time),
        published=[_published(entry) for entry in shim.of_kind("publish")],
        calls=sorted(calls, key=lambda one: one.begin),
        guest_calls=sorted(guest_calls, key=lambda one: one.begin),
        specs={entry["id"]: _checked_spec(entry) for entry in shim.of_kind("spec")},
        jobs=sorted(shim.of_kind("job"), key=lambda one: (int(one["begin"]), str(one["function"]))),
        given_guids=_given_guids(shim),
        vm_ids=_vm_ids(shim),
        is_linux=any(_is_linux(entry) for entry in shim.of_kind("guest")),
        boot_seconds=_boot_seconds(calls, guest_calls),
    )


def _check(shim: RecordedShim) -> None:
    name = shim.name
    if not shim.identity.get("from_start"):
        raise RecordingError(
            f"{name} was recorded after its start, and cannot be replayed: record with --new or --all, and create the "
            "pod again"
        )
    if any(entry["kind"] == "dropped" for entry in shim.entries) or not shim.is_complete:
        raise RecordingError(f"the recording of {name} is incomplete, and cannot be replayed: record it again")


def _checked_spec(entry: Entry) -> Entry:
    """Raises TypeError."""
    kinds: dict[str, tuple[type, ...]] = {"paths": (dict,), "spec": (dict, type(None)), "boot_files": (str, type(None))}
    if not all(isinstance(entry.get(name), kind) for name, kind in kinds.items()):
        raise TypeError("a spec of another form")
    return entry


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _call(entry: Entry) -> Call:
    return Call(
        entry["call"], entry["begin"], entry["end"], entry.get("code", 0), entry.get("handle", 0),
        entry.get("number", 0), entry.get("strings"), entry.get("opened", 0), entry.get("pid", 0),
        _text(entry.get("document")),
    )  # fmt: skip


def _without_unopened(calls: list[Call]) -> list[Call]:
    """A handle whose open failed is of no use; calls with it are answered by the library, not by the service."""
    unopened = {call.opened for call in calls if call.opened and call.code & 0x80000000}
    return [call for call in calls if call.handle not in unopened]


def _complete_mount_paths(calls: list[Call]) -> None:
    """The first of two such calls asks for the size; the emulator's library needs the path to tell it."""
    known = {str(call.strings): call.document for call in calls if call.name == MOUNT_PATH and call.document}
    for call in calls:
        if call.name == MOUNT_PATH and not call.document:
            call.document = known.get(str(call.strings))


def _guest_call(entry: Entry) -> GuestCall:
    request = entry["request"]
    return GuestCall(entry["procedure"], str(request.get("ContainerId", "")), entry["begin"], entry["end"],
                     comparable(request), entry["response"])  # fmt: skip


def comparable(request: dict[str, Any]) -> dict[str, Any]:
    """A message to a guest, with documents in it parsed, and without the numbers of its streams: they are numbered in
    the order in which threads ask for them."""
    found: dict[str, Any] = _parsed(request)
    settings = found.get("Settings")
    if isinstance(settings, dict):
        for name in STREAMS:
            if name in settings:
                settings[name] = sorted(settings[name] or ())
    return found


def _parsed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _parsed(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_parsed(one) for one in value]
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return value


def _given_guids(shim: RecordedShim) -> frozenset[str]:
    """GUIDs of what the shim was given: requests, specs, answers and events."""
    given: list[Any] = [shim.identity, *shim.of_kind("spec"), *shim.of_kind("event"), *shim.of_kind("notification")]
    given += [entry.get("request") for entry in shim.of_kind("rpc")]
    given += [entry.get("document") for entry in shim.of_kind("call")]
    given += [entry.get("response") for entry in shim.of_kind("guest")]
    return frozenset(GUID.findall(json.dumps(given)))


def _is_linux(entry: Entry) -> bool:
    capabilities = (entry["response"] or {}).get("Capabilities") or {}
    return str(capabilities.get("RuntimeOsType", "")).lower() == "linux"


def _boot_seconds(calls: list[Call], guest_calls: list[GuestCall]) -> float:
    """From the start of the VM to the first message to its guest."""
    started = [call.end for call in calls if call.name == "HcsStartComputeSystem" and call.end]
    asked = [call.begin for call in guest_calls]
    return max(0, min(asked) - min(started)) / 1e9 if started and asked else 0.0


def _request(entry: Entry) -> Request:
    return Request(
        entry["service"], entry["method"], entry["request"] or {}, entry["begin"], entry["end"], entry.get("response"),
        entry.get("error"),
    )  # fmt: skip


def _published(entry: Entry) -> Published:
    event = entry["event"]
    return Published(entry["time"], entry["topic"], event.get("container_id", ""),
                     event.get("exec_id") or event.get("id") or "")  # fmt: skip


def _vm_ids(shim: RecordedShim) -> list[str]:
    """The runtime ids of utility VMs, by which their sockets are named. Raises RecordingError."""
    machines = {entry.get("opened") for entry in shim.of_kind("call") if entry["call"] == "HcsCreateComputeSystem"
                and isinstance(entry["strings"][1], dict) and "VirtualMachine" in entry["strings"][1]}  # fmt: skip
    found = []
    for entry in shim.of_kind("call"):
        document = entry.get("document")
        if entry.get("handle") in machines and isinstance(document, dict) and document.get("RuntimeId"):
            if not GUID.fullmatch(str(document["RuntimeId"])):
                raise _damaged(shim)
            found.append(document["RuntimeId"].lower())
    return list(dict.fromkeys(found))
