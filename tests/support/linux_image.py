"""Layers and scratch disks for Linux containers in VMs, as the `windows-lcow` snapshotter and differ make them."""

from __future__ import annotations

import struct
import subprocess
import uuid
import zlib
from pathlib import Path

from tests.support.programs import copy_program, find_program

PROGRAMS = ("sh", "cat", "sleep", "echo", "id", "ls", "mkdir", "readlink", "env", "head", "stat", "touch", "rm")
FOOTER = b"conectix" + bytes(504)
_MEGABYTE = 1 << 20
_LINUX_FILE_SYSTEM = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
_DISK = uuid.NAMESPACE_URL


def make_root(directory: Path) -> Path:
    """A root file system with a few programs of this machine and the libraries that they need."""
    (directory / "bin").mkdir(parents=True)
    for name in ("etc", "proc", "sys", "dev", "tmp", "root"):
        (directory / name).mkdir()
    (directory / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    (directory / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\n")
    for name in PROGRAMS:
        copy_program(directory, find_program(name), f"bin/{name}")
    return directory


def make_layer(root: Path, path: Path) -> Path:
    """`layer.vhd`: an ext4 file system with the content of a directory, and the footer of a fixed VHD."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    size = (content // _MEGABYTE * 2 + 8) * _MEGABYTE
    with open(path, "wb") as file:
        file.truncate(size)
    command = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", str(root), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    with open(path, "ab") as file:
        file.write(FOOTER)
    return path


def make_scratch(path: Path, *, formatted: bool = True, size_mb: int = 64) -> Path:
    """`sandbox.vhdx`: a sparse file, formatted unless the guest is to do it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size_mb * _MEGABYTE)
    if formatted:
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(path)], check=True, capture_output=True)
    return path


def partition(path: Path, label: str, parts: list[tuple[int, int]]) -> None:
    """Write a partition table, `gpt` or `dos`, for parts given by their first sector and their number of sectors."""
    mbr = bytearray(512)
    mbr[510:] = b"\x55\xaa"
    with open(path, "r+b") as disk:
        sectors = disk.seek(0, 2) // 512
        if label == "dos":
            for index, (first, count) in enumerate(parts):
                struct.pack_into("<B3xB3xII", mbr, 446 + 16 * index, 0, 0x83, first, count)
        else:
            struct.pack_into("<B3xB3xII", mbr, 446, 0, 0xEE, 1, sectors - 1)
            entries = bytearray(128 * 128)
            for index, (first, count) in enumerate(parts):
                kind, identity = _LINUX_FILE_SYSTEM, uuid.uuid4()
                content = struct.pack("<16s16sQQ", kind.bytes_le, identity.bytes_le, first, first + count - 1)
                entries[128 * index : 128 * index + len(content)] = content
            disk.seek(512)
            disk.write(_gpt_header(sectors, bytes(entries)).ljust(512, b"\0") + entries)
        disk.seek(0)
        disk.write(mbr)


def _gpt_header(sectors: int, entries: bytes) -> bytes:
    def header(checksum: int) -> bytes:
        begin = struct.pack("<8sIIII", b"EFI PART", 0x10000, 92, checksum, 0)
        places = struct.pack("<QQQQ16s", 1, sectors - 1, 34, sectors - 34, _DISK.bytes_le)
        return begin + places + struct.pack("<QIII", 2, 128, 128, zlib.crc32(entries))

    return header(zlib.crc32(header(0)))
