"""What samples say: their distribution, the ratio of medians to a baseline, a slope, each with how sure one can be.

Medians, since a busy machine makes long tails; intervals by the bootstrap, since nothing is known of the distribution;
seeded, since the same samples must always say the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median, stdev

RESAMPLES = 2000
CONFIDENCE = 0.95
# Of more points than this a slope is taken of averages of neighbours: every pair of points is looked at.
MOST_POINTS = 250
NORMAL_975 = 1.959964
# The range of n samples holds the median with a chance of 1 - 2 / 2**n: with fewer than six nobody can be 95 % sure.
FEWEST = 6

Interval = tuple[float, float, float]  # value, low, high


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, between neighbours where it falls between them."""
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summary(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "min": ordered[0],
        "p50": median(ordered),
        "p90": percentile(ordered, 0.9),
        "p99": percentile(ordered, 0.99),
        "max": ordered[-1],
        "mean": fmean(ordered),
        "sd": stdev(ordered) if len(ordered) > 1 else 0.0,
    }


def resampled_median(ordered: Sequence[float], chance: random.Random) -> float:
    """The median of as many values drawn with replacement, without drawing them all.

    A drawn value is `ordered[floor(n * u)]` for a uniform u, and the larger u the larger the value: so its median is
    where the median of n uniform numbers points, and that is distributed by Beta. For an even n the second of the two
    in the middle is the least of the remaining uniform numbers above the first.
    """
    n = len(ordered)
    half = n // 2
    if n % 2:
        return ordered[min(int(n * chance.betavariate(half + 1, half + 1)), n - 1)]
    first = chance.betavariate(half, half + 1)
    second = 1 - (1 - first) * chance.random() ** (1 / half)
    return (ordered[min(int(n * first), n - 1)] + ordered[min(int(n * second), n - 1)]) / 2


def ratio(values: Sequence[float], baseline: Sequence[float], seed: int = 0) -> Interval | None:
    """The ratio of medians and its 95 % interval by the percentile bootstrap. None where nothing divides."""
    if not values or not baseline or not median(baseline):
        return None
    return _ratio(tuple(sorted(values)), tuple(sorted(baseline)), seed)


def sure(*sets: Sequence[float]) -> bool:
    """Whether there are enough of all of them for an interval that deserves its name."""
    return all(len(one) >= FEWEST for one in sets)


@lru_cache(4096)  # table, files and charts ask for the same
def _ratio(above: tuple[float, ...], below: tuple[float, ...], seed: int) -> Interval:
    chance = random.Random(seed)
    ratios = []
    for _ in range(RESAMPLES):
        denominator = resampled_median(below, chance)
        numerator = resampled_median(above, chance)
        if denominator:
            ratios.append(numerator / denominator)
    ratios.sort()
    margin = (1 - CONFIDENCE) / 2
    return median(above) / median(below), percentile(ratios, margin), percentile(ratios, 1 - margin)


def ratio_of_ratios(
    values: Sequence[float],
    baseline: Sequence[float],
    earlier: Sequence[float],
    earlier_baseline: Sequence[float],
    seed: int = 0,
) -> Interval | None:
    """How the ratio to a baseline has changed from an earlier run, and the 95 % interval, all four sets drawn anew."""
    sets = [sorted(one) for one in (values, baseline, earlier, earlier_baseline)]
    if not all(one and median(one) for one in sets):
        return None
    chance = random.Random(seed)
    found = []
    for _ in range(RESAMPLES):
        a, b, c, d = (resampled_median(one, chance) for one in sets)
        if b and c and d:
            found.append((a / b) / (c / d))
    found.sort()
    a, b, c, d = map(median, sets)
    margin = (1 - CONFIDENCE) / 2
    return (a / b) / (c / d), percentile(found, margin), percentile(found, 1 - margin)


def slope(points: Sequence[tuple[float, float]]) -> Interval | None:
    """Growth per x: the median of the slopes of all pairs (Theil, Sen) with Sen's 95 % interval.

    A step while caches fill moves few of the pairs, and so the result little; a leak moves them all.
    """
    return _slope(tuple(_thinned(points)))


@lru_cache(1024)
def _slope(points: tuple[tuple[float, float], ...]) -> Interval | None:
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(points)
        for later in points[number + 1 :]
        if later[0] != earlier[0]
    )
    if not slopes:
        return None
    n = len(points)
    spread = NORMAL_975 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(int((len(slopes) - spread) / 2), 0)
    high = min(math.ceil((len(slopes) + spread) / 2), len(slopes) - 1)
    return median(slopes), slopes[low], slopes[high]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    size = -(-len(points) // MOST_POINTS)
    if size <= 1:
        return list(points)
    blocks = [points[begin : begin + size] for begin in range(0, len(points), size)]
    return [(fmean(x for x, _ in block), fmean(y for _, y in block)) for block in blocks]
