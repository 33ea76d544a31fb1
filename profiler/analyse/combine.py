"""Several kernels of one range become one value: sums, maxima, weighted means, ratios of sums.

Missing stays missing: a range with one value missing has no sum, never a partial one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.metrics.catalogue import CATALOGUE, TIME, Combine, Metric
from profiler.metrics.queries import ncu_name, raw_combine, raw_sources

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Launches sorted into ranges: `codes[i]` is the range of row i of `launches`, from 0."""

    launches: pd.DataFrame
    codes: Codes
    count: int

    def column(self, names: Iterable[str]) -> Floats:
        """Values of the first of these columns that the tool gave; NaN where it gave none."""
        for name in names:
            if name in self.launches.columns:
                values = pd.to_numeric(self.launches[name], errors="coerce")
                return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.full(len(self.codes), np.nan)

    def kernels(self) -> npt.NDArray[np.intp]:
        """Number of launches in each range."""
        return np.bincount(self.codes, minlength=self.count)

    def sums(self, values: Floats) -> Floats:
        """Sum of each range; NaN where one value is."""
        return np.bincount(self.codes, weights=values, minlength=self.count).astype(np.float64)

    def extremes(self, values: Floats, combine: Combine) -> Floats:
        """Largest or smallest of each range; NaN where one value is."""
        largest = combine is Combine.MAX
        result = np.full(self.count, -np.inf if largest else np.inf)
        with np.errstate(
            invalid="ignore"
        ):  # some versions of numpy warn that NaN wins, as it shall
            (np.maximum if largest else np.minimum).at(result, self.codes, values)
        return result

    def means(self, values: Floats, weights: Floats) -> Floats:
        """Weighted mean of each range; the value itself where there is one kernel."""
        total = self.sums(weights)
        mean = np.divide(
            self.sums(values * weights), total, out=np.full(self.count, np.nan), where=total > 0
        )
        return np.where(self.kernels() == 1, self.sums(values), mean)


def combine_metrics(
    ranges: Ranges, names: Iterable[str], compute_capability: str | None
) -> dict[str, Floats]:
    """Values of each range, by those of these metrics that ncu measures."""
    measured = [name for name in names if name not in CATALOGUE or CATALOGUE[name].ncu]
    return {name: combine_metric(ranges, name, compute_capability) for name in measured}


def combine_metric(ranges: Ranges, name: str, compute_capability: str | None) -> Floats:
    """One value per range for a metric of the catalogue or a raw ncu name, in its own unit."""
    metric = CATALOGUE.get(name)
    if metric is None:
        return _combine(ranges, ranges.column([name]), raw_combine(name))
    raw = ncu_name(name, compute_capability)
    values = ranges.column([*([raw] if raw else []), *raw_sources(name)])
    if metric.combine is Combine.RATIO_OF_SUMS:
        return _ratio(ranges, values, metric)
    return _combine(ranges, values, metric.combine, metric.weight) * metric.scale


def _combine(ranges: Ranges, values: Floats, combine: Combine, weight: str = TIME) -> Floats:
    if combine is Combine.SUM:
        return ranges.sums(values)
    if combine in (Combine.MAX, Combine.MIN):
        return ranges.extremes(values, combine)
    by_time = ranges.means(values, ranges.column([TIME]))
    if weight == TIME:
        return by_time
    weighted = ranges.means(values, ranges.column([weight]))
    return np.where(np.isnan(weighted), by_time, weighted)


def _ratio(ranges: Ranges, reported: Floats, metric: Metric) -> Floats:
    """Hit rate of each range in percent: as reported for one kernel, from sums for several."""
    parts = [part for part in (metric.numerator, metric.denominator) if part is not None]
    numerator, denominator = (ranges.sums(ranges.column([part])) for part in parts)
    from_parts = 100 * np.divide(
        numerator, denominator, out=np.full(ranges.count, np.nan), where=denominator > 0
    )
    by_time = ranges.means(reported, ranges.column([TIME]))
    single = (ranges.kernels() == 1) & ~np.isnan(by_time)
    return np.where(single | np.isnan(from_parts), by_time, from_parts)
