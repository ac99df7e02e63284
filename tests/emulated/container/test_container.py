"""Process-isolated containers on the emulator: HCS calls, and release of all resources at every failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.api.types import Mount
from shim.container.container import Container
from shim.container.ledger import Ledger
from shim.hcs_bindings import errors, network, service
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.oci.spec import Spec
from tests.support.bindings import read_all, use
from tests.support.emulator import Emulator
from tests.support.eventually import eventually

ROOT = Path(__file__).resolve().parents[3]
NOT_READY = 0x80070015
# GetLayerMountPath is called for the length of its result first.
PREPARING = [
    "NameToGuid", "NameToGuid", "CreateSandboxLayer", "ActivateLayer", "NameToGuid", "NameToGuid", "PrepareLayer",
    "GetLayerMountPath", "GetLayerMountPath", "NameToGuid", "NameToGuid", "HcsCreateComputeSystem",
]  # fmt: skip


class Machine:
    """An emulator that this process's bindings use, a bundle, and two read-only layers."""

    def __init__(self, emulator: Emulator, directory: Path) -> None:
        self.emulator = emulator
        self.bundle = directory / "bundle"
        self.bundle.mkdir()
        self.scratch = directory / "scratch"
        self.layers = [directory / "layers" / name for name in ("2", "1")]
        for layer in self.layers:
            (layer / "Files").mkdir(parents=True)
        self.warnings: list[str] = []

    def spec(self, **values: Any) -> dict[str, Any]:
        return {"process": {"args": ["cmd"], "cwd": "C:\\"}, "windows": {}, **values}

    def rootfs(self) -> list[Mount]:
        parents = json.dumps([str(layer) for layer in self.layers])
        return [Mount(type="windows-layer", source=str(self.scratch), options=["rw", f"parentLayerPaths={parents}"])]

    def create(self, id: str = "c1", rootfs: list[Mount] | None = None, **values: Any) -> Container:
        mounts = self.rootfs() if rootfs is None else rootfs
        return Container.create(id, str(self.bundle), Spec(self.spec(**values)), mounts, self.warnings.append)

    def calls(self) -> list[str]:
        return [entry["call"] for entry in self.emulator.journal() if "call" in entry]

    def held(self) -> list[str]:
        return [repr(entry) for entry in Ledger(str(self.bundle)).entries()]

    def assert_clean(self) -> None:
        assert self.held() == []
        assert ComputeSystem.enumerate() == []
        assert self.emulator.mounts() == [] and self.mounts() == []
        assert network.namespaces() == []
        assert self.emulator.descendants() == []

    def mounts(self) -> list[str]:
        points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [point for point in points if point.startswith(str(self.bundle))]


