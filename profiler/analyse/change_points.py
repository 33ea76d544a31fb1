"""Where the level of a series of runs changes: a piecewise constant fit by absolute deviations.

The partition minimises the sum of absolute deviations from the median of each segment and a penalty
for each change (the Potts functional with an L1 norm, by dynamic programming: Jackson et al. 2005,
"An algorithm for optimal partitioning of data on an interval"). One run that was disturbed moves no
median. Deviations are in units of the noise of the series, which neighbouring runs tell, and which
is at least what sessions are known to differ by: of few runs the estimate alone would be too low.

Penalty and floor are chosen by planted steps in recorded drift, beside asv's and Apache Otava's
detection (`benchmarks/history/change_points.py`; docs/history.md has the table).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Floats = npt.NDArray[np.float64]

FEWEST_RUNS = 3
"""Of a level: two runs of a kind do not tell a change from a disturbance."""
MOST_RUNS = 100
"""The newest that are looked at: the time grows with the third power of their number."""
_PENALTY = 2.0
_PENALTY_RUNS = 60
"""Shorter series have the penalty of one of so many runs: their noise is known less well."""
_TO_DEVIATION = 1.4826 / np.sqrt(2)
"""From the median absolute difference of neighbours to a standard deviation, for normal errors."""
_VALUES_AT_ONCE = 2**22


def change_points(series: Floats, floors: Floats) -> list[tuple[int, ...]]:
    """Positions of the first run of each new level, for each row of `series` (count, runs).

    `series` holds logarithms without NaN, oldest run first; `floors` (count,) the least standard
    deviation that its runs are known to scatter by. At most `MOST_RUNS` runs are taken.
    """
    count, runs = series.shape
    if runs < 2 * FEWEST_RUNS:
        return [()] * count
    scaled = (series - np.median(series, axis=1, keepdims=True)) / _noise(series, floors)
    at_once = max(1, _VALUES_AT_ONCE // runs**2)
    parts = (scaled[start : start + at_once] for start in range(0, count, at_once))
    return [points for part in parts for points in _partitions(part)]


def _noise(series: Floats, floors: Floats) -> Floats:
    """Standard deviation of each row by what neighbours differ by: (count, 1); never 0."""
    differences = np.diff(series, axis=1)
    middle = np.median(differences, axis=1, keepdims=True)
    deviations = _TO_DEVIATION * np.median(np.abs(differences - middle), axis=1)
    noise: Floats = np.fmax.reduce([deviations, floors, np.full(len(series), 1e-9)])
    return noise[:, np.newaxis]


def _partitions(series: Floats) -> list[tuple[int, ...]]:
    count, runs = series.shape
    penalty = _PENALTY * np.log(max(runs, _PENALTY_RUNS))
    costs = _segment_costs(series)
    best = np.full((count, runs + 1), np.inf)
    best[:, 0] = -penalty
    begins = np.zeros((count, runs + 1), dtype=np.int64)
    for end in range(FEWEST_RUNS, runs + 1):
        starts = slice(0, end - FEWEST_RUNS + 1)
        totals = best[:, starts] + costs[:, starts, end] + penalty
        begins[:, end] = totals.argmin(axis=1)
        best[:, end] = totals.min(axis=1)
    return [_traced(row, runs) for row in begins]


def _segment_costs(series: Floats) -> Floats:
    """Sum of absolute deviations from the median of `series[:, i:j]`, at [:, i, j]."""
    count, runs = series.shape
    costs = np.full((count, runs + 1, runs + 1), np.inf)
    for length in range(FEWEST_RUNS, runs + 1):
        ordered = np.sort(sliding_window_view(series, length, axis=1), axis=-1)
        half = length // 2
        starts = np.arange(runs - length + 1)
        above, below = ordered[..., length - half :], ordered[..., :half]
        costs[:, starts, starts + length] = above.sum(axis=-1) - below.sum(axis=-1)
    return costs


def _traced(begins: npt.NDArray[np.int64], runs: int) -> tuple[int, ...]:
    """Begins of the segments behind the first, from the begin of the one that ends at each run."""
    points = []
    while (runs := int(begins[runs])) > 0:
        points.append(runs)
    return tuple(reversed(points))
