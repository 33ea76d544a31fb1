"""Confidence intervals of medians, many at a time, and offsets between sessions.

A session is one start of the process: addresses of inputs, the clock and the SMs that a kernel gets
last as long as it. So the ratio of two cells has an offset that all blocks of a session share: a
random effect with mean 0. Its standard deviation is estimated from cells that two sessions
measured, the timing blocks and the confirmation; with few of them, what the recordings of other
runs gave weighs more. Short kernels have more of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
FEWEST = 3
"""Fewer values than this have no interval: resampling two values says nothing about a third."""
RESAMPLES = 999
"""The ends of a 95 % interval are then its 25th value from below and from above."""
SEED = 20260101
"""Any fixed number: the same samples always give the same interval."""
CLASSES_NS = (10_000.0, 50_000.0)
"""Durations from which the second and the third class are."""
PRIOR_SDS = (0.006, 0.006, 0.001)
"""Standard deviation of the log ratio between sessions, by class, of runs without pairs of their
own. Below 50 us that of 48 pairs of three recordings: `docs/verdicts.md` says which, and how it is
found again."""
NO_OFFSETS = (0.0, 0.0, 0.0)
PRIOR_PAIRS = 20
"""Pairs of a run's own that weigh as much as the standard deviations above."""
COVERED = 3.5
"""Standard deviations that a margin holds: of 80 equal pairs, one is beyond it in 4 % of runs."""
DEVIATION_OF_MAD = 1.4826
"""Standard deviation ÷ median absolute deviation, of normal errors."""
_HALF_WIDTH = float(-ndtri((1 - CONFIDENCE) / 2))
_CHUNK_VALUES = 2**17
"""Values or resamples per call: they stay in a processor's cache, and a call's cost is shared."""
_MOST_RESAMPLED = 128
"""Values of a row beyond which the ranks of middle values are drawn instead of all values."""
_VALUES_AT_ONCE = 2**20
"""Values of resamples of a long row that are in memory together."""