@pytest.fixture
def machine(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    library = tmp_path / "library"
    library.mkdir()
    use(emulator, monkeypatch, library)
    machine = Machine(emulator, tmp_path)
    yield machine
    Ledger(str(machine.bundle)).release_all(20)
    machine.assert_clean()


def test_hcs_calls_from_create_to_teardown(machine: Machine) -> None:
    container = machine.create()
    made = machine.calls()
    assert [call for call in made if not call.startswith("HcsSet")] == PREPARING
    assert machine.held() == ["system c1", f"layer {machine.scratch}"]
    [create] = machine.emulator.journal("HcsCreateComputeSystem")
    whole = json.dumps(create["arguments"])
    assert "containerd-shim-runhcs-v1.exe" in whole and str(machine.layers[0]) in whole and "Volume{" in whole
    container.teardown()
    container.teardown()
    released = [call for call in machine.calls()[len(made) :] if not call.startswith("HcsSet")]
    assert released == ["HcsShutDownComputeSystem", "UnprepareLayer", "DeactivateLayer", "HcsCloseComputeSystem"]
    assert machine.warnings == []
    machine.assert_clean()


def test_existing_scratch_is_not_created_again(machine: Machine) -> None:
    machine.create().teardown()
    before = len(machine.calls())
    machine.create().teardown()
    assert "CreateSandboxLayer" not in machine.calls()[before:]


@pytest.mark.parametrize("call", ["CreateSandboxLayer", "ActivateLayer", "PrepareLayer", "GetLayerMountPath",
                                  "HcsCreateComputeSystem", "HcnCreateNamespace", "HcnModifyNamespace"])  # fmt: skip
def test_create_failure_at_any_step_releases_earlier_steps(machine: Machine, call: str) -> None:
    endpoint = create_endpoint()
    machine.emulator.fault(call, nth=1, error=0x80004005)
    with pytest.raises(HcsError) as caught:
        machine.create(windows={"network": {"endpointList": [endpoint]}})
    assert caught.value.code == 0x80004005
    assert machine.warnings == []
    machine.assert_clean()


def create_endpoint() -> str:
    made = network.create_network({"Name": "n", "Type": "L2Bridge", "SchemaVersion": {"Major": 2, "Minor": 0}})
    endpoint = network.create_endpoint(
        str(network.member(made, "Id")), {"Name": "e", "SchemaVersion": {"Major": 2, "Minor": 0}}
    )
    return str(network.member(endpoint, "Id"))


def test_network_namespace_is_created_and_removed(machine: Machine) -> None:
    endpoint = create_endpoint()
    container = machine.create(windows={"network": {"endpointList": [endpoint]}})
    [namespace] = network.namespaces()
    assert network.namespace_endpoints(namespace) == [endpoint]
    container.teardown()
    assert network.endpoints() == [endpoint], "the endpoint is not ours to remove"


def guards() -> list[str]:
    return [instance["Id"] for instance in service.properties("ContainerCredentialGuard")[0].get("Instances") or ()]


def test_gmsa_instance_is_added_and_removed(machine: Machine) -> None:
    container = machine.create(windows={"credentialSpec": '{"CmsPlugins": ["ActiveDirectory"]}'})
    assert guards() == ["c1"]
    [create] = machine.emulator.journal("HcsCreateComputeSystem")
    assert "ContainerCredentialGuard" in json.dumps(create["arguments"])
    container.teardown()
    assert guards() == []


@pytest.mark.parametrize("call", ["HcsModifyServiceSettings", "HcsGetServiceProperties", "HcsCreateComputeSystem"])
def test_gmsa_instance_is_removed_if_create_fails(machine: Machine, call: str) -> None:
    machine.emulator.fault(call, nth=1, error=0x80004005)
    with pytest.raises(HcsError):
        machine.create(windows={"credentialSpec": '{"CmsPlugins": ["ActiveDirectory"]}'})
    assert guards() == []
    machine.assert_clean()


def test_gmsa_is_refused_if_disabled(machine: Machine) -> None:
    annotations = {"io.microsoft.container.wcow.gmsa.disable": "true"}
    with pytest.raises(InvalidSpec, match="gMSA credentials are disabled"):
        machine.create(windows={"credentialSpec": "{}"}, annotations=annotations)


@pytest.mark.parametrize("code", [NOT_READY, 0x8007048F])
@pytest.mark.parametrize("call", ["ActivateLayer", "PrepareLayer"])
def test_layer_not_ready_is_retried(machine: Machine, call: str, code: int) -> None:
    for nth in (1, 2, 3, 4):
        machine.emulator.fault(call, nth=nth, error=code)
    container = machine.create()
    assert machine.calls().count(call) == 5
    container.teardown()


def test_layer_never_ready_fails_after_retries(machine: Machine) -> None:
    machine.emulator.fault("PrepareLayer", error=NOT_READY)
    with pytest.raises(HcsError) as caught:
        machine.create()
    assert caught.value.code == NOT_READY
    assert machine.calls().count("PrepareLayer") == 5 and machine.calls().count("DeactivateLayer") == 5
    machine.assert_clean()


def test_existing_id_is_refused_and_not_released(machine: Machine) -> None:
    other = machine.create()
    bundle = machine.bundle.parent / "second"
    bundle.mkdir()
    (machine.scratch.parent / "scratch2").mkdir()
    parents = json.dumps([str(layer) for layer in machine.layers])
    rootfs = [Mount(type="windows-layer", source=f"{machine.scratch}2", options=[f"parentLayerPaths={parents}"])]
    with pytest.raises(HcsError) as caught:
        Container.create("c1", str(bundle), Spec(machine.spec()), rootfs, machine.warnings.append)
    assert errors.is_already_exists(caught.value)
    assert Ledger(str(bundle)).entries() == []
    assert [system["Id"] for system in ComputeSystem.enumerate()] == ["c1"]
    other.teardown()


def test_linux_snapshotter_mounts_become_rootfs(machine: Machine, tmp_path: Path) -> None:
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower" / "hello").write_text("from below")
    options = [f"lowerdir={tmp_path}/lower", f"upperdir={tmp_path}/upper", f"workdir={tmp_path}/work"]
    container = machine.create(rootfs=[Mount(type="overlay", source="overlay", options=options)])
    assert (machine.bundle / "rootfs" / "hello").read_text() == "from below"
    assert machine.held() == ["system c1", f"mount {machine.bundle}/rootfs"]
    container.teardown()
    machine.assert_clean()
    assert list((machine.bundle / "rootfs").iterdir()) == []


def test_overlay_options_longer_than_a_page_are_mounted(machine: Machine, tmp_path: Path) -> None:
    snapshots = tmp_path / "io.containerd.snapshotter.v1.overlayfs" / "snapshots"
    lower = [snapshots / str(number) / "fs" for number in range(100)]
    for number, directory in enumerate(lower):
        directory.mkdir(parents=True)
        (directory / f"file{number}").touch()
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    options = [f"workdir={tmp_path}/work", f"upperdir={tmp_path}/upper", f"lowerdir={':'.join(map(str, lower))}"]
    assert len(options[2]) > 8000
    container = machine.create(rootfs=[Mount(type="overlay", source="overlay", options=options)])
    assert len(list((machine.bundle / "rootfs").iterdir())) == 100
    container.teardown()
    open_files = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name.isdigit()
                  and os.path.exists(f"/proc/self/fd/{name}")]  # fmt: skip
    assert str(snapshots) not in open_files


