"""The section of a search: course, what was tried, importance of parameters."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.search import SearchFindings, Trial
from profiler.planning.matrix import value_text
from profiler.render.figures import search_figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.outcomes import OUTCOME_WORDS
from profiler.render.words.searches import (
    importance_reading,
    objective_words,
    search_sentences,
    variant_name,
)
from profiler.search.space import Parameter, value_key

_QUICK_SHARE = 0.1
_MOST_AXES = 12
"""Axes of the figure that there is room for; the most important parameters first."""


@dataclass(frozen=True)
class TrialRow:
    """One evaluation."""

    number: int
    values: tuple[str, ...]
    """Of the parameters that differ."""
    data: tuple[Datum, ...]
    """Ratio and its interval."""
    outcome: str
    cause: str
    finalist: bool
    worker: str
    """Name of its GPU; empty where workers did not measure."""


@dataclass(frozen=True)
class SearchSection:
    """Contents of the section."""

    sentences: tuple[str, ...]
    course: Chart | None
    """None where nothing was measured."""
    tried: Chart | None
    importance: tuple[tuple[str, float], ...]
    """Parameters with their shares."""
    importance_reading: str
    parameters: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    has_workers: bool
    """Whether several GPUs measured."""


def search_section(findings: Findings) -> SearchSection | None:
    """Contents of the section of a search; None where there was none."""
    search = findings.search
    if search is None:
        return None
    free = _free_parameters(search)
    shares = search.importance.shares if search.importance is not None else {}
    return SearchSection(
        sentences=search_sentences(findings, search),
        course=_course_chart(findings.programs, search),
        tried=_tried_chart(search, free),
        importance=tuple(shares.items()),
        importance_reading=importance_reading(search),
        parameters=tuple(parameter.name for parameter in free),
        rows=tuple(_row(search, trial, free) for trial in search.trials),
        has_workers=len(search.record.workers) > 1,
    )


def _free_parameters(search: SearchFindings) -> tuple[Parameter, ...]:
    """Parameters that differ, the most important first."""
    shares = search.importance.shares if search.importance is not None else {}
    free = [
        Parameter.of(name, values)
        for name, values in search.record.terms.parameters.items()
        if len(values) > 1
    ]
    return tuple(sorted(free, key=lambda parameter: -shares.get(parameter.name, 0.0)))


def _course_chart(programs: Programs, search: SearchFindings) -> Chart | None:
    table = course_table(search)
    if table["ratio"].notna().sum() == 0:
        return None
    baseline = variant_name(programs, search.record.terms.baseline)
    return make_chart(
        "search-course",
        "Best so far by evaluation",
        "A dot for each configuration that was measured. Line: the best so far, with its "
        f"95\u202f% interval by all looks at it. Time \u00f7 that of {baseline} in the same block, "
        f"by CUDA events, {objective_words(programs, search)}.",
        search_figures.course(table, "time \u00f7 baseline"),
    )


def course_table(search: SearchFindings) -> pd.DataFrame:
    """Rows for `search_figures.course`."""
    rows = []
    for trial in search.trials:
        low, high = (None, None) if trial.best is None else trial.best.interval
        ratio = None if trial.estimate is None else trial.estimate.ratio
        best = None if trial.best is None else trial.best.ratio
        rows.append((trial.number, ratio, best, low, high))
    columns = ["number", "ratio", "best", "low", "high"]
    return pd.DataFrame(rows, columns=columns).astype(float)


def _tried_chart(search: SearchFindings, free: tuple[Parameter, ...]) -> Chart | None:
    shown = free[:_MOST_AXES]
    table = tried_table(search, shown)
    if len(table) < 2 or not shown:
        return None
    left_out = len(free) - len(shown)
    more = f" {left_out} less important parameters have no axis." if left_out else ""
    axes = [(p.name, [value_text(value) for value in p.values]) for p in shown]
    return make_chart(
        "search-tried",
        "What was tried",
        "A line for each configuration that was measured, through its value on every axis; the "
        "most important parameter first. The last axis is its time \u00f7 that of the baseline, "
        f"the smallest on top. Blue: the quickest tenth.{more}",
        search_figures.parallel_lines(table, axes),
    )


def tried_table(search: SearchFindings, parameters: tuple[Parameter, ...]) -> pd.DataFrame:
    """Rows for `search_figures.parallel_lines`, the slowest first."""
    codes = {p.name: {value_key(v): code for code, v in enumerate(p.values)} for p in parameters}
    rows = [
        {
            **{name: codes[name][value_key(trial.params[name])] for name in codes},
            "ratio": trial.estimate.ratio,
        }
        for trial in search.trials
        if trial.estimate is not None
    ]
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows).sort_values("ratio", ascending=False, kind="stable")
    first_quick = len(table) - max(1, round(_QUICK_SHARE * len(table)))
    return table.assign(quick=[place >= first_quick for place in range(len(table))])


def _row(search: SearchFindings, trial: Trial, free: tuple[Parameter, ...]) -> TrialRow:
    estimate = trial.estimate
    low, high = (None, None) if estimate is None else estimate.interval
    outcome = OUTCOME_WORDS[trial.outcome]
    return TrialRow(
        number=trial.number,
        values=tuple(value_text(trial.params[parameter.name]) for parameter in free),
        data=(
            Datum.times(None if estimate is None else estimate.ratio, outcome),
            Datum(numbers.interval(low, high) or numbers.MISSING),
        ),
        outcome=f"{outcome}, stopped early" if trial.stopped_early else outcome,
        cause=trial.cause,
        finalist=trial.variant in search.finalists,
        worker=trial.worker,
    )
