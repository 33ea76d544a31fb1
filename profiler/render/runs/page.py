"""The page of `profiler compare`: what became slower or faster between runs, and what else did."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profiler.findings.runs.changes import MOVED_FROM, CellChange
from profiler.findings.runs.comparison import RunComparison
from profiler.findings.runs.document import comparison_document
from profiler.findings.runs.steps import RunStep
from profiler.model import Verdict
from profiler.render.figures import palette
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.html import notice_rows, render
from profiler.render.runs.answer import cards, headline, sentences
from profiler.render.runs.heats import grid_parts, grid_sentences, machine_label, variant_heat
from profiler.render.runs.history import history_figure, history_rows, history_table, run_heads
from profiler.render.runs.rows import (
    NO_VERDICT,
    PROGRAM_WORDS,
    Names,
    change_rows,
    field_word,
    metric_rows,
    ratio_head,
    ratio_words,
)

MOST_DOTS = 18
MOST_COUNTERS = 300


def render_comparison(comparison: RunComparison) -> str:
    """Render a comparison as HTML: the step to the newest run in full, all runs as a history."""
    names = Names.of(comparison)
    step = comparison.last
    heads = run_heads(comparison)
    parts = {
        "title": _title(comparison),
        "older": heads[step.older],
        "newer": heads[step.newer],
        "runs": heads,
        "banner": step.refused_words,
        "machines": machine_label(comparison),
        "headline": headline(comparison, names),
        "sentences": (*sentences(comparison, names), *grid_sentences(comparison)),
        "cards": cards(comparison, names),
        "notice_rows": notice_rows(comparison.notices),
        "ratio": ratio_words(step),
        "ratio_head": ratio_head(step),
        "edited_files": step.edited_files,
        "code_apart": len(step.by_code) > 1,
        "control": names.variant_name(step.control),
        "only_older": [_called(cell, names) for cell in step.only_older],
        "only_newer": [_called(cell, names) for cell in step.only_newer],
        "differences": _differences(comparison),
        "delta": f"{100 * comparison.delta:.0f}\u202f%",
        "fewest_blocks": comparison.fewest_blocks,
        "programs": [(PROGRAM_WORDS[program], count) for program, count in step.programs.items()],
        "csv": _link("text/csv", _csv(step, names)),
        "json": _link("application/json", json.dumps(comparison_document(comparison))),
        **_figures(comparison, names),
        **_metrics(step, names),
    }
    return render("between_runs.html", parts)


def _figures(comparison: RunComparison, names: Names) -> dict[str, Any]:
    """Heat maps, figures, and the tables beside them."""
    step = comparison.last
    rows = change_rows(step, names)
    return {
        "rows": rows,
        "grids": grid_parts(comparison, names),
        # Variants by hundreds of problems could not be read: grids have heat maps of their own.
        "heat": None if comparison.grids is not None else variant_heat(step, rows, names),
        "first": _changed(step, names),
        "history": _history_chart(comparison, names),
        "history_rows": history_rows(comparison, names) if len(comparison.steps) > 1 else (),
    }


def _metrics(step: RunStep, names: Names) -> dict[str, Any]:
    """Static facts that differ, and counters that moved."""
    counters = step.moved_counters
    return {
        "facts": metric_rows(step.changed_facts, names),
        "counters": metric_rows(counters[:MOST_COUNTERS], names),
        "left_out_counters": max(0, len(counters) - MOST_COUNTERS),
        "moved_from": f"{100 * MOVED_FROM:.0f}\u202f%",
    }


def _title(comparison: RunComparison) -> str:
    names = " and ".join(dict.fromkeys(run.report.experiment.name for run in comparison.runs))
    return f"{names}: {comparison.runs[0].name} \u2192 {comparison.runs[-1].name}"


def _called(cell: str, names: Names) -> str:
    return f"{names.variant(cell)}, {names.problem(cell)}"


# ---- figures -------------------------------------------------------------------------------------


_ROLES: Mapping[Verdict | None, str] = {Verdict.FASTER: "best", Verdict.SLOWER: "baseline"}
"""Roles of figures: blue and orange."""


def _changed(step: RunStep, names: Names) -> Chart | None:
    """Cells that changed most with their intervals: those with a verdict first."""
    measured = [
        change
        for change in step.cells.values()
        if not math.isnan(change.ratio) and not change.is_control
    ]
    if not measured:
        return None
    by_change = sorted(measured, key=lambda change: (not change.decided, -_moved(change)))
    shown = sorted(by_change[:MOST_DOTS], key=lambda change: -change.ratio)
    table = pd.DataFrame(
        {
            "name": [_called(change.cell.id, names) for change in shown],
            "ratio": [change.ratio for change in shown],
            "low": [change.ratio_low for change in shown],
            "high": [change.ratio_high for change in shown],
            "role": [_ROLES.get(change.verdict, "other") for change in shown],
            "mark": [names.mark(change.cell.id) for change in shown],
        }
    )
    quantity = "Duration" if step.control is None else "Duration relative to the baseline"
    reading = "Bars: 95\u202f% intervals."
    if step.refused is None:
        reading = f"Orange: slower, blue: faster, grey: neither. {reading}"
    if len(measured) > MOST_DOTS:
        reading += f" {len(measured) - MOST_DOTS} more in the table."
    figure = figures.dots(table, f"{quantity}, {ratio_words(step)}", palette.MUTED)
    return make_chart("first", "Cells that changed most", reading, figure)


def _moved(change: CellChange) -> float:
    return float(abs(np.log(change.ratio)))


def _history_chart(comparison: RunComparison, names: Names) -> Chart | None:
    if len(comparison.runs) <= 2:
        return None
    table = history_table(comparison, names)
    if table.empty:
        return None
    ticks = [f"{head.number}" for head in run_heads(comparison)]
    reading = (
        "A panel for each of the cells that moved most: median duration in each run, oldest first "
        "(numbers as in the table of runs), with its 95\u202f% interval. Steps are judged by the "
        "ratio to the baseline, not by the duration that is drawn."
    )
    return make_chart("history", "Duration over the runs", reading, history_figure(table, ticks))


# ---- tables and downloads ------------------------------------------------------------------------


def _differences(comparison: RunComparison) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is not the same in all runs, and its value in each."""
    return tuple(
        (field_word(difference.field), tuple(map(_text, difference.values)))
        for difference in comparison.differences
    )


def _text(value: object) -> str:
    if value is None:
        return "not recorded"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


_CSV_COLUMNS = (
    "older_ns",
    "newer_ns",
    "ratio",
    "ratio_low",
    "ratio_high",
    "raw_ratio",
    "margin",
    "noise_floor",
    "detectable",
    "blocks_older",
    "blocks_newer",
    "reason",
    "program",
)


def _numbers(change: CellChange) -> Mapping[str, Any]:
    return vars(change) | vars(change.durations) | vars(change.judgement)


def _csv(step: RunStep, names: Names) -> str:
    """The main table with raw numbers, in its order."""
    rows = [
        (
            change.cell.id,
            names.variant(change.cell.id),
            names.problem(change.cell.id),
            change.verdict or NO_VERDICT,
            *map(_numbers(change).__getitem__, _CSV_COLUMNS),
        )
        for change in step.all.ranked
    ]
    table = pd.DataFrame(rows, columns=["cell", "variant", "problem", "verdict", *_CSV_COLUMNS])
    return table.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def _link(kind: str, text: str) -> str:
    """A download that needs no network and no script."""
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"
