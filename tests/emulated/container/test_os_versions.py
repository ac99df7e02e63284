"""Windows builds of host and image: mismatches are refused before HCS is called, and by the emulated HCS itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.api.packing import pack
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.types import Mount
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem
from shim.oci.annotations.container import SANDBOX_OS_VERSION
from shim.ttrpc import status
from tests.support.bindings import reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.shims import Shims, refused
from tests.support.vm_image import VmShims, options

Start = Callable[[int], VmShims]


@pytest.fixture
def on_build(start_emulator: Callable[..., Emulator]) -> Iterator[Start]:
    """Shims on an emulator with this build."""
    started: list[Shims] = []

    def start(build: int) -> VmShims:
        emulator = start_emulator("--build", str(build))
        started.append(Shims(emulator.env))
        return VmShims(emulator, started[-1])

    yield start
    for shims in started:
        shims.close()


def mark(layer: Path, build: int) -> None:
    """Make it a base layer of this build."""
    path = layer / "Files" / "Windows" / "os-version"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"10.0.{build}.2031\n")


def creating_calls(emulator: Emulator) -> list[str]:
    """The HCS calls that create or mount something."""
    return [entry["call"] for entry in emulator.journal() if entry.get("call", "RtlGetVersion") != "RtlGetVersion"]


def create(vms: VmShims, id: str, **fields: Any) -> Callable[[], None]:
    """Create a process-isolated container of the image's layers."""
    shim = vms.shims.start(id, vms.shims.spec("cmd", "/c", "exit 3"))
    return lambda: shim.create(rootfs=vms.rootfs(id), **fields)


def test_older_image_process_isolated_is_refused(on_build: Start) -> None:
    vms = on_build(20348)
    mark(vms.layers[1], 17763)
    message = refused(status.FAILED_PRECONDITION, create(vms, "c1"))
    assert "image is of Windows build 17763, and this host is 20348" in message
    assert "RuntimeClass runhcs-wcow-hypervisor-17763" in message
    assert not creating_calls(vms.emulator), "HCS was called"
    assert not vms.scratch("c1").exists()


def test_older_image_runs_in_vm(on_build: Start) -> None:
    vms = on_build(20348)
    mark(vms.layers[1], 17763)
    shim = vms.run("c1", "cmd", "/c", "exit 3")
    assert shim.wait().exit_status == 3
    shim.delete()


def test_previous_generation_runs_process_isolated(on_build: Start) -> None:
    vms = on_build(26100)
    mark(vms.layers[1], 20348)
    shim = vms.shims.start("c1", vms.shims.spec("cmd", "/c", "exit 3"))
    shim.run(rootfs=vms.rootfs("c1"))
    assert shim.wait().exit_status == 3
    shim.delete()


def test_newer_image_in_vm_is_refused(on_build: Start) -> None:
    vms = on_build(20348)
    mark(vms.layers[1], 26100)
    shim = vms.start("c1", "cmd")
    message = refused(status.FAILED_PRECONDITION, vms.create, shim)
    assert "a utility VM runs 20348 and older" in message and "windows-build: 10.0.26100" in message
    assert not creating_calls(vms.emulator)


def toml(text: str) -> Any:
    return pack(GenericOptions(config_body=text.encode()))


def test_sandbox_os_version_from_option_default_and_annotation(on_build: Start) -> None:
    vms = on_build(20348)
    message = "SandboxOsVersion asks for Windows build 26100, and this host is 20348"
    by_text = toml('SandboxIsolation = 1\nSandboxOsVersion = "ltsc2025"')
    by_default = options(default_container_annotations={SANDBOX_OS_VERSION: "10.0.26100"})
    by_annotation = {SANDBOX_OS_VERSION: "26100"}
    assert message in refused(status.FAILED_PRECONDITION, vms.create, vms.start("c1", "cmd"), options=by_text)
    assert message in refused(status.FAILED_PRECONDITION, vms.create, vms.start("c2", "cmd"), options=by_default)
    shim = vms.start("c3", "cmd", annotations=by_annotation)
    assert message in refused(status.FAILED_PRECONDITION, vms.create, shim)
    assert not creating_calls(vms.emulator)


def test_workload_of_other_build_than_pod_vm_is_refused(on_build: Start) -> None:
    vms = on_build(26100)
    mark(vms.layers[1], 20348)
    pod = vms.pod()
    vms.layers[0] = vms.directory / "layers" / "other"
    mark_new(vms.layers[0], 26100)
    message = refused(status.FAILED_PRECONDITION, vms.create, vms.workload(pod, "c1", "cmd"))
    assert "image is of Windows build 26100, and its pod's VM is of 20348" in message
    pod.kill(9)
    pod.wait()
    pod.delete()


def mark_new(layer: Path, build: int) -> None:
    (layer / "Files").mkdir(parents=True)
    mark(layer, build)


def test_build_of_linux_snapshotter_rootfs_is_checked(on_build: Start) -> None:
    vms = on_build(17763)
    mark_new(vms.directory / "image", 20348)
    shim = vms.shims.start("c1", vms.shims.spec("cmd"))
    bind = Mount(type="bind", source=str(vms.directory / "image" / "Files"), options=["bind", "rw"])
    message = refused(status.FAILED_PRECONDITION, shim.create, rootfs=[bind])
    assert "image is of Windows build 20348, and this host is 17763" in message
    assert "windows-build: 10.0.20348" in message


@pytest.mark.parametrize(
    ("build", "image", "fits"),
    [(17763, 17763, True), (20348, 17763, False), (26100, 20348, True), (26100, 17763, False), (20348, 26100, False)],
)
def test_emulated_hcs_refuses_build_mismatch(
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    build: int,
    image: int,
    fits: bool,
) -> None:
    use(start_emulator("--build", str(build)), monkeypatch, tmp_path)
    mark_new(tmp_path / "root", image)
    storage = {"Path": str(tmp_path / "root" / "Files")}
    document = {"Owner": "test", "SchemaVersion": {"Major": 2, "Minor": 1}, "Container": {"Storage": storage}}
    if fits:
        ComputeSystem.create("c1", document).close()
    else:
        with pytest.raises(HcsError) as caught:
            ComputeSystem.create("c1", document)
        assert caught.value.code & 0xFFFFFFFF == 0x80370101
        assert f"the image is of build {image}, the host of {build}" in str(caught.value)
    reset_libraries()
