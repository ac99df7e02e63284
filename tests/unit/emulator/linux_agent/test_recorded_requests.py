"""The rules of the emulated Linux guest against requests that were recorded from Microsoft's shim: it breaks none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.vm.linux.agent import checks, messages, modify, mounts, scsi, storage, vpmem
from hcs_emulator.vm.linux.agent.errors import GuestError
from hcs_emulator.vm.linux.agent.guest import Guest

CASES = Path(__file__).resolve().parents[3] / "parity" / "cases"
PROCEDURES = {
    "NegotiateProtocol": messages.NEGOTIATE,
    "Create": messages.CREATE,
    "Start": messages.BASE,
    "ExecuteProcess": messages.EXECUTE_PROCESS,
    "WaitForProcess": messages.WAIT_FOR_PROCESS,
    "SignalProcess": messages.SIGNAL_PROCESS,
    "ResizeConsole": messages.RESIZE_CONSOLE,
    "GetProperties": messages.GET_PROPERTIES,
    "ModifySettings": messages.MODIFY_SETTINGS,
    "ShutdownGraceful": messages.BASE,
    "ShutdownForced": messages.BASE,
    "DeleteContainerState": messages.BASE,
    "DumpStacks": messages.BASE,
}
# What a recording has instead of numbers that differ from run to run.
PLACEHOLDERS = (('"<pid>"', "7"), ('"<size>"', "4096"), ('"<offset>"', "0"))


def recordings() -> dict[str, list[Path]]:
    """By name. Tasks of one pod are numbered parts of a recording. Names of layers with placeholders are all alike."""
    found: dict[str, list[Path]] = {}
    for file in sorted(CASES.glob("*lcow*.json")):
        if "-<offset>-<size>" not in file.read_text():
            found.setdefault(re.sub(r"-\d+$", "", file.stem), []).append(file)
    return found


RECORDINGS = recordings()


def requests(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The guest requests of a recording, in their order."""
    if isinstance(value, dict):
        name = value.get("guest")
        if isinstance(name, str) and name.startswith("request "):
            yield name.removeprefix("request "), value["doc"]
        for member in value.values():
            yield from requests(member)
    elif isinstance(value, list):
        for member in value:
            yield from requests(member)


def as_sent(document: dict[str, Any]) -> str:
    """A recording shows documents that are sent as strings."""
    sent = json.loads(json.dumps(document))
    for place, member in ((sent, "ContainerConfig"), (sent.get("Settings", {}), "ProcessParameters"), (sent, "Query")):
        if isinstance(place, dict) and isinstance(place.get(member), dict):
            place[member] = json.dumps(place[member])
    text = json.dumps(sent)
    for placeholder, number in PLACEHOLDERS:
        text = text.replace(placeholder, number)
    return text


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests change the guest's own records only."""
    monkeypatch.setattr(scsi, "controller_number", lambda controller: controller)
    monkeypatch.setattr(scsi, "device_path", lambda *_: "/dev/sda")
    monkeypatch.setattr(vpmem, "device_path", lambda _: "/dev/pmem0")
    for module, name in (
        (scsi, "mount"),
        (scsi, "unplug"),
        (vpmem, "mount"),
        (mounts, "unmount"),
        (mounts, "remove_tree"),
        (storage, "_mount_share"),
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr(storage, "_mount_overlay", mount_overlay)


def mount_overlay(target: str, layers: list[str], scratch: str) -> None:
    if not layers:
        raise GuestError(f"failed to mount overlayfs at {target}: invalid argument")


def test_recordings_exist() -> None:
    assert len(RECORDINGS) > 30


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.usefixtures("without_kernel")
def test_recorded_requests_break_no_rule(recording: str) -> None:
    guest = Guest(lambda _: None, lambda: None, 0)
    entries = [entry for file in RECORDINGS[recording] for entry in requests(json.loads(file.read_text()))]
    for name, document in entries:
        request = messages.decode(as_sent(document), PROCEDURES[name], "")
        if name == "Create":
            config = messages.decode(request["ContainerConfig"], messages.CONTAINER_CONFIG, "")
            checks.check_schema(config["SchemaVersion"])
            sandbox = config["OciSpecification"].get("annotations", {}).get("io.kubernetes.cri.sandbox-id", "")
            checks.check_spec(request["ContainerId"], sandbox, config, guest.storage)
        elif name == "ExecuteProcess":
            settings = request["Settings"]
            parameters = messages.decode(settings["ProcessParameters"], messages.PROCESS_PARAMETERS, "")
            guest._ports(parameters, settings["VsockStdioRelaySettings"] or {})
        elif name == "ModifySettings" and request["ContainerId"] == modify.VM:
            kind, change, settings = modify._decode(request["Request"])
            if kind not in ("Network", "VPCIDevice", "PodCgroupMemoryLimit"):
                try:
                    guest.modifications._changes[kind](change, settings)
                except GuestError as error:
                    assert "failed to mount overlayfs" in str(error)
