"""Values of metrics: over several kernels of a range, and columns that no tool measures.

Several kernels of one range become one value: by sums, maxima, weighted means, ratios of sums.
Missing stays missing: a range with one value missing has no sum, never a partial one.

Derived metrics, and facts of the build and of the runner, are columns that no tool measures.

The source of each stands in its entry of the catalogue (`Metric.formula`, `Metric.fact`).
Missing is NaN, and a column without a value is left out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.metrics.catalogue import CATALOGUE, TIME, Combine, Metric
from profiler.metrics.formulas import Formula, Origin, needed_metrics
from profiler.metrics.queries import ncu_name, raw_combine, raw_sources
from profiler.model import BuildResult, CellStatus, Environment

_Lookup = Callable[[Formula], "pd.Series[Any]"]

_VISIT_KEY = ("kind", "cell", "block", "arm")
_OVER_KERNELS: Mapping[Combine, Callable[[Iterable[float]], float]] = {
    Combine.MAX: max,
    Combine.MIN: min,
}


def add_sums_of_parts(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples with the metrics that were counted in parts: the sum stands beside the first part.

    Each part may be of another session of the same visit. A new frame.
    """
    sums: dict[str, pd.Series[Any]] = {}
    for name, metric in CATALOGUE.items():
        if not metric.parts or any(part not in samples for part in metric.parts):
            continue
        parts = [_measured_in_visit(samples, part) for part in metric.parts]
        sum_of_parts = reduce(operator.add, parts).where(
            _measured(samples, metric.parts[0]).notna()
        )
        counted_total = _measured(samples, name)
        sums[name] = counted_total.where(counted_total.notna(), sum_of_parts)
    return _with_columns(samples, sums)


def add_derived(
    samples: pd.DataFrame, statuses: Mapping[str, CellStatus], environment: Environment
) -> pd.DataFrame:
    """Samples with those derived metrics of the catalogue whose formulas have all their parts.

    A formula may read the derived metrics that stand before it, and what was counted in parts
    (`add_sums_of_parts`). Returns a new frame.
    """
    samples = add_sums_of_parts(samples)
    derived: dict[str, pd.Series[Any]] = {}

    @cache  # formulas share most of their quantities
    def recorded(quantity: Formula) -> pd.Series[Any]:
        return _quantity(samples, quantity, statuses, environment)

    def lookup(quantity: Formula) -> pd.Series[Any]:
        if quantity.name in derived and quantity.origin in (Origin.SAMPLE, Origin.VISIT):
            return derived[quantity.name]
        return recorded(quantity)

    for name, metric in CATALOGUE.items():
        if metric.formula is None:
            continue
        if all(part in derived or part in samples for part in needed_metrics(metric.formula)):
            value = evaluate(metric.formula, lookup)
            derived[name] = value.where(~(value > metric.most))
    return _with_columns(samples, derived)


def add_experiment_metrics(
    samples: pd.DataFrame,
    metrics: Iterable[Metric],
    statuses: Mapping[str, CellStatus],
    environment: Environment,
) -> pd.DataFrame:
    """Samples with the metrics of the experiment file. A new frame.

    A sample has a value where it has as many of the measured parts itself as any sample of its cell
    has; what another session measured is the mean of the cell.
    """
    values = {
        metric.name: _experiment_metric(samples, metric.formula, statuses, environment)
        for metric in metrics
        if metric.formula is not None
    }
    return _with_columns(samples, values)


def _experiment_metric(
    samples: pd.DataFrame,
    formula: Formula,
    statuses: Mapping[str, CellStatus],
    environment: Environment,
) -> pd.Series[Any]:
    measured = {name: _measured(samples, name) for name in needed_metrics(formula)}

    def lookup(quantity: Formula) -> pd.Series[Any]:
        values = measured.get(quantity.name)
        if values is None or quantity.origin is not Origin.SAMPLE:
            return _quantity(samples, quantity, statuses, environment)
        return values.where(values.notna(), values.groupby(samples["cell"]).transform("mean"))

    values = evaluate(formula, lookup)
    values = values.where(np.isfinite(values))  # a power may be too large, or no real number
    parts = pd.DataFrame({name: column.notna() for name, column in measured.items()})
    if parts.empty:
        return values
    counts = parts.sum(axis=1)
    return values.where(counts == counts.groupby(samples["cell"]).transform("max"))


