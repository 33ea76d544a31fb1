"""Where the level of a series of runs changes: a piecewise constant fit by Huber's loss.

The partition minimises the sum of the losses around the level of each segment and a penalty for
each change (optimal partitioning by dynamic programming: Jackson et al. 2005; with a robust loss:
Fearnhead and Rigaill 2019, "Changepoint detection in the presence of outliers"). One run that was
disturbed counts by its distance, not by its square. Distances are in units of the error that each
run is known to have, so that one of few blocks moves no level; where neighbouring runs differ by
more than that, in units of these differences.

Loss and penalty are chosen by planted steps in recorded drift, beside asv's and Apache Otava's
detection (`benchmarks/history/change_points.py`; its README has the table).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from profiler.analyse.intervals import DEVIATION_OF_MAD, Floats

FEWEST_RUNS = 3
"""Runs that a level needs: two of a kind do not tell a change from a disturbance."""
MOST_RUNS = 100
"""The newest that are looked at: the time grows with the third power of their number."""
_PENALTY = 1.5
_PENALTY_RUNS = 60
"""Shorter series have the penalty of one of so many runs: their noise is known less well."""
_WINDOW = 5
"""Runs whose median is a level that segments may have: of a level of three, three of them."""
_LINEAR_FROM = 2.0
"""Errors from which on a distance counts by itself: less than that is no disturbance."""
_VALUES_AT_ONCE = 2**22


def change_points(series: Floats, errors: Floats) -> list[tuple[int, ...]]:
    """Positions of the first run of each new level, for each row of `series` (count, runs).

    `series` holds logarithms without NaN, oldest run first; `errors` (count, runs) the standard
    deviations that its numbers are known to have. At most `MOST_RUNS` runs are taken.
    """
    count, runs = series.shape
    if runs < 2 * FEWEST_RUNS:
        return [()] * count
    noise = errors * np.fmax(_excess(series, errors), 1.0)[:, np.newaxis]
    at_once = max(1, _VALUES_AT_ONCE // runs**2)
    parts = (slice(start, start + at_once) for start in range(0, count, at_once))
    return [points for part in parts for points in _partitions(series[part], noise[part])]


def _excess(series: Floats, errors: Floats) -> Floats:
    """Deviation of the differences of neighbouring runs ÷ that of their errors: (count,)."""
    differences = np.diff(series, axis=1) / np.hypot(errors[:, 1:], errors[:, :-1])
    middle = np.median(differences, axis=1, keepdims=True)
    deviations: Floats = DEVIATION_OF_MAD * np.median(np.abs(differences - middle), axis=1)
    return deviations


def _partitions(series: Floats, noise: Floats) -> list[tuple[int, ...]]:
    count, runs = series.shape
    penalty = _PENALTY * np.log(max(runs, _PENALTY_RUNS))
    costs = _segment_costs(series, noise)
    best = np.full((count, runs + 1), np.inf)
    best[:, 0] = -penalty
    begins = np.zeros((count, runs + 1), dtype=np.int64)
    for end in range(FEWEST_RUNS, runs + 1):
        starts = slice(0, end - FEWEST_RUNS + 1)
        totals = best[:, starts] + costs[:, starts, end] + penalty
        begins[:, end] = totals.argmin(axis=1)
        best[:, end] = totals.min(axis=1)
    return [_change_positions(row, runs) for row in begins]


def _segment_costs(series: Floats, noise: Floats) -> Floats:
    """Sum of the losses of `series[:, i:j]` around the level that fits it best, at [:, i, j]."""
    count, runs = series.shape
    costs = np.full((count, runs + 1, runs + 1), np.inf)
    sums = np.zeros((count, runs + 1))
    for levels in np.median(sliding_window_view(series, _WINDOW, axis=1), axis=-1).T:
        distances = np.abs(series - levels[:, np.newaxis]) / noise
        near = np.minimum(distances, _LINEAR_FROM)
        np.cumsum(near * (distances - near / 2), axis=1, out=sums[:, 1:])  # Huber's loss
        np.minimum(costs, sums[:, np.newaxis, :] - sums[:, :, np.newaxis], out=costs)
    return costs


def _change_positions(begins: npt.NDArray[np.int64], runs: int) -> tuple[int, ...]:
    """Begins of all segments but the first; `begins` has that of the segment ending at each run."""
    points = []
    while (runs := int(begins[runs])) > 0:
        points.append(runs)
    return tuple(reversed(points))
