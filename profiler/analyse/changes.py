"""Comparisons without a test: static facts, percentages, and many problems in one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy


@dataclass(frozen=True)
class ExactChange:
    """A static fact on both sides: registers, shared memory, instructions. None is not known."""

    before: float | None
    after: float | None
    difference: float | None
    ratio: float | None
    """None also where it was 0 before."""

    @property
    def changed(self) -> bool | None:
        """Whether the two differ at all; None where one is not known."""
        return None if self.difference is None else self.difference != 0


def exact_change(before: float | None, after: float | None) -> ExactChange:
    """Compare what does not scatter: any difference is real. NaN counts as not known."""
    before, after = _known(before), _known(after)
    if before is None or after is None:
        return ExactChange(before, after, None, None)
    return ExactChange(before, after, after - before, after / before if before else None)


@dataclass(frozen=True)
class PointChange:
    """A percentage on both sides, such as a hit rate. None is not known."""

    points: float | None
    """After minus before, in percentage points."""
    floor: float | None
    """How far the same kernel strays from itself, in percentage points."""

    @property
    def beyond_floor(self) -> bool | None:
        """Whether the change is larger than the noise; None where either is not known."""
        if self.points is None or self.floor is None:
            return None
        return abs(self.points) > self.floor


def point_change(
    before: float | None, after: float | None, floor: float | None = None
) -> PointChange:
    """Compare two percentages in points; `floor` is from `noise_floors` over A/A' differences."""
    return PointChange(exact_change(before, after).difference, _known(floor))


def across_problems(rows: pd.DataFrame) -> pd.DataFrame:
    """Each variant against its baseline over all problems that both have.

    `rows` has one row per variant and problem: `variant problem ratio duration_ns baseline_ns`, NaN
    where not measured. One row per variant comes back, in order of appearance: `variant problems
    geomean_ratio worst_ratio worst_problem total_ratio`. `geomean_ratio` weighs every problem
    alike; `total_ratio` is the ratio of the summed durations, which the largest problems decide.
    Ratios are never averaged. Variants without a common problem are left out.
    """
    numbers = rows[["ratio", "duration_ns", "baseline_ns"]].to_numpy(dtype=np.float64)
    both = rows[((numbers > 0) & np.isfinite(numbers)).all(axis=1)]
    found = [_across(str(variant), group) for variant, group in both.groupby("variant", sort=False)]
    names = ["variant", "problems", "geomean_ratio", "worst_ratio", "worst_problem", "total_ratio"]
    return pd.DataFrame(found, columns=names)


def _across(variant: str, group: pd.DataFrame) -> tuple[str, int, float, float, str, float]:
    ratios = group["ratio"].to_numpy(dtype=np.float64)
    worst = int(ratios.argmax())
    return (
        variant,
        len(group),
        float(scipy.stats.gmean(ratios)),
        float(ratios[worst]),
        str(group["problem"].iloc[worst]),
        float(group["duration_ns"].sum() / group["baseline_ns"].sum()),
    )


def _known(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else value
