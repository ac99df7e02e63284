"""Windows builds: parsing, compatibility rules, and the build of a base layer."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.api.types import Mount
from shim.container import compatibility, image_version
from shim.container.layers import MountedRoot, SnapshotMounts, WindowsLayers
from shim.container.registry_hive import Hive, HiveError
from shim.hcs_bindings import windows_version
from shim.oci.annotations import container as names
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.oci.spec import Spec
from shim.oci.windows_versions import RELEASES, oldest_on, parse, runs_in_process, runs_in_vm
from shim.platform import host
from tests.support.hive_writer import SHAPES, hive

KEY = "Microsoft\\Windows NT\\CurrentVersion"
BUILD = "CurrentBuildNumber"

# Parsing.


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("20348", 20348),
        ("10.0.20348", 20348),
        ("10.0.20348.2031", 20348),
        (" 10.0.17763 ", 17763),
        ("ltsc2022", 20348),
        ("LTSC2019", 17763),
        ("1809", 17763),
        ("2004", 19041),
        ("20H2", 19042),
    ],
)
def test_version_strings_are_parsed(text: str, build: int) -> None:
    assert parse(text, "it") == build


@pytest.mark.parametrize(
    "text",
    ["", "windows", "1", "6.2.9200", "10.0", "10.1.20348", "99999", "-20348", "10.0.20348.1.2", "\u0662\u0660348"],
)
def test_invalid_version_strings_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"^it is .*: give a build \(20348\), a version"):
        parse(text, "it")


# Compatibility rules.


@pytest.mark.parametrize(
    ("build", "oldest"),
    [
        (17763, 17763),
        (19045, 19045),
        (20348, 20348),
        (22621, 20348),
        (25398, 20348),
        (26100, 20348),
        (26200, 20348),
    ],
)
def test_builds_that_run_process_isolated(build: int, oldest: int) -> None:
    """As in containerd's table."""
    assert oldest_on(build) == oldest
    for image in (*RELEASES.values(), oldest, build, 22621, 26200):
        assert runs_in_process(build, image) == (oldest <= image <= build)


def test_vm_runs_same_and_older_builds() -> None:
    assert runs_in_vm(20348, 14393) and runs_in_vm(20348, 20348) and not runs_in_vm(20348, 20349)


# The registry.


@pytest.mark.parametrize("shape", SHAPES)
def test_hive_string_value(shape: str) -> None:
    found = Hive(io.BytesIO(hive(KEY, BUILD, "20348", shape=shape)))
    assert found.text(KEY.upper(), BUILD.lower()) == "20348"
    assert found.text(KEY, "Other") == "x" and found.text(KEY, "Missing") == ""
    assert found.text("Microsoft\\Nothing", BUILD) == "" and found.text(KEY + "\\Deeper", BUILD) == ""


@given(st.data())
def test_damaged_hive_raises_hive_error_only(data: st.DataObject) -> None:
    good = bytearray(hive(KEY, BUILD, "20348"))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        Hive(io.BytesIO(bytes(good[: data.draw(st.integers(0, len(good)))]))).text(KEY, BUILD)
    except HiveError as error:
        assert str(error)


def test_recursive_subkey_list_terminates() -> None:
    raw = bytearray(hive(KEY, BUILD, "20348", shape="ri"))
    place = raw.index(b"ri")
    raw[place + 4 : place + 8] = (place - 0x1000 - 4).to_bytes(4, "little")
    with pytest.raises(HiveError):
        Hive(io.BytesIO(bytes(raw))).text(KEY, BUILD)


# Images.


def base_layer(directory: Path, build: str, place: str = "Files/Windows/System32/config/SOFTWARE") -> WindowsLayers:
    path = directory / "base" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(hive(KEY, BUILD, build))
    (directory / "top").mkdir()
    return WindowsLayers(str(directory / "scratch"), [str(directory / "top"), str(directory / "base")])


@pytest.mark.parametrize("place", ["Files/Windows/System32/config/SOFTWARE", "Hives/Software_Base"])
def test_build_is_read_from_base_layer_registry(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert image_version.build_of(base_layer(tmp_path, "20348", place)) == 20348
    monkeypatch.setattr(host, "IS_EMULATED", False)
    assert image_version.build_of(WindowsLayers("/s", [str(tmp_path / "base")])) == 20348


@pytest.mark.parametrize("build", ["", "nonsense", "19041"])
def test_ambiguous_build_is_unknown(tmp_path: Path, build: str) -> None:
    """19041 may be 19042: only an update's layer has the number."""
    assert image_version.build_of(base_layer(tmp_path, build)) == 0


def stand_in(directory: Path, version: str = "10.0.20348.2031") -> Path:
    path = directory / "Windows" / "os-version"
    path.parent.mkdir(parents=True)
    path.write_text(version + "\n")
    return directory


def test_build_is_read_from_version_file_on_emulator(tmp_path: Path) -> None:
    stand_in(tmp_path / "layer" / "Files")
    root = stand_in(tmp_path / "root", "10.0.17763.1")
    assert image_version.build_of(WindowsLayers("/s", ["/none", str(tmp_path / "layer")])) == 20348
    assert image_version.build_of(MountedRoot(str(root))) == 17763
    overlay = Mount(type="overlay", source="overlay", options=[f"lowerdir=/none:{root}", "upperdir=/u", "workdir=/w"])
    bind = Mount(type="bind", source=str(root), options=["rbind"])
    assert image_version.build_of(SnapshotMounts([overlay], "/t")) == 17763
    assert image_version.build_of(SnapshotMounts([bind], "/t")) == 17763


def test_fifo_as_version_file_or_hive_is_unknown(tmp_path: Path) -> None:
    """An image may have one there; nobody writes to it."""
    for layer, parts in (("version", ("Files", "Windows", "os-version")), ("hive", image_version._HIVES[0])):
        path = tmp_path.joinpath(layer, *parts)
        path.parent.mkdir(parents=True)
        os.mkfifo(path)
        build: list[int] = []
        layers = WindowsLayers("/s", [str(tmp_path / layer)])
        reader = threading.Thread(target=lambda: build.append(image_version.build_of(layers)), daemon=True)  # noqa: B023
        reader.start()
        reader.join(30)
        assert build == [0]


def test_version_file_is_ignored_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "Files")
    monkeypatch.setattr(host, "IS_EMULATED", False)
    assert image_version.build_of(WindowsLayers("/s", [str(tmp_path)])) == 0


