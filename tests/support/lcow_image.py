"""Files of Linux containers in utility VMs: layers (`layer.vhd`), scratch disks (`sandbox.vhdx`), boot files.

A layer is an ext4 file system with the footer of a fixed VHD. A scratch disk is, on the emulator, a sparse raw image.
"""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from tests.support.busybox_image import copy_busybox

LAYER = "layer.vhd"
SCRATCH = "sandbox.vhdx"
APPLETS = (
    "sh", "sleep", "true", "false", "cat", "echo", "dd", "head", "ls", "stty", "env", "id", "touch", "df", "hostname",
    "ip", "kill", "mkdir", "mount", "nc", "printf", "ps", "pwd", "rm", "seq", "stat", "test", "wc", "wget", "yes",
)  # fmt: skip
PASSWD = "root:x:0:0:root:/:/bin/sh\ndaemon:x:1:1:daemon:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n"
GROUP = "root:x:0:\ndaemon:x:1:\nuser:x:1000:\n"
FOOTER = 512
MIB = 1 << 20


def make_root(directory: Path) -> Path:
    """A root file system: busybox with its libraries, users, directories for mounts."""
    for name in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var"):
        (directory / name).mkdir(parents=True)
    copy_busybox(directory)
    for name in APPLETS:
        (directory / "bin" / name).symlink_to("busybox")
    (directory / "etc" / "passwd").write_text(PASSWD)
    (directory / "etc" / "group").write_text(GROUP)
    return directory


def make_layer(target: Path, root: Path) -> Path:
    """Write the content of `root` as a layer in the directory `target`; it returns the file."""
    target.mkdir(parents=True, exist_ok=True)
    layer = target / LAYER
    used = sum(path.lstat().st_size + 4096 for path in root.rglob("*"))
    size = (used * 5 // 4 // MIB + 2) * MIB
    _mkfs(layer, size, "-O", "^has_journal", "-d", str(root))
    with open(layer, "ab") as file:
        file.write(vhd_footer(size))
    return layer


def make_base_layer(target: Path) -> Path:
    with tempfile.TemporaryDirectory() as directory:
        return make_layer(target, make_root(Path(directory) / "root"))


def make_scratch(target: Path, size: int = 64 * MIB, formatted: bool = True) -> Path:
    """A scratch disk in the directory `target`; it returns the file."""
    target.mkdir(parents=True, exist_ok=True)
    disk = target / SCRATCH
    if formatted:
        _mkfs(disk, size, "-O", "^has_journal")
    else:
        with open(disk, "xb") as file:
            file.truncate(size)
    return disk


def make_boot_files(directory: Path, names: Iterable[str] = ("vmlinux", "initrd.img"), guest: str = "") -> None:
    """Boot files that select a guest of the emulator, or its default one."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(json.dumps({"hcs_emulator": {"linux_guest": guest} if guest else {}}))


def _mkfs(path: Path, size: int, *options: str) -> None:
    with open(path, "xb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", *options, str(path)], check=True)


def vhd_footer(size: int) -> bytes:
    """The footer of a fixed VHD of `size` bytes."""
    fields = struct.pack(
        ">8sIIQI4sI4sQQHBBI", b"conectix", 2, 0x10000, 0xFFFFFFFFFFFFFFFF, 0, b"test", 0x10000, b"Wi2k", size, size,
        0, 0, 0, 2,
    )  # fmt: skip
    footer = (fields + struct.pack(">I", 0) + uuid.uuid4().bytes).ljust(FOOTER, b"\0")
    checksum = ~sum(footer) & 0xFFFFFFFF
    return footer[: len(fields)] + struct.pack(">I", checksum) + footer[len(fields) + 4 :]
