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
from profiler.render import figures, numbers
from profiler.render.between_answer import cards, sentences
from profiler.render.between_rows import (
    MOVED_FROM,
    Line,
    Names,
    fact_changes,
    lines,
    moved_counters,
)
from profiler.render.between_words import (
    PROGRAM_WORDS,
    field_word,
    verdict_word,
)
from profiler.render.charts import Chart, make_chart
from profiler.render.history import history_figure, history_rows, history_table, run_heads
from profiler.render.page import notice_rows, render
from profiler.render.tables import Datum, Heat, Row, heat_class, heat_heads
from profiler.render.views import ratio_legend

MOST_DOTS = 30
MOST_COUNTERS = 300
_FEWEST_IN_HEAT = 2


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
    parts = {
        "title": _title(comparison),
        "older": heads[step.older],
        "newer": heads[step.newer],
        "runs": heads,
        "banner": _banner(step),
        "sentences": sentences(comparison, rows),
        "cards": cards(comparison, rows),
        "notice_rows": notice_rows(comparison.notices),
        "heat": _heat(step, rows, names),
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


def _heat(step: Step, rows: Sequence[Line], names: Names) -> Heat | None:
    """Ratio of every variant at every problem; without a verdict hatched."""
    problems = list({names.cells[line.cell].problem.id: None for line in rows})
    order = [one for one in _in_plan_order(names, step) if one in problems]
    by_place = {
        (names.cells[line.cell].variant.id, names.cells[line.cell].problem.id): line
        for line in rows
    }
    variants = list(dict.fromkeys(names.cells[line.cell].variant.id for line in rows))
    if len(order) < _FEWEST_IN_HEAT or len(variants) < _FEWEST_IN_HEAT:
        return None
    known = {cell.problem.id: cell.problem for cell in names.cells.values()}
    called = {cell.variant.id: cell.variant.name for cell in names.cells.values()}
    return Heat(
        against="",
        caption="Ratio of the newer run to the older, variants by problems",
        leads=(),
        heads=heat_heads([known[one] for one in order]),
        problems=tuple(known[one].name for one in order),
        rows=tuple(
            Row(
                called[variant],
                names.marks[variant],
                "baseline" if variant == step.control else "other",
                tuple(
                    _heat_datum(by_place.get((variant, problem)), judged=step.withheld is None)
                    for problem in order
                ),
            )
            for variant in variants
        ),
    )


def _in_plan_order(names: Names, step: Step) -> list[str]:
    return list(dict.fromkeys(names.cells[cell].problem.id for cell in step.cells.index))


def _heat_datum(line: Line | None, *, judged: bool) -> Datum:
    """A ratio with its verdict; where nothing is judged, the number in its colour and no symbol."""
    if line is None or numbers.is_missing(line.ratio):
        return Datum(title="not in both runs", css="none")
    text = f"{line.ratio:.2f}" if line.ratio < 10 else numbers.significant(line.ratio, 3)
    title = (
        f"{line.variant}, {line.problem}: {line.older.text} \u2192 {line.newer.text}, "
        f"{numbers.ratio(line.ratio)} {line.interval}, {line.verdict_datum.text}: {line.reason}"
    )
    if not judged:
        return Datum(text, numbers.raw(line.ratio), title, heat_class(line.ratio))
    if line.verdict in (Verdict.FASTER, Verdict.SLOWER):
        symbol = "\u25bc" if line.verdict is Verdict.FASTER else "\u25b2"
        return Datum(f"{symbol}{text}", numbers.raw(line.ratio), title, heat_class(line.ratio))
    css = "h0" if line.verdict is Verdict.SAME else "failed"
    return Datum(f"={text}" if css == "h0" else text, numbers.raw(line.ratio), title, css)


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
