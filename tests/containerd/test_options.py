"""Runtime options and builds of Windows, given to `ctr` by configuration file and annotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.oci.annotations.container import SANDBOX_OS_VERSION, VM_MEMORY_SIZE_IN_MB
from tests.containerd.node import Node


def file(tmp_path: Path, text: str) -> tuple[str, str]:
    (tmp_path / "options.toml").write_text(text)
    return "--runtime-config-path", str(tmp_path / "options.toml")


def bootable(node: Node) -> Path:
    """The layer of the node, with the boot files of a utility VM."""
    machine = node.layer / "UtilityVM"
    (machine / "Files").mkdir(parents=True, exist_ok=True)
    (machine / "SystemTemplate.vhdx").write_bytes(b"template")
    return node.layer


def test_hypervisor_isolation_from_config_file(node: Node, tmp_path: Path) -> None:
    bootable(node)
    name = node.name()
    text = 'SandboxIsolation = 1\nVmMemorySizeInMb = 768\nVmProcessorCount = 1\nSandboxOsVersion = "ltsc2022"\n'
    result = node.run(name, node.spec("cmd", "/c", "exit 3"), "--rm", *file(tmp_path, text))
    assert result.returncode == 3, result.stderr
    document = next(
        entry["arguments"]["configuration"]["VirtualMachine"]
        for entry in node.emulator.journal("HcsCreateComputeSystem")
        if entry["arguments"]["id"] == f"{name}@vm"
    )
    assert document["ComputeTopology"]["Memory"]["SizeInMB"] == 768
    assert document["ComputeTopology"]["Processor"]["Count"] == 1


def test_annotation_overrides_config_file(node: Node, tmp_path: Path) -> None:
    bootable(node)
    name = node.name()
    spec = node.spec("cmd", "/c", "exit 0", annotations={VM_MEMORY_SIZE_IN_MB: "640"})
    result = node.run(name, spec, "--rm", *file(tmp_path, "SandboxIsolation = 1\nVmMemorySizeInMb = 768\n"))
    assert result.returncode == 0, result.stderr
    assert '"SizeInMB": 640' in str(
        [entry for entry in node.emulator.journal("HcsCreateComputeSystem") if entry["arguments"]["id"] == f"{name}@vm"]
    ).replace("'", '"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VmMemory = 2\n", "VmMemory in {path}, set to 2, is no option: options are Debug, DebugType"),
        ("SandboxIsolation = 3\n", "SandboxIsolation in {path} is 3: allowed is 0 (process), 1 (hypervisor)"),
        ('SandboxOsVersion = "vista"\n', "SandboxOsVersion in {path} is 'vista': give a build (20348)"),
    ],
)
def test_invalid_config_file_is_reported(node: Node, tmp_path: Path, text: str, message: str) -> None:
    name = node.name()
    result = node.run(name, node.spec("cmd"), *file(tmp_path, text))
    node.ctr("container", "rm", name)
    assert result.returncode == 1
    assert message.format(path=tmp_path / "options.toml") in result.stderr
    assert "invalid argument" in result.stderr.lower() or "InvalidArgument" in result.stderr


def test_ignored_options_are_logged(node: Node, tmp_path: Path) -> None:
    flags = file(tmp_path, 'RegistryRoot = "x"\nVmProcessorCount = 4\n')
    assert node.run(node.name(), node.spec("cmd", "/c", "exit 0"), "--rm", *flags).returncode == 0
    node.containerd.expect_log("option RegistryRoot has no effect. This shim keeps its state in the bundle")
    node.containerd.expect_log("option VmProcessorCount has no effect: it is about utility VMs")


def test_image_of_other_build_is_refused(node: Node, tmp_path: Path) -> None:
    """The emulator reports build 20348."""
    other = tmp_path / "layer" / "Files" / "Windows"
    other.mkdir(parents=True)
    (other / "os-version").write_text("10.0.17763.5696\n")
    spec = node.spec("cmd")
    spec["windows"]["layerFolders"][0] = str(tmp_path / "layer")
    name = node.name()
    result = node.run(name, spec)
    node.ctr("container", "rm", name)
    assert result.returncode == 1
    assert "the image is of Windows build 17763, and this host is 20348" in result.stderr
    assert "RuntimeClass runhcs-wcow-hypervisor-17763" in result.stderr


def test_unsupported_sandbox_os_version_is_refused(node: Node) -> None:
    name = node.name()
    result = node.run(name, node.spec("cmd", annotations={SANDBOX_OS_VERSION: "26100"}))
    node.ctr("container", "rm", name)
    assert result.returncode == 1
    assert "SandboxOsVersion asks for Windows build 26100, and this host is 20348" in result.stderr
