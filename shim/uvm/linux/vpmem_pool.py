"""Allocates regions of one virtual persistent memory device for the layers that are mapped onto it.

Regions have one of seven sizes, from 1 MiB in steps of four up to the whole device of 4 GiB. A region that is too large
is split into four; four free parts of one region are merged again. The lowest offset of the smallest size that fits is
taken, as hcsshim does: https://github.com/microsoft/hcsshim/blob/main/internal/memory/pool.go.
"""

from __future__ import annotations

SMALLEST = 1 << 20
CLASSES = 7
PARTS = 4


def class_of(size: int) -> int:
    """The class of the smallest region that holds so many bytes; CLASSES or more: none does."""
    number = 0
    while SMALLEST << 2 * number < size:
        number += 1
    return number


class RegionPool:
    __slots__ = ("_free",)

    def __init__(self) -> None:
        #: By class: the offsets of free regions.
        self._free: list[set[int]] = [set() for _ in range(CLASSES)]
        self._free[-1].add(0)

    def allocate(self, size: int) -> int | None:
        """The offset of a region for so many bytes; None if there is none."""
        wanted = class_of(size)
        found = next((number for number in range(wanted, CLASSES) if self._free[number]), None)
        if found is None:
            return None
        offset = min(self._free[found])
        self._free[found].discard(offset)
        for number in range(found - 1, wanted - 1, -1):
            part = SMALLEST << 2 * number
            self._free[number].update(offset + at * part for at in range(1, PARTS))
        return offset

    def release(self, offset: int, size: int) -> None:
        number = class_of(size)
        while number < CLASSES - 1:
            part = SMALLEST << 2 * number
            whole = offset - offset % (part * PARTS)
            siblings = {whole + at * part for at in range(PARTS)} - {offset}
            if not siblings <= self._free[number]:
                break
            self._free[number] -= siblings
            offset, number = whole, number + 1
        self._free[number].add(offset)