def add_build_facts(
    samples: pd.DataFrame, builds: Mapping[str, BuildResult], names: Iterable[str]
) -> pd.DataFrame:
    """Samples with metrics of source `ptxas`, combined over the kernels of each build.

    `builds` by cell id. Returns a new frame.
    """
    facts = {
        name: _values_by_cell(
            samples, {cell: build_fact(build, name) for cell, build in builds.items()}
        )
        for name in names
    }
    return _with_columns(samples, facts)


def build_fact(build: BuildResult, name: str) -> float | None:
    """Value of a metric of the build, over its kernels; None where no kernel has it."""
    metric = CATALOGUE[name]
    facts = [getattr(kernel, metric.fact or name) for kernel in build.kernels]
    values = [float(fact) for fact in facts if fact is not None]
    return _OVER_KERNELS[metric.combine](values) if values else None


def add_status_facts(
    samples: pd.DataFrame, statuses: Mapping[str, CellStatus], names: Iterable[str]
) -> pd.DataFrame:
    """Samples with metrics of source `runner`, from the status of each cell. A new frame."""
    fields = {name: CATALOGUE[name].fact or name for name in names}
    facts = {name: _status_values(samples, statuses, field) for name, field in fields.items()}
    return _with_columns(samples, facts)


def evaluate(formula: Formula, lookup: _Lookup) -> pd.Series[Any]:
    """Value of a formula in each row; NaN where a part is missing or a denominator is 0."""
    value: pd.Series[Any] = _formula_value(formula, lookup)
    return value


def _formula_value(formula: Formula | float, lookup: _Lookup) -> Any:
    if not isinstance(formula, Formula):
        return formula
    if not formula.sign:
        return lookup(formula)
    return reduce(
        _OPERATORS[formula.sign], [_formula_value(part, lookup) for part in formula.parts]
    )


def _divide(numerator: Any, denominator: Any) -> Any:
    """Quotient; NaN, not infinity, where the denominator is 0."""
    if isinstance(denominator, pd.Series):
        return numerator / denominator.where(denominator != 0)
    return numerator / denominator if denominator else numerator * math.nan


def _power(base: Any, exponent: Any) -> Any:
    """Power of floats: too large is infinite, and a root of a negative number is missing."""
    with np.errstate(all="ignore"):
        return np.power(base, exponent)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "**": _power,
    "max": np.maximum,
    "min": np.minimum,
}
"""The result is missing where one part is."""


def _quantity(
    samples: pd.DataFrame,
    quantity: Formula,
    statuses: Mapping[str, CellStatus],
    environment: Environment,
) -> pd.Series[Any]:
    match quantity.origin:
        case Origin.SAMPLE:
            return _measured(samples, quantity.name)
        case Origin.VISIT:
            return _measured_in_visit(samples, quantity.name)
        case Origin.CELL:
            return _status_values(samples, statuses, quantity.name)
        case Origin.GPU:
            value = getattr(environment, quantity.name)
            return pd.Series(np.nan if value is None else float(value), index=samples.index)


def _measured(samples: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in samples.columns:
        return pd.Series(np.nan, index=samples.index, dtype="float64")
    return samples[name].astype("float64")


def _measured_in_visit(samples: pd.DataFrame, name: str) -> pd.Series[Any]:
    """A metric of the sample, or else its mean in the same visit of another session."""
    values = _measured(samples, name)
    visit = [samples[key] for key in _VISIT_KEY]
    return values.where(values.notna(), values.groupby(visit).transform("mean"))


def _status_values(
    samples: pd.DataFrame, statuses: Mapping[str, CellStatus], field: str
) -> pd.Series[Any]:
    return _values_by_cell(
        samples, {cell: getattr(status.facts, field) for cell, status in statuses.items()}
    )


def _values_by_cell(samples: pd.DataFrame, values: Mapping[str, float | None]) -> pd.Series[Any]:
    return samples["cell"].map(values).astype("float64")


def _with_columns(samples: pd.DataFrame, columns: Mapping[str, pd.Series[Any]]) -> pd.DataFrame:
    """A copy of the samples with the columns that have a value in any row."""
    present = {name: values for name, values in columns.items() if values.notna().any()}
    return samples.assign(**present)


# ---- several kernels of one range ----------------------------------------------------------------

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Launches sorted into ranges: `codes[i]` is the range of row i of `launches`, from 0."""

    launches: pd.DataFrame
    codes: Codes
    count: int

    def column(self, names: Iterable[str]) -> Floats:
        """Values of the first of these columns that the launches have; NaN without any."""
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
    """Values of each range, by name of metric, for the metrics that ncu measures."""
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
