"""The page of `profiler compare`: what became slower or faster between runs, and what else did."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import REFUSED_WORDS
from profiler.analyse.verdicts import DELTA, FEWEST_BLOCKS
from profiler.comparison.document import comparison_document
from profiler.comparison.joined import Comparison
from profiler.comparison.steps import Step
from profiler.model import Verdict
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.kinds.versions import ratio_legend
from profiler.render.page import notice_rows, render
from profiler.render.runs.answer import cards, sentences
from profiler.render.runs.grids import GridRuns, grid_parts, grid_sentences, machine_label
from profiler.render.runs.heats import variant_heat
from profiler.render.runs.history import history_figure, history_rows, history_table, run_heads
from profiler.render.runs.rows import (
    MOVED_FROM,
    Line,
    Names,
    fact_changes,
    lines,
    moved_counters,
)
from profiler.render.runs.words import (
    PROGRAM_WORDS,
    field_word,
    verdict_word,
)
from profiler.render.words import numbers

MOST_DOTS = 30
MOST_COUNTERS = 300


@dataclass(frozen=True)
class DifferenceRow:
    """One thing that is not the same in all runs."""

    name: str
    values: tuple[str, ...]


def render_comparison(comparison: Comparison) -> str:
    """Render a comparison as HTML: the step to the newest run in full, all runs as a history."""
    names = Names.of(comparison)
    step = comparison.last
    rows = lines(step, names)
    heads = run_heads(comparison)
    counters = moved_counters(step, names)
    grids = GridRuns(comparison, names)
    parts = {
        "title": _title(comparison),
        "older": heads[step.older],
        "newer": heads[step.newer],
        "runs": heads,
        "banner": _banner(step),
        "machines": machine_label(comparison),
        "sentences": (*sentences(comparison, rows), *grid_sentences(grids)),
        "cards": cards(comparison, rows),
        "notice_rows": notice_rows(comparison.notices),
        "grids": grid_parts(grids),
        # Variants by hundreds of problems could not be read: grids have heat maps of their own.
        "heat": None if grids.exist else variant_heat(step, rows, names),
        "heat_legend": ratio_legend(),
        "dots": _dots(step, rows),
        "rows": rows,
        "control": _control_name(step, names),
        "facts": fact_changes(step, names),
        "counters": counters[:MOST_COUNTERS],
        "left_out_counters": max(0, len(counters) - MOST_COUNTERS),
        "moved_from": f"{MOVED_FROM:.0%}",
        "only_older": [_called(cell, names) for cell in step.only_older],
        "only_newer": [_called(cell, names) for cell in step.only_newer],
        "differences": _differences(comparison),
        "history": _history_chart(comparison, names),
        "history_rows": history_rows(comparison, names) if len(comparison.steps) > 1 else (),
        "delta": f"{DELTA:.0%}",
        "fewest_blocks": FEWEST_BLOCKS,
        "programs": _program_counts(step),
        "csv": _link("text/csv", _csv(comparison, rows)),
        "json": _link("application/json", json.dumps(comparison_document(comparison))),
    }
    return render("between_runs.html", parts)


def _title(comparison: Comparison) -> str:
    names = " and ".join(dict.fromkeys(side.report.experiment for side in comparison.sides))
    return f"{names}: {comparison.sides[0].name} \u2192 {comparison.sides[-1].name}"


def _banner(step: Step) -> str:
    """What stands at the very top where durations are no verdict's business."""
    return "" if step.withheld is None else REFUSED_WORDS[step.withheld]


def _called(cell: str, names: Names) -> str:
    return f"{names.variant(cell)}, {names.problem(cell)}"


def _control_name(step: Step, names: Names) -> str:
    own = (cell.variant.name for cell in names.cells.values() if cell.variant.id == step.control)
    return next(own, "")


# ---- figures -------------------------------------------------------------------------------------


_ROLES: Mapping[Verdict | None, str] = {Verdict.FASTER: "best", Verdict.SLOWER: "baseline"}
"""Roles of figures: blue and orange."""


def _dots(step: Step, rows: Sequence[Line]) -> Chart | None:
    """Cells that changed most with their intervals: those with a verdict first."""
    known = [line for line in rows if not numbers.is_missing(line.ratio) and not line.is_control]
    if not known:
        return None
    ranked = sorted(known, key=lambda line: (line.verdict not in _ROLES, -abs(np.log(line.ratio))))
    chosen = sorted(ranked[:MOST_DOTS], key=lambda line: -line.ratio)
    table = pd.DataFrame(
        {
            "name": [f"{line.variant}, {line.problem}" for line in chosen],
            "ratio": [line.ratio for line in chosen],
            "low": [line.low for line in chosen],
            "high": [line.high for line in chosen],
            "role": [_ROLES.get(line.verdict, "other") for line in chosen],
            "mark": [line.mark for line in chosen],
        }
    )
    what = "Duration" if step.control is None else "Duration relative to the baseline"
    reading = "Bar: 95\u202f% interval; right of 1 it took longer in the newer run."
    if step.withheld is None:
        reading = f"Orange: slower. Blue: faster. Grey: no such verdict. {reading}"
    if len(known) > MOST_DOTS:
        reading += f" {len(known) - MOST_DOTS} more cells stand in the table."
    title = "Cells that changed most"
    return make_chart("changed", title, reading, figures.dots(table, f"{what}, newer \u00f7 older"))


def _history_chart(comparison: Comparison, names: Names) -> Chart | None:
    if len(comparison.sides) <= 2:
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


def _differences(comparison: Comparison) -> tuple[DifferenceRow, ...]:
    return tuple(
        DifferenceRow(field_word(one.field), tuple(_text(value) for value in one.values))
        for one in comparison.differences
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


def _csv(comparison: Comparison, rows: Sequence[Line]) -> str:
    """The main table with raw numbers, in its order."""
    known = {
        str(row["cell"]): row for row in comparison.last.cells.reset_index().to_dict("records")
    }
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["cell", "variant", "problem", "verdict", *_CSV_COLUMNS])
    for line in rows:
        row = known[line.cell]
        values = [_csv_value(row[name]) for name in _CSV_COLUMNS]
        writer.writerow([line.cell, line.variant, line.problem, verdict_word(row), *values])
    return stream.getvalue()


def _csv_value(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return "" if pd.isna(value) else f"{value:.10g}"


def _link(kind: str, text: str) -> str:
    """A download that needs no network and no script."""
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _program_counts(step: Step) -> tuple[tuple[str, int], ...]:
    counts = Counter(step.cells.drop_duplicates("variant")["program"].map(PROGRAM_WORDS.get))
    return tuple(counts.items())
