"""Host paths of a recording, and where they are while it is replayed."""

from __future__ import annotations

import json
import os
import signal
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hcs_emulator.replay.script import Difference
from runhcs.recording.reading import RecordedShim, RecordingError, read
from runhcs.replay.command import run
from runhcs.replay.conversion import convert
from runhcs.replay.driver import Outcome
from runhcs.replay.paths import HostPaths
from runhcs.replay.requests import Requests, Streams
from shim.recording.scrub import Scrubber


@pytest.mark.parametrize(
    "path", ["C:\\layers\\1", "C:\\Program Files\\Linux Containers\\kernel", "D:\\", "/run/layers/a b", "/"]
)
def test_path_is_translated_back(tmp_path: Path, path: str) -> None:
    paths = HostPaths(str(tmp_path))
    local = paths.local(path)
    assert local.startswith(str(tmp_path)) and paths.recorded({"a": [local]}) == {"a": [path]}


def test_path_in_a_text_is_translated_back(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    text = f"open '{paths.local('C:/a/b')}': not found"
    assert paths.recorded(text) == "open 'C:\\a\\b': not found"


def test_directory_with_a_place_of_its_own(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    paths.set_alias(f"{tmp_path}/hcs/Boot", "C:\\Program Files\\Linux Containers")
    local = paths.local("C:\\Program Files\\Linux Containers\\rootfs.vhd")
    assert local == f"{tmp_path}/hcs/Boot/rootfs.vhd"
    assert paths.recorded(local) == "C:\\Program Files\\Linux Containers\\rootfs.vhd"


def test_files_exist_as_recorded(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    paths.create({
        "C:\\a": "directory", "C:\\a\\layer.vhd": 1 << 33, "C:\\b": "missing", "C:\\s.vhdx": 7,
        "C:\\a\\link.vhdx": {"link": "C:\\s.vhdx"},
    })  # fmt: skip
    assert os.stat(paths.local("C:\\a\\layer.vhd")).st_size == 1 << 33
    assert os.stat(paths.local("C:\\a\\layer.vhd")).st_blocks == 0, "a disk takes no space"
    assert not paths.exists("C:\\b")
    assert os.path.realpath(paths.local("C:\\a\\link.vhdx")) == os.path.realpath(paths.local("C:\\s.vhdx"))


def test_network_namespace_of_the_host_is_translated_if_it_existed(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    spec = {
        "linux": {"namespaces": [{"type": "network", "path": "/run/netns/a"}, {"type": "ipc", "path": "/proc/7/ns"}]}
    }
    found = paths.spec(spec, {"/run/netns/a": 0, "/proc/7/ns": "missing"})["linux"]["namespaces"]
    assert [one["path"] for one in found] == [paths.local("/run/netns/a"), "/proc/7/ns"]


# A recording may come from anyone, and whoever replays it is root.

ESCAPES = [
    "/../../escaped", "C:\\..\\..\\..\\escaped", "C:\\\\escaped", "c://escaped", "..\\..\\escaped", "../../escaped",
    "a/../../../escaped", "\\\\..\\escaped", "C:/a/../../../escaped",
]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_the_directory(tmp_path: Path, path: str) -> None:
    directory = tmp_path / "replay"
    directory.mkdir()
    paths = HostPaths(str(directory))
    for local in (paths.local(path), paths.inside(path)):
        assert os.path.realpath(local).startswith(f"{directory}/") and ".." not in local.split("/")
    paths.create({path: 7})
    assert not (tmp_path / "escaped").exists()
    paths.create({f"{path}.d/x": {"link": path}, "/link": {"link": path}, "/link2": {"link": "/link"}})
    for found in directory.rglob("*"):
        assert os.path.realpath(found).startswith(f"{directory}/"), found
    paths.set_alias(f"{directory}/hcs/Boot", "C:\\Boot")
    assert os.path.realpath(paths.local("C:\\Boot\\" + path)).startswith(f"{directory}/hcs/Boot/")


@pytest.mark.parametrize("path", ["", "x", "tmpfs", *ESCAPES])
def test_bundles_and_mounts_are_in_the_directory(tmp_path: Path, path: str) -> None:
    paths = HostPaths(str(tmp_path))
    requests = Requests(paths, Streams(str(tmp_path / "io")), Scrubber())
    fields = {"id": "c1", "bundle": path, "stdout": "binary:///bin/sh?-c=id", "rootfs": [
        {"type": "bind", "source": path, "options": [f"upperdir={path}", f"lowerdir={path}:{path}", "ro"]},
        {"type": "windows-layer", "source": path, "options": ["parentLayerPaths=" + json.dumps([path])]},
    ]}  # fmt: skip
    message: Any = requests.message("containerd.task.v2.Task", "Create", fields)
    upper, lower, _ = message.rootfs[0].options
    (parent,) = json.loads(message.rootfs[1].options[0].partition("=")[2])
    named = [message.bundle, message.rootfs[0].source, message.rootfs[1].source, upper.partition("=")[2], parent]
    for local in [*named, *lower.partition("=")[2].split(":"), message.stdout]:
        assert os.path.realpath(local).startswith(str(tmp_path)), local


def test_root_of_a_spec_is_in_the_bundle_or_the_directory(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    found = {path: paths.spec({"root": {"path": path}}, {})["root"]["path"] for path in ("rootfs", "/a", "../../a")}
    assert found == {"rootfs": "rootfs", "/a": f"{tmp_path}/root/a", "../../a": f"{tmp_path}/root/a"}


@pytest.mark.parametrize("kinds", [{"/a": "x"}, {"/a": {"no": 1}}, {"/a\0": 1}, {"/a": 1, "/a/b": 1}, {"/a": -1}])
def test_files_that_cannot_be_created_are_an_error(tmp_path: Path, kinds: dict[str, Any]) -> None:
    with pytest.raises(RecordingError):
        HostPaths(str(tmp_path)).create(kinds)


def shim_of(*entries: dict[str, Any]) -> RecordedShim:
    return RecordedShim(1, {"namespace": "n", "id": "c1", "bundle": "/b", "from_start": True}, list(entries))


@pytest.mark.parametrize("runtime_id", ["../../escaped", "/escaped", 5, "11111111-2222-3333-4444-555555555555/.."])
def test_runtime_id_that_is_no_guid_is_refused(runtime_id: object) -> None:
    """Directories are named by it."""
    call = {"kind": "call", "begin": 1, "end": 2, "opened": 7, "handle": 7, "strings": ["", {"VirtualMachine": {}}]}
    create = {**call, "call": "HcsCreateComputeSystem", "document": {"RuntimeId": runtime_id}}
    with pytest.raises(RecordingError, match="damaged"):
        convert(shim_of(create))


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "call"}, {"kind": "guest", "procedure": 5}, {"kind": "event", "time": "x"}, {"kind": "job"},
        {"kind": "rpc", "service": []}, {"kind": "spec"}, {"kind": "publish", "event": 5}, {"kind": "notification"},
        {"kind": "job", "begin": 1, "end": 2}, {"kind": "spec", "id": "c1", "paths": 5},
        {"kind": "spec", "id": "c1", "paths": {}, "spec": []},
    ],
)  # fmt: skip
def test_entries_of_another_form_are_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match="damaged"):
        convert(shim_of(entry))


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "shim", "shim": 1, "id": 5}, {"kind": "shim", "shim": [1]}, {"kind": "end", "left_out": "x"},
        {"kind": "end", "left_out": float("inf")}, {"kind": "end", "lost": 5}, {"kind": "call", "shim": 9},
    ],
)  # fmt: skip
def test_lines_of_another_form_are_refused(tmp_path: Path, line: dict[str, Any]) -> None:
    path = tmp_path / "recording"
    header = {"format": "runhcs-recording", "version": 1}
    path.write_text(json.dumps(header) + "\n" + json.dumps(line) + "\n" + json.dumps({"kind": "end"}) + "\n")
    with pytest.raises(RecordingError):
        read(str(path))


def test_terminal_escapes_of_a_recording_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        {"format": "runhcs-recording", "version": 1},
        {"kind": "shim", "shim": 1, "namespace": "n", "id": "\x1b[2Jc1", "from_start": True},
        {"kind": "end"},
    ]
    path = tmp_path / "recording"
    path.write_text("\n".join(map(json.dumps, entries)))
    # Not the replay itself, which needs the emulator.
    monkeypatch.setattr("runhcs.replay.command.Driver", lambda recording, shim, **_: SimpleNamespace(
        run=lambda: Outcome(shim, differences=[Difference("\x1b]0;x\x07", "other arguments")])
    ))  # fmt: skip
    signals = [signal.getsignal(signal.SIGTERM)]
    try:
        run(Namespace(file=str(path), id="", fast=True, real_time=False, json=False))
        run(Namespace(file=str(path), id="\x1b[1m", fast=True, real_time=False, json=False))
    finally:
        signal.signal(signal.SIGTERM, signals[0])
    shown = capsys.readouterr()
    assert "\\x1b[2Jc1" in shown.out and "\\x1b]0;x\\x07" in shown.out and "has no pod" in shown.err
    assert "\x1b" not in shown.out + shown.err and "\x07" not in shown.out
