"""Runtime options through a real shim: their effect on HCS documents, and errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.oci.annotations import vm as names
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shims, refused
from tests.support.vm_image import VmShims


def toml(text: str) -> Any:
    return pack(GenericOptions(config_body=text.encode()))


def machine(vms: VmShims) -> dict[str, Any]:
    """The VM document that HCS received."""
    (document,) = vms.documents("HcsCreateComputeSystem")
    made: dict[str, Any] = document["VirtualMachine"]
    return made


def test_vm_size_from_toml_options(vms: VmShims) -> None:
    given = toml("SandboxIsolation = 1\nVmMemorySizeInMb = 513\nvmprocessorcount = 1\n")
    shim = vms.run("c1", "cmd", "/c", "exit 0", options=given)
    assert machine(vms)["ComputeTopology"]["Memory"]["SizeInMB"] == 514
    assert machine(vms)["ComputeTopology"]["Processor"]["Count"] == 1
    shim.wait()
    shim.delete()


def test_annotation_precedes_option_precedes_spec(vms: VmShims, tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    path.write_text("SandboxIsolation = 1\nVmMemorySizeInMb = 600\nVmProcessorCount = 1\n")
    resources = {"memory": {"limit": 800 << 20}, "cpu": {"count": 2}}
    spec = vms.spec("cmd", "/c", "exit 0", annotations={names.VM_MEMORY_SIZE_IN_MB: "700"})
    spec["windows"]["resources"] = resources
    shim = vms.shims.start("c1", spec)
    vms.create(shim, options=pack(GenericOptions(config_path=str(path))))
    assert machine(vms)["ComputeTopology"]["Memory"]["SizeInMB"] == 700
    assert machine(vms)["ComputeTopology"]["Processor"]["Count"] == 1
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_scale_cpu_limits_to_sandbox(vms: VmShims) -> None:
    given = toml("SandboxIsolation = 1\nScaleCpuLimitsToSandbox = true\nVmProcessorCount = 1\n")
    spec = vms.spec("cmd", "/c", "exit 0")
    spec["windows"]["resources"] = {"cpu": {"maximum": 1000}}
    shim = vms.shims.start("c1", spec)
    vms.create(shim, options=given)
    scaled = min(1000 * (os.cpu_count() or 1), 10000)
    # The entry of a guest may follow its answer.
    eventually(lambda: len(vms.emulator.journal("guest:Create")) == 2, "the entries of VM and container")
    created = str(vms.emulator.journal("guest:Create")).replace("\\", "").replace("'", '"').replace(" ", "")
    assert f'"Processor":{{"Maximum":{scaled}}}' in created
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_scratch_size_option_expands_scratch(vms: VmShims) -> None:
    folders = [*(str(layer) for layer in vms.layers), str(vms.scratch("c1"))]
    spec = vms.shims.spec("cmd", "/c", "exit 0")
    spec["windows"]["layerFolders"] = folders
    shim = vms.shims.start("c1", spec)
    shim.create(options=pack(Options(default_container_scratch_size_in_gb=50)))
    (entry,) = vms.emulator.journal("ExpandSandboxSize")
    assert entry["arguments"]["size"] == 50 << 30
    shim.kill(9)
    shim.wait()
    shim.delete()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VmMemory = 1", "VmMemory in the runtime options, set to 1, is no option: options are Debug, "),
        ("SandboxIsolation = 2", "SandboxIsolation in the runtime options is 2: allowed is 0 (process), 1"),
        ("SandboxIsolation = ", "the runtime options is not TOML"),
    ],
)
def test_invalid_toml_options_are_refused(shims: Shims, emulator: Emulator, text: str, message: str) -> None:
    given = toml(text)
    shim = shims.start("c1", shims.spec("cmd"), options=given)
    assert message in refused(status.INVALID_ARGUMENT, shim.create, rootfs=shims.rootfs(), options=given)
    assert not emulator.journal()


def test_unsupported_options_are_refused(vms: VmShims) -> None:
    policy = {"io.microsoft.virtualmachine.wcow.securitypolicy": "x"}
    message = refused(status.UNIMPLEMENTED, vms.create, vms.start("c1", "cmd", annotations=policy))
    assert "cannot be followed: remove it. Requests a confidential VM" in message
    assert not vms.emulator.journal()