def test_refused_rootfs_mount_is_reported(machine: Machine) -> None:
    with pytest.raises(OSError, match="cannot mount"):
        machine.create(rootfs=[Mount(type="bind", source="/does/not/exist", options=["rbind"])])
    machine.assert_clean()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"process": None}, "the spec has no process"),
        ({"process": {"args": []}}, "names no program"),
        ({"process": {"args": ["cmd"], "cwd": "work"}}, "relative path"),
        ({"process": {"args": ["cmd"], "env": [f"V{n}={'x' * 1000}" for n in range(1000)]}}, "characters in all"),
        ({"process": {"args": ["x" * 40_000]}}, "Windows takes 32766"),
        ({"mounts": [{"source": "/does/not/exist", "destination": "C:\\x"}]}, "failed to resolve path"),
        ({"windows": {"resources": {"cpu": {"count": 1, "maximum": 5000}}}}, "mutually exclusive"),
        ({"root": {"readonly": True}}, "root.readonly"),
        ({"windows": {"hyperv": {}}}, "utility VM"),
    ],
)
def test_invalid_spec_is_refused_before_any_hcs_call(machine: Machine, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        machine.create(**values)
    assert message in str(caught.value)
    assert machine.calls() == [] and not (machine.bundle / "ledger.jsonl").exists()


def test_missing_rootfs_is_refused(machine: Machine) -> None:
    with pytest.raises(InvalidSpec) as caught:
        machine.create(rootfs=[])
    assert caught.value.kind == FAILED_PRECONDITION


def test_failed_shutdown_is_followed_by_terminate(machine: Machine) -> None:
    container = machine.create()
    machine.emulator.fault("HcsShutDownComputeSystem", nth=1, error=0x80004005)
    container.teardown()
    assert "HcsTerminateComputeSystem" in machine.calls()
    assert len(machine.warnings) == 1 and "did not stop" in machine.warnings[0]
    machine.assert_clean()


def test_unreleased_layer_stays_in_ledger(machine: Machine) -> None:
    container = machine.create()
    machine.emulator.fault("UnprepareLayer", nth=1, error=0x80004005)
    container.teardown()
    assert f"failed to release layer {machine.scratch}" in machine.warnings[0]
    assert machine.held() == [f"layer {machine.scratch}"]
    assert Ledger(str(machine.bundle)).release_all(5) == []
    machine.assert_clean()


def test_container_lifecycle(machine: Machine) -> None:
    container = machine.create(process={"args": ["cmd", "/c", "echo hello"], "cwd": "C:\\"})
    ended = threading.Event()
    container.on_exit(ended.set)
    container.start()
    process = container.create_process(container.init_parameters(stdin=False, stdout=True, stderr=False))
    assert read_all(process.stdout).strip() == "hello"
    assert process.wait_exit(60).code == 0
    assert not process.terminate()
    process.close()
    container.teardown()
    assert ended.wait(60)
    machine.assert_clean()


def test_teardown_while_process_runs(machine: Machine) -> None:
    container = machine.create()
    container.start()
    process = container.create_process({"CommandLine": "ping -t 127.0.0.1"})
    assert process.terminate()
    process.wait_exit(60)
    other = container.create_process({"CommandLine": "ping -t 127.0.0.1"})
    container.teardown()
    other.close()
    process.close()
    machine.assert_clean()


def test_arguments_reach_the_program_unchanged(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    source = tmp_path / "show.c"
    source.write_text('#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **a)'
                      '{ printf("%d|%s|%s|%s", n, a[1], a[2], getenv("A")); return 0; }')  # fmt: skip
    subprocess.run(["cc", "-static", str(source), "-o", str(root / "bin" / "show")], check=True)
    process = {"args": ["/bin/show", 'a "b\\\\', ""], "cwd": "C:\\", "env": ["A=1 2"]}
    container = machine.create(rootfs=[Mount(type="bind", source=str(root), options=["rbind", "rw"])], process=process)
    container.start()
    init = container.create_process(container.init_parameters(stdin=False, stdout=True, stderr=False))
    assert read_all(init.stdout) == '3|a "b\\\\||1 2'
    init.close()
    container.teardown()
    machine.assert_clean()


CREATE = """
import json, sys
from shim.api.types import Mount
from shim.container.container import Container
from shim.oci.spec import Spec
bundle, spec, scratch, parents = sys.argv[1:]
rootfs = [Mount(type="windows-layer", source=scratch, options=["parentLayerPaths=" + parents])]
Container.create("c1", bundle, Spec(json.loads(spec)), rootfs, print)
print("created", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("call", ["HcnCreateNamespace", "HcnModifyNamespace", "CreateSandboxLayer", "ActivateLayer",
                                  "PrepareLayer", "GetLayerMountPath", "HcsCreateComputeSystem", ""])  # fmt: skip
def test_shim_killed_during_hcs_call_is_released_from_ledger(machine: Machine, call: str) -> None:
    """kill -9 while HCS executes a call, or after the last: whatever takes effect is released from the ledger."""
    if call:
        machine.emulator.fault(call, nth=1, delay=0.3)
    spec = machine.spec(windows={"network": {"endpointList": [create_endpoint()]}})
    parents = json.dumps([str(layer) for layer in machine.layers])
    before = len(machine.calls())
    child = subprocess.Popen(
        [sys.executable, "-c", CREATE, str(machine.bundle), json.dumps(spec), str(machine.scratch), parents],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert child.stdout is not None
        if call:
            eventually(lambda: machine.emulator.control("fault-list")["faults"][0]["triggered"], f"the call of {call}")
        else:
            assert child.stdout.readline() == b"created\n"
        assert machine.held() or call == "CreateSandboxLayer"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    if call:
        eventually(lambda: call in machine.calls()[before:], f"the end of {call}")
    assert Ledger(str(machine.bundle)).release_all(4) == []
    machine.assert_clean()