# Errors.


class Case:
    """Builds of a host and an image, and the requested one; 0 for unknown."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch

    def check(self, function: Callable[..., Any], machine: int, image: int, wish: int) -> Any:
        self._monkeypatch.setattr(windows_version, "_build", machine)
        layer = self._directory / str(image)
        if image and not layer.exists():
            stand_in(layer / "Files", f"10.0.{image}.1")
        wishes = {names.SANDBOX_OS_VERSION: str(wish)} if wish else {}
        return function(Spec({"windows": {}, "annotations": wishes}), WindowsLayers("/s", [str(layer)]))

    def refusal(self, *arguments: Any) -> str:
        with pytest.raises(InvalidSpec) as caught:
            self.check(*arguments)
        assert caught.value.kind == FAILED_PRECONDITION
        return str(caught.value)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path, monkeypatch)


PROCESS, MACHINE = compatibility.check_process, compatibility.check_vm


def test_matching_builds_are_accepted(case: Case) -> None:
    for machine in (17763, 20348, 25398, 26100, 26200):
        for image in (17763, 20348, 26100, 26200):
            if runs_in_process(machine, image):
                case.check(PROCESS, machine, image, 0)
                case.check(PROCESS, machine, 0, image)
                case.check(PROCESS, machine, image, image)
            if runs_in_vm(machine, image):
                assert case.check(MACHINE, machine, image, 0) == image
                assert case.check(MACHINE, machine, 0, image) == image
    case.check(PROCESS, 26100, 20348, 26100)


def test_unknown_build_needs_no_host_build(case: Case) -> None:
    """The host's build is not read either: 0 would fail."""
    assert case.check(MACHINE, 0, 0, 0) == 0
    case.check(PROCESS, 0, 0, 0)


def test_older_image_error_names_hypervisor_runtime(case: Case) -> None:
    assert case.refusal(PROCESS, 20348, 17763, 0) == (
        "the image is of Windows build 17763, and this host is 20348: without a utility VM it runs build 20348 only. "
        "Use hypervisor isolation: RuntimeClass runhcs-wcow-hypervisor-17763, or the option SandboxIsolation = 1"
    )
    assert "runs builds 20348 to 26100. Use hypervisor isolation: RuntimeClass runhcs-wcow-hypervisor," in (
        case.refusal(PROCESS, 26100, 18363, 0)
    )


@pytest.mark.parametrize("function", [PROCESS, MACHINE])
def test_newer_image_error_names_newer_node(case: Case, function: Callable[..., Any]) -> None:
    message = case.refusal(function, 20348, 26100, 0)
    assert message.startswith("the image is of Windows build 26100, and this host is 20348: ")
    assert "node.kubernetes.io/windows-build: 10.0.26100" in message and "an image of build 20348" in message


@pytest.mark.parametrize("function", [PROCESS, MACHINE])
def test_requested_build_is_checked_like_image(case: Case, function: Callable[..., Any]) -> None:
    message = case.refusal(function, 20348, 0, 26100)
    assert message.startswith("SandboxOsVersion asks for Windows build 26100, and this host is 20348: ")


def test_image_of_other_build_than_requested_is_refused(case: Case) -> None:
    assert "set SandboxOsVersion to 26100" in case.refusal(PROCESS, 26100, 26100, 20348)
    message = case.refusal(MACHINE, 26100, 20348, 17763)
    assert "asks for a VM of 17763" in message and "RuntimeClass runhcs-wcow-hypervisor-20348" in message


def test_workload_of_other_build_than_pod_vm_is_refused(case: Case) -> None:
    def check(guest: int) -> Callable[..., None]:
        return lambda spec, plan: compatibility.check_workload(plan, guest)

    for guest, image in ((20348, 20348), (26100, 20348), (0, 20348), (20348, 0)):
        case.check(check(guest), 26100, image, 0)
    message = case.refusal(check(20348), 26100, 17763, 0)
    assert "its pod's VM is of 20348, which runs build 20348 only" in message
    assert "for the pod RuntimeClass runhcs-wcow-hypervisor-17763" in message
