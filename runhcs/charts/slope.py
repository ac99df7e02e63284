"""The growth of a series of samples, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from attrs import frozen

# Above this number of points a slope is computed from averages of neighbours, since every pair of points counts.
MAX_SLOPE_POINTS = 250
NORMAL_975 = 1.959964


@frozen
class Interval:
    """An estimate and its confidence interval, 95 % unless stated otherwise."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return self.text(".2f")

    def text(self, form: str) -> str:
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def as_list(self) -> list[float]:
        return [self.value, self.low, self.high]


def slope(
    points: Sequence[tuple[float, float]], normal: float = NORMAL_975, most: int = MAX_SLOPE_POINTS
) -> Interval | None:
    """Growth per x: the Theil-Sen estimator (median of the slopes of all pairs) with Sen's interval.

    A step while caches fill affects few of the pairs, and so changes the result little; a leak affects all pairs.
    `normal` is the quantile of the normal distribution for the interval. The interval is that of independent samples:
    neighbours that depend on each other are averaged until there are at most `most` points.
    """
    return _slope(tuple(downsample(points, most)), normal)


@lru_cache(1024)
def _slope(points: tuple[tuple[float, float], ...], normal: float) -> Interval | None:
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(points)
        for later in points[number + 1 :]
        if later[0] != earlier[0]
    )
    if not slopes:
        return None
    n = len(points)
    spread = normal * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(int((len(slopes) - spread) / 2), 0)
    high = min(math.ceil((len(slopes) + spread) / 2), len(slopes) - 1)
    return Interval(median(slopes), slopes[low], slopes[high])


def median(ordered: Sequence[float]) -> float:
    """Of sorted values."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def downsample(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many points: averages of neighbours."""
    size = -(-len(points) // most)
    if size <= 1:
        return list(points)
    blocks = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return [(_mean([x for x, _ in block]), _mean([y for _, y in block])) for block in blocks]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
