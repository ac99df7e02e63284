"""Linux images with containerd.exe: snapshotter and differ `windows-lcow`, `runhcs.exe create-scratch`, our shim."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.busybox_image import GREETING, NAME, pack
from tests.support.lcow_image import make_boot_files
from tests.wine.node import RUNTIME, Node

SNAPSHOTTER = "windows-lcow"
# The snapshotter copies a scratch disk whole, and on the emulator a disk is as large as its file.
SIZE = "containerd.io/snapshot/io.microsoft.container.storage.rootfs.size-gb=1"
FOREVER = ("/bin/sleep", "600")


@pytest.fixture
def linux_node(node: Node, tmp_path: Path) -> Node:
    """A node with boot files and a Linux image."""
    make_boot_files(node.directory / "LinuxBootFiles")
    if NAME not in node.checked("images", "ls", "-q"):
        shutil.copy(pack(tmp_path / "image.tar"), node.machine.drive / "linux-image.tar")
        flags = ("--local", "--platform", "linux/amd64", "--snapshotter", SNAPSHOTTER)
        node.checked("images", "import", *flags, r"C:\linux-image.tar")
    return node


def arguments(id: str, *command: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
    snapshot = ("--snapshotter", SNAPSHOTTER, "--snapshotter-label", SIZE)
    return ("run", *flags, "--runtime", RUNTIME, *snapshot, NAME, id, *command)


def snapshots(node: Node) -> Path:
    return node.directory / "root" / f"io.containerd.snapshotter.v1.{SNAPSHOTTER}"


def test_run(linux_node: Node) -> None:
    """The image is unpacked to an ext4 layer, and its command runs in a VM."""
    node = linux_node
    done = node.ctr(*arguments(node.new_name("linux"), "/bin/sh", "-c", "cat /greeting; exit 9", flags=("--rm",)))
    assert GREETING.encode() in done.stdout, done.stdout.decode(errors="replace") + node.log()
    assert done.returncode == 9
    assert list(snapshots(node).glob("snapshots/*/layer.vhd"))
    node.expect_clean()


def test_exec_stdin_and_kill(linux_node: Node) -> None:
    node, name = linux_node, linux_node.new_name("linux")
    node.checked(*arguments(name, *FOREVER, flags=("-d", "--null-io")))
    assert node.tasks()[name] == "RUNNING"
    assert "second" in node.checked("task", "exec", "--exec-id", "two", name, "/bin/echo", "second")
    assert "into the VM" in node.checked("task", "exec", "--exec-id", "three", name, "/bin/cat", input=b"into the VM\n")
    node.kill(name)
    node.remove(name)
    node.expect_clean()


def test_scratch_disk_is_created_once(linux_node: Node) -> None:
    """The snapshotter runs runhcs.exe for the first container of a size and then copies."""
    node = linux_node
    for number in (1, 2):
        done = node.ctr(*arguments(node.new_name("linux"), "/bin/echo", f"run {number}", flags=("--rm",)))
        assert f"run {number}".encode() in done.stdout, done.stdout.decode(errors="replace") + node.log()
    log = (snapshots(node) / "runhcs-scratch.log").read_text().splitlines()
    messages = [json.loads(line)["msg"] for line in log]
    assert messages.count("lcow::CreateScratch created (non-cache)") == 1
    assert [path.name for path in snapshots(node).glob("*.vhdx")] == ["scratch_1.vhdx"]
    node.expect_clean()
