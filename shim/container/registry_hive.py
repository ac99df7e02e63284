"""A registry hive, read from its file: the part of the format that looks up one string value.

A hive is a header and then cells, which point at each other by offset. A key (`nk`) names a list of subkeys and a list
of values (`vk`). Lists of subkeys come in four shapes: `lf` and `lh` have a hint beside each offset, `li` has none, and
`ri` is a list of lists. Only what is needed is read, a few hundred bytes of a file of many megabytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_CELLS = 0x1000  # where the first cell is
_ROOT = 0x24
_LATIN_KEY, _LATIN_VALUE = 0x20, 0x01
_TEXT_TYPES = (1, 2)
_INLINE = 0x80000000
_LONGEST_CELL = 1 << 20


class HiveError(Exception):
    """Not a hive, or a damaged one."""


class Hive:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        header = self._read(0, 0x28)
        if header[:4] != b"regf":
            raise HiveError("not a registry hive")
        self._root = _number(header, _ROOT)

    def text(self, path: str, name: str) -> str:
        """The text value of a key, found without regard to case; "" when there is none."""
        key = self._root
        for part in path.split("\\"):
            found = self._subkey(key, part.lower())
            if found is None:
                return ""
            key = found
        return self._value(key, name.lower())

    def _subkey(self, key: int, name: str) -> int | None:
        cell = self._key(key)
        if not _number(cell, 0x14):
            return None
        for offset, hint in self._listed(_number(cell, 0x1C), nested=True):
            if hint is not None and hint != _hash(name):
                continue
            child = self._key(offset)
            length = _short(child, 0x48)
            if _name(child[0x4C : 0x4C + length], bool(_short(child, 2) & _LATIN_KEY)).lower() == name:
                return offset
        return None

    def _listed(self, offset: int, *, nested: bool) -> Iterator[tuple[int, int | None]]:
        """Offsets of subkeys, each with its hash if the list has that."""
        cell = self._cell(offset)
        kind, count = cell[:2], _short(cell, 2)
        width = 8 if kind in (b"lf", b"lh") else 4
        if kind not in (b"lf", b"lh", b"li", b"ri") or len(cell) < 4 + width * count or (kind == b"ri" and not nested):
            raise HiveError("a damaged list of keys")
        for index in range(count):
            position = 4 + width * index
            if kind == b"ri":
                yield from self._listed(_number(cell, position), nested=False)
            else:
                yield _number(cell, position), _number(cell, position + 4) if kind == b"lh" else None

    def _value(self, key: int, name: str) -> str:
        cell = self._key(key)
        count = _number(cell, 0x24)
        if not count:
            return ""
        offsets = self._cell(_number(cell, 0x28))
        for index in range(min(count, len(offsets) // 4)):
            value = self._cell(_number(offsets, 4 * index))
            length = _short(value, 2)
            if value[:2] != b"vk" or len(value) < 0x14 + length:
                raise HiveError("a damaged value")
            if _name(value[0x14 : 0x14 + length], bool(_short(value, 0x10) & _LATIN_VALUE)).lower() == name:
                return self._text_of(value)
        return ""

    def _text_of(self, value: bytes) -> str:
        if _number(value, 12) not in _TEXT_TYPES:
            return ""
        size = _number(value, 4)
        # Up to four bytes are stored in place of their offset.
        data = value[8 : 8 + (size & 7)] if size & _INLINE else self._cell(_number(value, 8))[:size]
        return data.decode("utf-16-le", "replace").partition("\0")[0]

    def _key(self, offset: int) -> bytes:
        cell = self._cell(offset)
        if cell[:2] != b"nk" or len(cell) < 0x4C:
            raise HiveError("a damaged key")
        return cell

    def _cell(self, offset: int) -> bytes:
        size = -int.from_bytes(self._read(_CELLS + offset, 4), "little", signed=True)
        if not 4 < size <= _LONGEST_CELL:  # a free cell has a positive size
            raise HiveError("a damaged cell")
        return self._read(_CELLS + offset + 4, size - 4)

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) < size:
            raise HiveError("a hive that is cut short")
        return data


def _hash(name: str) -> int:
    total = 0
    for char in name.upper():
        total = (total * 37 + ord(char)) & 0xFFFFFFFF
    return total


def _name(data: bytes, latin: bool) -> str:
    return data.decode("latin-1") if latin else data.decode("utf-16-le", "replace")


def _number(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def _short(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 2], "little")
