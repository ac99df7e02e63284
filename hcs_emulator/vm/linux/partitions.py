"""The partitions of a disk: each is a block device of its own, as the kernel of a VM would make it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import BinaryIO

_SECTOR = 512
_MBR_TABLE, _MBR_ENTRY = 446, 16
_EXTENDED = (0x05, 0x0F, 0x85)  # a chain of further tables: not found on layers
_GPT_PROTECTION = 0xEE
_MOST_ENTRIES = 128


def read(path: str) -> dict[int, tuple[int, int]]:
    """The offset and the size of each partition, by its number. Nothing for a disk without a partition table."""
    with open(path, "rb") as disk:
        first = disk.read(_SECTOR)
        if len(first) < _SECTOR or first[510:] != b"\x55\xaa":
            return {}
        found = {}
        for number in range(1, 5):
            entry = first[_MBR_TABLE + _MBR_ENTRY * (number - 1) :][:_MBR_ENTRY]
            kind, start, sectors = entry[4], *struct.unpack_from("<II", entry, 8)
            if kind == _GPT_PROTECTION:
                disk.seek(_SECTOR)
                return _read_gpt(disk.read(_SECTOR), lambda sector, size: _read_at(disk, sector, size))
            if kind and sectors and kind not in _EXTENDED:
                found[number] = (start * _SECTOR, sectors * _SECTOR)
        return found


def _read_at(disk: BinaryIO, sector: int, size: int) -> bytes:
    disk.seek(sector * _SECTOR)
    return disk.read(size)


def _read_gpt(header: bytes, read_at: Callable[[int, int], bytes]) -> dict[int, tuple[int, int]]:
    if header[:8] != b"EFI PART":
        return {}
    table, count, size = struct.unpack_from("<QII", header, 72)
    entries = read_at(table, min(count, _MOST_ENTRIES) * size)
    found = {}
    for number in range(1, len(entries) // size + 1 if size >= 48 else 1):
        entry = entries[(number - 1) * size : number * size]
        first, last = struct.unpack_from("<QQ", entry, 32)
        if any(entry[:16]):
            found[number] = (first * _SECTOR, (last - first + 1) * _SECTOR)
    return found
