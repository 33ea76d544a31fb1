"""The page of `profiler compare`: what became slower or faster between runs, and what else did."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from profiler.comparison.runs import ComparedRun
from profiler.findings.runs.changes import MOVED_FROM, CellChange
from profiler.findings.runs.comparison import RunComparison
from profiler.findings.runs.document import comparison_document
from profiler.findings.runs.steps import RunStep
from profiler.model import Verdict
from profiler.render.figures import palette
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.html import notice_rows, render
from profiler.render.runs.answer import cards, sentences
from profiler.render.runs.heats import grid_parts, grid_sentences, machine_label, variant_heat
from profiler.render.runs.history import durations_table, history_figure, history_table, runs_table
from profiler.render.runs.rows import (
    PROGRAM_WORDS,
    Names,
    change_table,
    metric_table,
    ratio_words,
)
from profiler.render.words import numbers

MOST_DOTS = 18
MOST_COUNTERS = 300


def render_comparison(comparison: RunComparison) -> str:
    """Render a comparison as HTML: the step to the newest run in full, all runs as a history."""
    names = Names.of(comparison)
    step = comparison.last
    first, *more = sentences(comparison, names)
    both = (comparison.runs[step.older], comparison.runs[step.newer])
    older, newer = step.numbers
    counters = step.moved_counters
    parts = {
        "title": _title(comparison),
        "older": older,
        "newer": newer,
        "names": [run.name for run in both],
        "moments": [run.report.execution.created for run in both],
        "gpus": list(dict.fromkeys(map(_gpu, both))),
        "runs": comparison.runs,
        "banner": step.refused_words,
        "machines": machine_label(comparison),
        "headline": first,
        "sentences": (*more, *grid_sentences(comparison)),
        "cards": cards(comparison, names),
        "notice_rows": notice_rows(comparison.notices),
        "runs_table": runs_table(comparison),
        "ratio": ratio_words(step),
        "edited_files": step.edited_files,
        "code_apart": len(step.by_code) > 1,
        "control": names.variant_name(step.control),
        "only_older": [_called(cell, names) for cell in step.only_older],
        "only_newer": [_called(cell, names) for cell in step.only_newer],
        "delta": f"{100 * comparison.delta:.0f}\u202f%",
        "fewest_blocks": comparison.fewest_blocks,
        "programs": [(PROGRAM_WORDS[program], count) for program, count in step.programs.items()],
        "json": _link("application/json", json.dumps(comparison_document(comparison))),
        "table": change_table(comparison, names),
        "grids": grid_parts(comparison, names),
        # Variants by hundreds of problems could not be read: grids have heat maps of their own.
        "heat": None if comparison.grids is not None else variant_heat(step, names),
        "first": _changed(step, names),
        "history": _history_chart(comparison, names),
        "durations": durations_table(comparison, names) if len(comparison.steps) > 1 else None,
        "facts": metric_table("Static facts before and after", step.changed_facts, step, names),
        "counters": metric_table(
            "Counters before and after", counters[:MOST_COUNTERS], step, names
        ),
        "left_out_counters": max(0, len(counters) - MOST_COUNTERS),
        "moved_from": f"{100 * MOVED_FROM:.0f}\u202f%",
    }
    return render("between_runs.html", parts)


def _gpu(run: ComparedRun) -> str:
    environment = run.report.environment
    return environment.gpu or environment.cpu or numbers.MISSING


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
    ticks = [str(number + 1) for number in range(len(comparison.runs))]
    reading = (
        "A panel for each of the cells that moved most: median duration in each run, oldest first "
        "(numbers as in the table of runs), with its 95\u202f% interval. Steps are judged by the "
        "ratio to the baseline, not by the duration that is drawn."
    )
    return make_chart("history", "Duration over the runs", reading, history_figure(table, ticks))


def _link(kind: str, text: str) -> str:
    """A download that needs no network and no script."""
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"
