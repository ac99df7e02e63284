"""Writes a registry hive with one value, in the format of Windows, for images of tests."""

from __future__ import annotations

import struct
from itertools import pairwise

SHAPES = ("lf", "lh", "li", "ri")


class _Cells:
    def __init__(self) -> None:
        self.data = bytearray(b"hbin" + bytes(28))

    def add(self, content: bytes) -> int:
        offset = len(self.data)
        size = -(-(len(content) + 4) // 8) * 8
        self.data += struct.pack("<i", -size) + content + bytes(size - 4 - len(content))
        return offset


def hive(path: str, name: str, value: str, *, shape: str = "lh", siblings: int = 3) -> bytes:
    """A hive whose key `path` has a text value; each level has further keys, and lists are of the given shape."""
    cells = _Cells()
    data = (value + "\0").encode("utf-16-le")
    values = [_value(cells, "Other", b"x\0"), _value(cells, name, data)]
    key = _key(cells, path.split("\\")[-1], 0, 0, values)
    for part in reversed(["root", *path.split("\\")[:-1]]):
        others = [_key(cells, f"Before{index}", 0, 0, []) for index in range(siblings)]
        named = [(f"Before{index}", offset) for index, offset in enumerate(others)]
        named.append((_names(path)[part], key))
        key = _key(cells, part, len(named), _list(cells, named, shape), [])
    return (b"regf" + bytes(0x20) + struct.pack("<I", key)).ljust(0x1000, b"\0") + bytes(cells.data)


def _names(path: str) -> dict[str, str]:
    """The name of each child by the name of its parent."""
    parts = ["root", *path.split("\\")]
    return dict(pairwise(parts))


def _list(cells: _Cells, named: list[tuple[str, int]], shape: str) -> int:
    if shape == "ri":
        halves = [_list(cells, named[:2], "lh"), _list(cells, named[2:], "li")]
        return cells.add(b"ri" + struct.pack("<HII", 2, *halves))
    content = shape.encode() + struct.pack("<H", len(named))
    for name, offset in named:
        content += struct.pack("<I", offset)
        if shape == "lh":
            content += struct.pack("<I", _hash(name))
        elif shape == "lf":
            content += name[:4].encode("latin-1").ljust(4, b"\0")
    return cells.add(content)


def _hash(name: str) -> int:
    value = 0
    for char in name.upper():
        value = value * 37 + ord(char)
    return value % 2**32


def _key(cells: _Cells, name: str, count: int, subkeys: int, values: list[int]) -> int:
    listed = cells.add(struct.pack(f"<{len(values)}I", *values)) if values else 0xFFFFFFFF
    fixed = bytearray(0x4C)
    fixed[:4] = b"nk\x20\0"
    struct.pack_into("<II", fixed, 0x14, count, 0)
    struct.pack_into("<I", fixed, 0x1C, subkeys)
    struct.pack_into("<II", fixed, 0x24, len(values), listed)
    struct.pack_into("<H", fixed, 0x48, len(name))
    return cells.add(bytes(fixed) + name.encode("latin-1"))


def _value(cells: _Cells, name: str, data: bytes) -> int:
    if len(data) <= 4:
        size, place = len(data) | 0x80000000, data.ljust(4, b"\0")
    else:
        size, place = len(data), struct.pack("<I", cells.add(data))
    return cells.add(
        b"vk" + struct.pack("<HI", len(name), size) + place + struct.pack("<IHH", 1, 1, 0) + name.encode("latin-1")
    )
