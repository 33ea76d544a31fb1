"""What a reader must know before believing the numbers, as typed notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from profiler.model import BuildResult, Cell, CellStatus, Environment, Outcome, SessionKind
from profiler.notices import Notice, NoticeKind

FEWEST_BLOCKS = 6
"""Fewer blocks cannot support a verdict: the smallest two-sided p of 5 pairs is 0.0625."""

Values = dict[str, str | int | float]

_USABLE = (Outcome.MEASURED, Outcome.DUPLICATE)

_SHOWN = 4
"""Names in a sentence before it says how many more there are."""


def caveats(  # noqa: PLR0913 - all that a caveat can come from, by keyword
    *,
    cells: Sequence[Cell],
    statuses: Mapping[str, CellStatus],
    builds: Sequence[BuildResult],
    samples: pd.DataFrame,
    environment: Environment,
    baseline: str | None,
) -> tuple[Notice, ...]:
    """Every caveat of a run, the ones that cost most first. `baseline` is a variant id."""
    found = [
        *_failed(statuses),
        *_wrong(statuses),
        *_not_measured(statuses),
        *_missing_metrics(statuses),
        *_few_blocks(samples, statuses),
        *_no_baseline(cells, statuses, baseline),
        *_clocks(environment),
        *_twins(cells, builds),
    ]
    return tuple(found)


def _failed(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    outcomes = Counter(
        s.outcome.value.replace("_", " ") for s in statuses.values() if s.outcome.failed
    )
    if outcomes:
        causes = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        values: Values = {"count": outcomes.total(), "total": len(statuses), "causes": causes}
        yield Notice(NoticeKind.FAILED_CELLS, values)


def _wrong(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    wrong = [cell for cell, s in statuses.items() if s.outcome is Outcome.WRONG_RESULT]
    if wrong:
        yield Notice(NoticeKind.WRONG_RESULTS, {"count": len(wrong), "cells": _some(wrong)})


def _not_measured(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    count = sum(s.outcome is Outcome.NOT_MEASURED for s in statuses.values())
    if count:
        yield Notice(NoticeKind.NOT_MEASURED, {"count": count, "total": len(statuses)})


def _missing_metrics(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    """What measured cells lack; one that failed half-way has a notice already."""
    lacking = [s for s in statuses.values() if s.missing_metrics and s.outcome in _USABLE]
    names = dict.fromkeys(name for s in lacking for name in s.missing_metrics)
    if names:
        values: Values = {"metrics": ", ".join(names), "count": len(lacking)}
        yield Notice(NoticeKind.MISSING_METRICS, values)


def _few_blocks(samples: pd.DataFrame, statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    """Fewest blocks of any cell that is ranked; one that failed half-way has a notice already."""
    ranked = [cell for cell, s in statuses.items() if s.outcome in _USABLE]
    timing = samples[(samples["kind"] == SessionKind.TIMING.value) & samples["cell"].isin(ranked)]
    if len(timing):
        blocks = int(timing.groupby("cell")["block"].nunique().min())
        if blocks < FEWEST_BLOCKS:
            yield Notice(NoticeKind.FEW_BLOCKS, {"blocks": blocks, "needed": FEWEST_BLOCKS})


def _no_baseline(
    cells: Sequence[Cell], statuses: Mapping[str, CellStatus], baseline: str | None
) -> Iterable[Notice]:
    if baseline is None:
        return
    names = {cell.problem.id: cell.problem.name for cell in cells}
    good = {
        cell.problem.id
        for cell in cells
        if cell.variant.id == baseline and statuses[cell.id].outcome in _USABLE
    }
    lacking = [name for problem, name in names.items() if problem not in good]
    if lacking:
        values = {"baseline": baseline, "problems": _some(lacking)}
        yield Notice(NoticeKind.NO_BASELINE, values)


def _clocks(environment: Environment) -> Iterable[Notice]:
    if environment.clock_control == "none":
        yield Notice(NoticeKind.UNLOCKED_CLOCKS, {"clock_control": "none"})


def _twins(cells: Sequence[Cell], builds: Sequence[BuildResult]) -> Iterable[Notice]:
    names = {cell.variant.id: cell.variant.name for cell in cells}
    pairs = [
        f"{names.get(build.variant, build.variant)} = "
        f"{names.get(build.duplicate_of, build.duplicate_of)}"
        for build in builds
        if build.duplicate_of is not None
    ]
    if pairs:
        yield Notice(NoticeKind.DUPLICATE_CODE, {"count": len(pairs), "pairs": ", ".join(pairs)})


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
