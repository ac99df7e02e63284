"""Statistics of samples: distribution and ratio of medians to a baseline, each with a confidence interval.

Medians, because a busy machine has long tails. Bootstrap intervals, because the distribution is unknown. Seeded, so
that the same samples always give the same interval.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median, stdev

from attrs import frozen

from runhcs.charts.slope import Interval

RESAMPLES = 2000
CONFIDENCE = 0.95
# The range of n samples contains the median with probability 1 - 2 / 2**n: below six samples that is less than 95 %.
MIN_SAMPLES = 6


@frozen
class Summary:
    """The distribution of samples. Field names are the keys in results.json and the columns of tables."""

    n: int
    min: float
    p50: float
    p90: float
    p99: float
    max: float
    mean: float
    sd: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, interpolated between neighbours."""
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summary(values: Sequence[float]) -> Summary:
    ordered = sorted(values)
    return Summary(
        n=len(ordered),
        min=ordered[0],
        p50=median(ordered),
        p90=percentile(ordered, 0.9),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
        mean=fmean(ordered),
        sd=stdev(ordered) if len(ordered) > 1 else 0.0,
    )


def resampled_median(ordered: Sequence[float], rng: random.Random) -> float:
    """The median of as many values drawn with replacement, without drawing them all.

    A drawn value is `ordered[floor(n * u)]` for a uniform u, which is monotonic in u. So the median of the draws is
    where the median of n uniform numbers points, and that has a Beta distribution. For an even n the second of the two
    middle values is the least of the remaining uniform numbers above the first.
    """
    n = len(ordered)
    half = n // 2
    if n % 2:
        return ordered[min(int(n * rng.betavariate(half + 1, half + 1)), n - 1)]
    first = rng.betavariate(half, half + 1)
    second = 1 - (1 - first) * rng.random() ** (1 / half)
    return (ordered[min(int(n * first), n - 1)] + ordered[min(int(n * second), n - 1)]) / 2


def ratio(values: Sequence[float], baseline: Sequence[float], seed: int = 0) -> Interval | None:
    """The ratio of medians with its 95 % percentile bootstrap interval; None without samples or with a zero median."""
    if not values or not baseline or not median(baseline):
        return None
    return _ratio(tuple(sorted(values)), tuple(sorted(baseline)), seed)


def enough_samples(*sets: Sequence[float]) -> bool:
    """Whether each set has enough samples for a 95 % interval."""
    return all(len(one) >= MIN_SAMPLES for one in sets)


@lru_cache(4096)  # tables, files and charts need the same ratios
def _ratio(above: tuple[float, ...], below: tuple[float, ...], seed: int) -> Interval:
    rng = random.Random(seed)
    ratios = []
    for _ in range(RESAMPLES):
        denominator = resampled_median(below, rng)
        numerator = resampled_median(above, rng)
        if denominator:
            ratios.append(numerator / denominator)
    return _interval(median(above) / median(below), ratios)


def _interval(value: float, resampled: list[float]) -> Interval:
    resampled.sort()
    margin = (1 - CONFIDENCE) / 2
    return Interval(value, percentile(resampled, margin), percentile(resampled, 1 - margin))


def ratio_of_ratios(
    values: Sequence[float],
    baseline: Sequence[float],
    earlier: Sequence[float],
    earlier_baseline: Sequence[float],
    seed: int = 0,
) -> Interval | None:
    """The change of the ratio to a baseline since an earlier run, with all four sets resampled."""
    sets = [sorted(one) for one in (values, baseline, earlier, earlier_baseline)]
    if not all(one and median(one) for one in sets):
        return None
    rng = random.Random(seed)
    resampled = []
    for _ in range(RESAMPLES):
        a, b, c, d = (resampled_median(one, rng) for one in sets)
        if b and c and d:
            resampled.append((a / b) / (c / d))
    a, b, c, d = map(median, sets)
    return _interval((a / b) / (c / d), resampled)
