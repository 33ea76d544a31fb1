"""What moved a cell: its kernel, the baseline's, or machine, driver and versions.

A cell is followed by its ratio to the baseline of the same run where all runs have one baseline:
what moves the machine moves both. The baseline itself is followed by its time, and so tells the
machine from the kernels: where baseline and variants moved together the machine did, its driver or
versions; where ratios moved and the baseline did not, the kernels did; where all ratios moved
against the baseline, the baseline's kernel did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from profiler.history.levels import Cause, Change, Trend

_NEAR = 1
"""Runs that changes of one event may be apart in two series: noise moves them by one."""
MOST_TOGETHER = 0.5
"""Share of the cells that have moved together from which on they have one reason."""
FEWEST_TOGETHER = 3


def with_causes(trends: Sequence[Trend]) -> tuple[Trend, ...]:
    """Trends whose changes have what moved them."""
    by_problem: dict[str, list[Trend]] = {}
    for trend in trends:
        by_problem.setdefault(trend.problem, []).append(trend)

    def caused(trend: Trend) -> Trend:
        beside = by_problem[trend.problem]
        changes = (replace(change, cause=_cause(trend, change, beside)) for change in trend.changes)
        return replace(trend, changes=tuple(changes))

    return tuple(map(caused, trends))


def _cause(trend: Trend, change: Change, beside: Sequence[Trend]) -> Cause:
    """What moved a cell, by what else moved at its problem at the same time."""
    others = [other for other in beside if other.is_relative == trend.is_relative]
    if trend.is_baseline:
        against = [other for other in beside if other.is_relative]
        share = _share(against, change, lambda ratio: ratio * change.ratio)
        return Cause.BASELINE if share > MOST_TOGETHER else Cause.MACHINE
    if trend.is_relative:
        baseline = [other for other in beside if other.is_baseline]
        moved = _share(baseline, change, lambda ratio: ratio * change.ratio)
        together = len(others) >= FEWEST_TOGETHER or moved
        same = _share(others, change, lambda ratio: ratio / change.ratio)
        return Cause.BASELINE if moved and together and same > MOST_TOGETHER else Cause.KERNEL
    same = _share(others, change, lambda ratio: ratio / change.ratio)
    together = len(others) >= FEWEST_TOGETHER and same > MOST_TOGETHER
    return Cause.MACHINE if together else Cause.KERNEL


def _share(trends: Sequence[Trend], change: Change, left: Callable[[float], float]) -> float:
    """Share of trends that changed at the same time so that little is `left` of their ratio."""
    if not trends:
        return 0.0
    little = abs(math.log(change.ratio)) / 2
    moved = [
        any(
            abs(other.first - change.first) <= _NEAR and abs(math.log(left(other.ratio))) <= little
            for other in trend.changes
        )
        for trend in trends
    ]
    return sum(moved) / len(moved)