def median_intervals(rows: Floats) -> tuple[Floats, Floats]:
    """95 % bootstrap interval (BCa) of the median of each row.

    `rows` is (count, n) without NaN; both results are (count,). NaN where n is below `FEWEST`; the
    value itself where all values of a row are equal. BCa has no answer where leaving out any one
    value never moves the median; the percentile interval stands in there.
    """
    count, n = rows.shape
    if n < FEWEST:
        return np.full(count, np.nan), np.full(count, np.nan)
    low, high = rows[:, 0].copy(), rows[:, 0].copy()
    varied = np.flatnonzero(np.ptp(rows, axis=1) > 0)
    chunk = max(1, _CHUNK_VALUES // max(n, RESAMPLES))
    for start in range(0, len(varied), chunk):
        indices = varied[start : start + chunk]
        low[indices], high[indices] = _bootstrap(rows[indices])
    return low, np.maximum(low, high)  # percentiles of nearly equal medians may cross by a rounding


def group_intervals(values: Floats, sizes: npt.NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
    """95 % intervals of the medians of groups that lie one after the other in `values`.

    `sizes` is (groups,), its sum the length of `values`; all groups of one size go at a time.
    """
    low, high = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    for groups, places in equal_sizes(sizes):
        low[groups], high[groups] = median_intervals(values[places])
    return low, high


def equal_sizes(
    sizes: npt.NDArray[np.integer[Any]],
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Numbers of the groups of each size, and places of their values: (count,), (count, size).

    `sizes` is (groups,), of groups that lie one after the other; empty ones are left out.
    """
    starts = np.cumsum(sizes) - sizes
    for n in np.unique(sizes[sizes > 0]):
        groups = np.flatnonzero(sizes == n)
        yield groups, starts[groups, np.newaxis] + np.arange(n)


def selection_bias(rows: Floats, session_sd: float = 0.0) -> float:
    """Median bias, below 0, of the lowest median among equal cells, by choosing the lowest.

    `rows` (cells, n) are log durations in the same blocks, which are resampled together. All cells
    are taken to have one true duration, and each to scatter as it did, with an offset of its own
    that lasts the session (`session_sd`). The median over the resamples: where half of the visits
    of a cell were slow, a third of its resamples are lower by all of that.
    """
    deviations = resampled_medians(rows) - np.median(rows, axis=1, keepdims=True)
    offsets = np.random.default_rng(SEED).normal(0, session_sd, deviations.shape)
    return float(np.median((deviations + offsets).min(axis=0)))


def _bootstrap(rows: Floats) -> tuple[Floats, Floats]:
    """Ends of the 95 % bootstrap interval of the median of each row; no row is constant.

    By the formulas of `scipy.stats.bootstrap` (Efron and Tibshirani 1993, 14.3), which takes three
    times as long for many short rows; the tests compare both.
    """
    medians = np.sort(drawn_medians(rows), axis=-1)
    tail = (1 - CONFIDENCE) / 2
    tails = _bca_tails(rows, medians, tail)
    unanswered = np.isnan(tails).any(axis=-1, keepdims=True)
    ends = _quantiles(medians, np.where(unanswered, [tail, 1 - tail], tails))
    # Clipped, because interpolating between equal values can leave their range by a last digit.
    ends = np.clip(ends, rows.min(axis=-1, keepdims=True), rows.max(axis=-1, keepdims=True))
    return ends[:, 0], ends[:, 1]


def drawn_medians(rows: Floats) -> Floats:
    """Median of each resample of each row: (rows, RESAMPLES); every row is resampled on its own.

    Of long rows the ranks of the middle values are drawn, by their distribution, and not all values
    of a resample: n uniform numbers in order have their k-th one from Beta(k, n + 1 - k), and the
    place of a value is n times it, without its fraction. That takes no longer for a million values.
    """
    n = rows.shape[-1]
    if n <= _MOST_RESAMPLED:
        return resampled_medians(rows)
    generator = np.random.default_rng(SEED)
    lower_middle = (n + 1) // 2
    low = high = generator.beta(lower_middle, n + 1 - lower_middle, RESAMPLES)
    if n % 2 == 0:
        high = low + (1 - low) * generator.beta(1, n - lower_middle, RESAMPLES)
    ordered = np.sort(rows, axis=-1)
    first, second = (np.minimum((n * middle).astype(np.intp), n - 1) for middle in (low, high))
    medians: Floats = (ordered[:, first] + ordered[:, second]) / 2
    return medians


def resampled_medians(rows: Floats) -> Floats:
    """Median of each resample of each row: (rows, RESAMPLES); all rows are resampled together.

    Part by part: of long rows all resamples would take a thousand times their memory.
    """
    n = rows.shape[-1]
    generator = np.random.default_rng(SEED)
    at_once = max(1, _VALUES_AT_ONCE // n)
    parts: list[Floats] = []
    for start in range(0, RESAMPLES, at_once):
        places = generator.integers(0, n, (min(at_once, RESAMPLES - start), n))
        if n <= _MOST_RESAMPLED:
            parts.append(_medians_at(places, rows))
        else:
            parts.append(np.array([np.median(row[places], axis=-1) for row in rows]))
    return np.concatenate(parts, axis=-1)


def _medians_at(places: npt.NDArray[np.int64], rows: Floats) -> Floats:
    """Median of the values at each of `places` (resamples, n) in each row: (rows, resamples).

    A rank lies below the middle of a resample where no more than half of it was drawn up to there.
    Counting that rank by rank, for all rows at once, takes a quarter of the time of sorting each.
    """
    count, n = places.shape
    draws = (count * places + np.arange(count)[:, np.newaxis]).ravel()
    times_drawn = np.bincount(draws, minlength=n * count).reshape(n, count).astype(np.uint8)
    order = np.argsort(rows, axis=-1)
    drawn, low, high = np.zeros((3, len(rows), count), np.uint8)
    for places_of_rank in order.T:
        drawn += times_drawn[places_of_rank]
        low += drawn <= (n - 1) // 2
        high += drawn <= n // 2
    ordered, row = np.take_along_axis(rows, order, axis=-1), np.arange(len(rows))[:, np.newaxis]
    medians: Floats = (ordered[row, low] + ordered[row, high]) / 2
    return medians


def _bca_tails(rows: Floats, medians: Floats, tail: float) -> Floats:
    """Fractions of the resampled medians of each row below both ends of its interval: (rows, 2).

    Bias-corrected and accelerated; NaN where leaving out a value never moves the median.
    """
    median = np.median(rows, axis=-1, keepdims=True)
    below = np.count_nonzero(medians < median, axis=-1) + np.count_nonzero(medians <= median, -1)
    bias = ndtri(below / (2 * medians.shape[-1]))[:, np.newaxis]
    shifted = bias + np.array([ndtri(tail), -ndtri(tail)])
    with np.errstate(invalid="ignore", divide="ignore"):
        tails: Floats = ndtr(bias + shifted / (1 - _acceleration(rows)[:, np.newaxis] * shifted))
    return tails


def _acceleration(rows: Floats) -> Floats:
    """Skewness of the medians that leave out one value of each row, as BCa weighs it."""
    n = rows.shape[-1]
    without_one = _medians_without_one(rows)
    influence = (n - 1) * (without_one.mean(axis=-1, keepdims=True) - without_one)
    cubes, squares = (influence**3).sum(axis=-1) / n**3, (influence**2).sum(axis=-1) / n**2
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration: Floats = 1 / 6 * cubes / squares**1.5
    return acceleration


def _medians_without_one(rows: Floats) -> Floats:
    """Median of the other values of the row, for each value; at most three distinct medians."""
    n = rows.shape[-1]
    order = np.argsort(rows, axis=-1)
    ordered = np.take_along_axis(rows, order, axis=-1)
    ranks = np.arange(n)
    # Without the value of a rank, those above it move down by one.
    low, high = (place + (ranks <= place) for place in ((n - 2) // 2, (n - 1) // 2))
    # Column by column: the last digits of sums depend on it.
    medians = np.empty(rows.shape, order="F")
    np.put_along_axis(medians, order, (ordered[:, low] + ordered[:, high]) / 2, axis=-1)
    return medians


def _quantiles(ordered: Floats, fractions: Floats) -> Floats:
    """Linear quantiles of each row, whose values are in order: (rows, fractions)."""
    last = ordered.shape[-1] - 1
    place = fractions * (last + 1) + (1 - fractions)  # counted from 1, as SciPy does
    lower = np.clip(place // 1 - 1, 0, last).astype(np.int64)
    upper = np.minimum(lower + 1, last)
    share = place % 1
    low = np.take_along_axis(ordered, lower, axis=-1)
    quantiles: Floats = (1 - share) * low + share * np.take_along_axis(ordered, upper, axis=-1)
    return quantiles


# ---- offsets between sessions --------------------------------------------------------------------


def duration_classes(durations_ns: Floats) -> npt.NDArray[np.int64]:
    """Class of each duration: 0 below 10 us, 1 to 50 us, 2 above; NaN is 2."""
    return np.searchsorted(CLASSES_NS, durations_ns, side="right").astype(np.int64)


def session_sds(shorter_ns: Floats, sds: Sequence[float] = PRIOR_SDS) -> Floats:
    """Standard deviation of each pair's log ratio between sessions, by the shorter duration."""
    return np.asarray(sds, dtype=np.float64)[duration_classes(shorter_ns)]


def estimated_sds(timing: pd.DataFrame, final: pd.DataFrame) -> tuple[float, ...]:
    """Standard deviation of the log ratio between two sessions by class.

    From `offset_variances`, and `PRIOR_SDS` as if `PRIOR_PAIRS` pairs had given it.
    """
    variances = offset_variances(timing, final)
    classes = duration_classes(variances["shorter_ns"].to_numpy(dtype=np.float64))
    sds = []
    for number, sd in enumerate(PRIOR_SDS):
        run_variances = variances["variance"].to_numpy(dtype=np.float64)[classes == number]
        mean = (PRIOR_PAIRS * sd**2 + run_variances.sum()) / (PRIOR_PAIRS + len(run_variances))
        sds.append(float(np.sqrt(max(0.0, mean))))
    return tuple(sds)


def offset_variances(timing: pd.DataFrame, final: pd.DataFrame) -> pd.DataFrame:
    """Estimated variance between sessions of each pair of both frames: `shorter_ns variance`.

    Frames have a row per pair and block: `pair log_ratio shorter_ns`. The two medians of a pair
    differ by both offsets and by both errors within sessions. The variance of these errors is
    subtracted: an estimate of one pair may be below 0, the mean of the estimates is not biased.
    """
    timing_medians, final_medians = _medians_of_pairs(timing), _medians_of_pairs(final)
    joined = timing_medians.add_suffix("_first").join(
        final_medians.add_suffix("_second"), how="inner"
    )
    squares = (joined["median_first"] - joined["median_second"]) ** 2
    variance = (squares - joined["error_first"] - joined["error_second"]) / 2
    return pd.DataFrame({"shorter_ns": joined["shorter_ns_first"], "variance": variance})


def _medians_of_pairs(blocks: pd.DataFrame) -> pd.DataFrame:
    """Median log ratio of each pair, the variance of its error, and the shorter duration."""
    finite = blocks[np.isfinite(blocks["log_ratio"])].sort_values("pair", kind="stable")
    of_pairs = finite.groupby("pair")
    medians = of_pairs[["log_ratio", "shorter_ns"]].median()
    log_ratios = finite["log_ratio"].to_numpy(dtype=np.float64)
    errors = np.empty(len(medians))
    for pairs, places in equal_sizes(of_pairs.size().to_numpy()):
        errors[pairs] = drawn_medians(log_ratios[places]).var(axis=1)
    table: pd.DataFrame = medians.rename(columns={"log_ratio": "median"}).assign(error=errors)
    return table


def session_margin(sd: float) -> float:
    """Margin of a relative deviation between sessions, relative too."""
    return float(np.expm1(COVERED * np.log1p(sd)))


def widened_ends(end: Floats, middle: Floats, sds: Floats | float) -> Floats:
    """End of each 95 % interval around `middle`, with the offset of its session in it."""
    distance = np.hypot(end - middle, _HALF_WIDTH * sds)
    return middle + np.where(end < middle, -distance, distance)
