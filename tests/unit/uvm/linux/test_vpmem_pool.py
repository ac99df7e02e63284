"""Regions of a VPMem device: where they are, and that they are merged again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.uvm.linux.vpmem_pool import CLASSES, RegionPool, class_of

MIB = 1 << 20
WHOLE = 4096 * MIB


@pytest.mark.parametrize(
    ("size", "number"), [(1, 0), (MIB, 0), (MIB + 1, 1), (4 * MIB, 1), (4 * MIB + 1, 2), (WHOLE, 6), (WHOLE + 1, 7)]
)
def test_class_is_the_smallest_that_holds_the_size(size: int, number: int) -> None:
    assert class_of(size) == number


def test_regions_have_the_lowest_offset_of_the_smallest_class() -> None:
    pool = RegionPool()
    assert [pool.allocate(size) for size in (MIB, MIB, 5 * MIB, MIB)] == [0, MIB, 16 * MIB, 2 * MIB]
    pool.release(MIB, MIB)
    assert pool.allocate(MIB) == MIB


def test_pool_that_is_full_allocates_nothing() -> None:
    pool = RegionPool()
    assert pool.allocate(1024 * MIB + 1) == 0
    assert pool.allocate(1) is None
    assert RegionPool().allocate(WHOLE + 1) is None


@given(st.lists(st.integers(1, 600 * MIB), max_size=40), st.randoms())
def test_regions_never_overlap_and_merge_to_the_whole_device(sizes: list[int], random: object) -> None:
    pool = RegionPool()
    placed = [(offset, size) for size in sizes if (offset := pool.allocate(size)) is not None]
    ends = 0
    for offset, size in sorted(placed):
        region = MIB << 2 * class_of(size)
        assert offset >= ends and offset % region == 0 and offset + region <= WHOLE
        ends = offset + region
    random.shuffle(placed)  # type: ignore[attr-defined]
    for offset, size in placed:
        pool.release(offset, size)
    assert pool._free[CLASSES - 1] == {0} and not any(pool._free[: CLASSES - 1])
