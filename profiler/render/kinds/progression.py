"""The page of a ladder of versions: times of the reference, each step, what went with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import (
    CounterChange,
    Medians,
    counter_medians,
    move_size,
    moved_counters,
)
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Effect, Rung, StepEffect
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.metrics.queries import Label, labels
from profiler.model import Problem
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    Ticks,
    decade_ticks,
    legend,
    linear_ticks,
    panel_axes,
    places,
    places_of_ticks,
    points_of,
    sheet,
    times_ticks,
)
from profiler.render.figures.charts import Chart, make_chart, mark_of
from profiler.render.figures.drawing import (
    POINTS,
    ROOM,
    WIDTH_IN,
    Drawing,
    Mark,
    ends_of,
    fitted,
    scaled_label,
    spans_decades,
    text_width_in,
    widest_in,
)
from profiler.render.kinds.versions import View, metric_parts, problem_parts
from profiler.render.tables.main_table import BAR_STEPS
from profiler.render.tables.rows import (
    Column,
    Datum,
    Row,
    SmallTable,
    counts_datum,
    move_datum,
    verdict_datum,
    with_unit,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten
from profiler.render.words.signs import OUTCOME_WORDS, why_missing
from profiler.render.words.verdicts import ratio_and_symbol, word_of

MULTIPLES: tuple[tuple[str, ...], ...] = (
    ("duration_ns",),
    ("cycles",),
    ("instructions",),
    ("bank_conflicts",),
    ("registers",),
    ("l2_hit_pct",),
    ("tensor_pipe_pct",),
    ("dram_read_bytes", "dram_write_bytes"),
)
"""Metrics that a ladder shows side by side, where they were collected; several are added up."""
_NUMBERED = re.compile(r"(\d+): ")
"""Names of versions that begin with their number."""
_MOST_COUNTERS = 5
_MOST_STALLS = 2
"""Stall reasons that are shown: there are many, and one rises as another falls."""


def progression_view(findings: Findings) -> View:
    """Times of the reference, the ladder, small multiples and the ledger."""
    ladder = findings.ladder
    problem = findings.ranking.largest_problem
    ratios, steps = _ratios(findings, ladder), _ladder(findings, ladder)
    return {
        "template": "progression.html",
        "heading": "From version to version",
        "first": ratios or steps,
        "ratios": ratios,
        "ladder": steps,
        "multiples": None if problem is None else _multiples(findings, ladder, problem),
        "ledger": ledger(findings, ladder),
        "noted": any(rung.variant.remark for rung in ladder),
        "ledger_problem": problem,
        **problem_parts(findings),
        **metric_parts(findings),
    }


def rung_name(rung: Rung, *, full: bool = False) -> str:
    """Number and note, or number and name, as figures and tables call a version."""
    name = rung.variant.name if full else rung.variant.label
    return name if _NUMBERED.match(rung.variant.label) else f"{rung.number}\u2002{name}"


def rung_number(rung: Rung) -> str:
    """Number of a version: that in its name, or its place."""
    numbered = _NUMBERED.match(rung.variant.label)
    return numbered.group(1) if numbered else str(rung.number)


def _ratios(findings: Findings, ladder: Sequence[Rung]) -> Chart | None:
    if findings.programs.baseline is None or not any(math.isfinite(rung.ratio) for rung in ladder):
        return None
    means = [
        mark_of(findings.ranking, rung.variant, rung.ratio, name=rung_name(rung), place=place)
        for place, rung in enumerate(ladder)
    ]
    problems = list(zip(*(rung.ratios for rung in ladder), strict=True))
    title = f"{findings.numbers.primary.label} ÷ that of {findings.programs.baseline.label}"
    reading = "Below 1 is better. Logarithmic: equal heights are equal factors."
    figure = ratio_lines(means, problems, findings.programs.baseline.label, title)
    columns: list[Column[Rung]] = [Column("geometric mean", _mean_ratio)]
    columns += [
        _ratio_at(problem, place) for place, problem in enumerate(findings.programs.problems)
    ]
    table = _version_table(findings.programs, title, columns, ladder)
    return make_chart("first", title, reading, figure, table=table)


def _version_table(
    programs: Programs, caption: str, columns: Sequence[Column[Rung]], ladder: Iterable[Rung]
) -> SmallTable:
    return SmallTable.of(caption, "version", columns, ladder, partial(_rung_row, programs))


def _ratio_at(problem: Problem, place: int) -> Column[Rung]:
    return Column(problem.name, lambda rung: _ratio(rung.ratios[place]))


def _mean_ratio(rung: Rung) -> Datum:
    present = sum(math.isfinite(ratio) for ratio in rung.ratios)
    return _ratio(rung.ratio, f"geometric mean over {present} of {len(rung.ratios)} problems")


def _rung_row(programs: Programs, rung: Rung) -> Row:
    return Row(
        name=rung_name(rung),
        mark=programs.marks[rung.variant.id],
        note=rung.variant.remark,
        also=programs.aliases.get(rung.variant.id, ()),
    )


def _ladder(findings: Findings, ladder: Sequence[Rung]) -> Chart | None:
    marks = ladder_marks(findings.ranking, ladder)
    if len(marks) < 2:
        return None
    metric = findings.numbers.primary.label
    title = f"{metric} against the first version"
    reading = (
        "Logarithmic: equal heights are equal factors. Tread: geometric mean over the problems; "
        "bar: from the lowest to the highest problem. The number is the step from the version "
        "before, with its verdict where all problems agree."
    )
    figure = ladder_figure(marks, f"{metric} \u00f7 that of the first")
    columns: tuple[Column[Rung], ...] = (
        Column("cumulative", lambda rung: _overall(rung.cumulative, "ratio")),
        Column("lowest", lambda rung: _overall(rung.cumulative, "smallest")),
        Column("highest", lambda rung: _overall(rung.cumulative, "largest")),
        Column("cumulative verdict", lambda rung: _verdicts(rung.cumulative), is_text=True),
        Column("step", lambda rung: _overall(rung.step, "ratio")),
        Column("verdict", lambda rung: _verdicts(rung.step), is_text=True),
    )
    shown_rungs = [rung for rung, _ in _with_tread(ladder)]
    rows = _version_table(findings.programs, title, columns, shown_rungs)
    return make_chart("ladder", title, reading, figure, table=rows)


def _with_tread(ladder: Sequence[Rung]) -> list[tuple[Rung, Effect]]:
    """Versions with a correct result, and how they differ from the first one over all problems."""
    wholes = [(rung, rung.cumulative.overall) for rung in ladder if rung.cumulative]
    return [(rung, overall) for rung, overall in wholes if overall.pairs]


def _overall(step: StepEffect | None, which: str) -> Datum:
    """Mean, smallest or largest effect over all problems."""
    return _ratio(getattr(step.overall, which) if step else math.nan)


def _verdicts(step: StepEffect | None) -> Datum:
    return counts_datum(step.verdicts if step else ())


def ladder_marks(ranking: Ranking, ladder: Sequence[Rung]) -> list[Mark]:
    """Marks for `ladder_figure`: versions with a correct result."""
    return [
        mark_of(
            ranking,
            rung.variant,
            overall.ratio,
            ends=(overall.smallest, overall.largest),
            text=_step_text(rung),
            name=rung_name(rung),
        )
        for rung, overall in _with_tread(ladder)
    ]


def _step_text(rung: Rung) -> str:
    """Ratio of a step with the verdict that all problems agree in; empty without a step."""
    if rung.step is None or not rung.step.overall.pairs:
        return ""
    return ratio_and_symbol(rung.step.overall.ratio, rung.step.verdicts)


def _ratio(value: float, title: str = "") -> Datum:
    return Datum.times(value, "nothing to compare with", title)


StepPanel = tuple[Label, ...]
"""One of the small multiples: the metrics whose sum it shows."""


def panel_name(panel: StepPanel) -> str:
    """Names of the metrics."""
    return " + ".join(metric.label for metric in panel)


def panels_of(numbers: CellNumbers) -> tuple[StepPanel, ...]:
    """The primary metric and the small multiples of which all metrics were collected."""
    present = {metric.name for metric in numbers.metrics}
    metric_groups = dict.fromkeys([(numbers.primary.name,), *MULTIPLES])
    return tuple(labels(names) for names in metric_groups if present.issuperset(names))


def _multiples(findings: Findings, ladder: Sequence[Rung], problem: Problem) -> Chart | None:
    marks = multiples_marks(findings, ladder, problem, panels_of(findings.numbers))
    if not marks:
        return None
    reading = "Versions by their number, in the same order in every panel."
    figure = multiples(
        [(panel_name(panel), panel[0].unit, of_panel) for panel, of_panel in marks.items()]
    )
    title = f"Counters at {problem.name}"
    columns = [_median_column(findings.numbers, problem, panel) for panel in marks]
    rows = _version_table(findings.programs, title, columns, ladder)
    return make_chart("multiples", title, reading, figure, table=rows)


def multiples_marks(
    findings: Findings, ladder: Sequence[Rung], problem: Problem, panels: Sequence[StepPanel]
) -> dict[StepPanel, list[Mark]]:
    """Marks for `multiples`; a panel that no version has is left out."""
    marks = {
        panel: [
            mark_of(
                findings.ranking,
                rung.variant,
                _value(findings.numbers, rung, problem, panel),
                name=rung_number(rung),
                place=place,
            )
            for place, rung in enumerate(ladder)
        ]
        for panel in panels
    }
    return {
        panel: of_panel
        for panel, of_panel in marks.items()
        if any(math.isfinite(mark.value) for mark in of_panel)
    }


def _value(numbers: CellNumbers, rung: Rung, problem: Problem, panel: StepPanel) -> float:
    """Sum of the metrics; NaN where one is missing."""
    return sum(numbers.correct_at(rung.variant, problem, metric.name).median for metric in panel)


def _median_column(cell_numbers: CellNumbers, problem: Problem, panel: StepPanel) -> Column[Rung]:
    name, unit = panel_name(panel), panel[0].unit
    head = name if numbers.says_unit(unit) else with_unit(panel[0], unit)
    return Column(head, lambda rung: _median(cell_numbers, rung, problem, panel))


def _median(numbers: CellNumbers, rung: Rung, problem: Problem, panel: StepPanel) -> Datum:
    value = _value(numbers, rung, problem, panel)
    cell = numbers.programs.at(rung.variant, problem)
    return Datum.quantity(value, panel[0].unit, why_missing(numbers, cell, panel[0].name))


def ledger(findings: Findings, ladder: Sequence[Rung]) -> dict[str, Any] | None:
    """Columns of the ledger and a line for each version; None without a correct result.

    A line has the number and the full `version`, its `row`, whose note is that of the version, the
    counters that `moved` most as `counter_bars` gives them, or the reason `why_none` did.
    """
    problem = findings.ranking.largest_problem
    if problem is None:
        return None
    programs, medians = findings.programs, counter_medians(findings.numbers)
    table = _version_table(programs, "", _ledger_columns(findings.numbers, problem), ladder)
    return {
        "columns": table.columns,
        "lines": [
            {
                "number": rung.number,
                "version": rung_name(rung, full=True),
                "row": row,
                "moved": counter_bars(rung, problem, medians),
                "why_none": _why_nothing(programs, rung, problem),
            }
            for rung, row in zip(ladder, table.lines, strict=True)
        ],
    }


def _ledger_columns(numbers: CellNumbers, problem: Problem) -> list[Column[Rung]]:
    place, primary = numbers.programs.problem_numbers[problem.id], numbers.primary
    time = (primary,)
    return [
        Column(primary.label, lambda rung: _median(numbers, rung, problem, time), primary.hint),
        Column("step", lambda rung: _step(rung.step)),
        Column("step verdict", lambda rung: _verdicts(rung.step), is_text=True),
        Column("step there", lambda rung: _step_there(rung.step, place)),
        Column("cumulative", lambda rung: _overall(rung.cumulative, "ratio")),
        Column("cumulative verdict", lambda rung: _verdicts(rung.cumulative), is_text=True),
        Column("÷ reference", _mean_ratio),
    ]


def _step(step: StepEffect | None) -> Datum:
    if step is None or not step.overall.pairs:
        return _ratio(math.nan)
    overall = step.overall
    span = f"{numbers.ratio(overall.smallest)} to {numbers.ratio(overall.largest)}"
    return _ratio(overall.ratio, f"{span} by problem")


def _step_there(step: StepEffect | None, place: int) -> Datum:
    """Ratio, interval and verdict of a step at one problem, by the place of that."""
    if step is None or not step.effects[place].pairs:
        return _ratio(math.nan)
    effect, verdict = step.effects[place], step.verdicts[place]
    datum = verdict_datum(verdict)
    between = numbers.interval(effect.low, effect.high)
    texts = (numbers.ratio(effect.ratio), between, word_of(verdict))
    css = datum.css.removesuffix(" none")
    return Datum(" ".join(filter(None, texts)), numbers.raw(effect.ratio), datum.title, css)


def counter_bars(
    rung: Rung, problem: Problem, medians: Mapping[Label, Medians]
) -> tuple[tuple[str, str, str], ...]:
    """The counters that moved most with a step at one problem; none where none did.

    Name, change, and the class of a bar: from `w1` to `w20`, which is a factor of e, or 50 points.
    """
    if rung.step is None:
        return ()
    moved = moved_counters(rung.step.step, medians, [problem.id])
    stalls = [metric for metric in moved if metric.name.startswith(STALL_PREFIX)]
    left_out = stalls[_MOST_STALLS:]
    shown_metrics = [metric for metric in moved if metric not in left_out][:_MOST_COUNTERS]
    return tuple(_counter_bar(metric, moved[metric][0]) for metric in shown_metrics)


def _counter_bar(metric: Label, change: CounterChange) -> tuple[str, str, str]:
    size = move_size(metric, change.before, change.after)
    width = max(1, round(BAR_STEPS * min(size, 1.0)))
    return metric.label, move_datum(metric, change).text, f"w{width}"


def _why_nothing(programs: Programs, rung: Rung, problem: Problem) -> str:
    cell = programs.at(rung.variant, problem)
    if cell is None or not programs.correct(cell):
        return OUTCOME_WORDS[programs.status(cell).outcome] if cell else "not in the plan"
    if rung.before is None:
        return "the first version"
    compared = programs.correct(programs.at(rung.before, problem))
    return "no counter moved" if compared else "the version before has no result here"


# ---- figures; versions stand on the x axis, in their order ---------------------------------------


_PLOT_IN = 2.9
_LEFT, _RIGHT = 0.09, 0.99
_HEAD_IN = 0.45
_TURN_DEGREES = 40
_LONGEST = 40
_MOST_TICKS = 8
"""Numbers that a small panel has room for."""
_ABOVE = 5.0
"""From a mark up to its text, in points."""
_MEAN_DOT, _TREAD_DOT, _PANEL_DOT = styles.circle(3.32), styles.circle(2.92), styles.circle(2.35)
_MEAN = styles.line(styles.INK, 1.8)
_PROBLEM = styles.line(styles.OTHER, 0.9)
_REFERENCE = styles.dashed(styles.BASELINE, 1.4)


def ratio_lines(
    means: Sequence[Mark], problems: Sequence[Sequence[float]], reference: str, label: str
) -> Drawing:
    """A thin line for each problem and a thick one for the mean; 1 is a line of its own.

    `means`: the versions in their order; `problems`: of each its ratio with each version.
    """
    axes, across = _version_axes([mark.name for mark in means])
    ratios = [*(mark.value for mark in means), *chain(*problems), 1.0]
    scales = across, _ratio_axis(axes, ratios, shorten(label, 45))
    for of_problem in problems:
        axes.drawing.path(places(range(len(means)), of_problem, scales), _PROBLEM)
    axes.level(scales[1].at(1.0), _REFERENCE)
    present = [mark for mark in means if math.isfinite(mark.value)]
    points = points_of(present, scales)
    axes.drawing.path(points, _MEAN)
    axes.drawing.dots(_MEAN_DOT, points, present)
    axes.spines()
    for place, (mark, *of_version) in enumerate(zip(means, *problems, strict=True)):
        if math.isfinite(mark.value):
            top = max([mark.value, *filter(math.isfinite, of_version)])
            _write_above(axes, across.at(place), scales[1].at(top), numbers.ratio(mark.value))
    dot = (styles.circle(2.5), styles.INK)
    legend(
        axes.drawing,
        [
            Handle("geometric mean", _MEAN, dot),
            Handle("one problem each", _PROBLEM),
            Handle(f"{shorten(reference, 30)}: 1", _REFERENCE),
        ],
    )
    return axes.drawing


def ladder_figure(marks: Sequence[Mark], label: str) -> Drawing:
    """Steps on a log axis, no value missing.

    Each version is a tread at its value; its text says what the step to it was.
    """
    axes, across = _version_axes([mark.name for mark in marks])
    upwards = _ratio_axis(axes, ends_of(marks), label)
    points = [(across.at(place), upwards.at(mark.value)) for place, mark in enumerate(marks)]
    edges = [across.at(edge - 0.5) for edge in range(len(marks) + 1)]
    treads = [(x, y) for place, (_, y) in enumerate(points) for x in edges[place : place + 2]]
    axes.drawing.path(treads, styles.line(styles.INK, 1.6, "stroke-linejoin: miter"))
    for place, mark in enumerate(marks):
        span = places([place] * 2, [mark.low, mark.high], (across, upwards))
        if len(span) == 2:
            axes.drawing.path(span, styles.line(mark.colour, 2.4, "stroke-opacity: 0.5"))
    axes.drawing.dots(_TREAD_DOT, points, marks)
    axes.spines()
    for place, mark in enumerate(marks):
        top = upwards.at(max(mark.value, mark.high))
        _write_above(axes, across.at(place), top, mark.text)
    return axes.drawing


def _ratio_axis(axes: Axes, ratios: Sequence[float], label: str) -> Scale:
    """An upright axis of factors, from the least to the greatest of these ratios."""
    ends = (float(np.nanmin(ratios)) / 1.15, float(np.nanmax(ratios)) * 1.25)
    upwards = axes.upwards(ends, logarithmic=True)
    values = places_of_ticks(upwards, LogLocator(base=10, subs=(1, 1.5, 2, 3, 5, 7)))
    axes.grid_upwards(upwards, times_ticks(values), label)
    return upwards


def multiples(panels: Sequence[tuple[str, str, Sequence[Mark]]]) -> Drawing:
    """Figure with a panel for each metric (label, unit, marks) over the same versions.

    The place of a mark is that of its version, its name what the axis has there.
    """
    drawing, grid = panel_axes(len(panels))
    names = [mark.name for mark in panels[0][2]]
    every = math.ceil(len(names) / _MOST_TICKS)
    tick_texts = ["" if place % every else name for place, name in enumerate(names)]
    for axes, (label, unit, marks) in zip(grid, panels, strict=True):
        across = axes.across((-0.5, len(names) - 0.5))
        axes.grid_across(across, Ticks(range(len(names)), tick_texts))
        present = [mark for mark in marks if math.isfinite(mark.value)]
        divisor, title = scaled_label(label, unit, max(mark.value for mark in present))
        _draw_panel(axes, across, title, [mark.divided_by(divisor) for mark in present])
    return drawing


def _draw_panel(axes: Axes, across: Scale, title: str, marks: Sequence[Mark]) -> None:
    values = [mark.value for mark in marks]
    if spans_decades(values):
        upwards = axes.upwards((min(values) / ROOM, max(values) * ROOM), logarithmic=True)
        axes.grid_upwards(upwards, decade_ticks(upwards))
    else:
        upwards = axes.upwards((0.0, max(values) * 1.12 or 1.0))
        axes.grid_upwards(upwards, linear_ticks(upwards))
    points = points_of(marks, (across, upwards))
    axes.drawing.path(points, styles.line(styles.INK, 1.2))
    axes.drawing.dots(_PANEL_DOT, points, marks)
    axes.spines()
    axes.title(fitted(title, (axes.right - axes.left) / POINTS))


def _version_axes(names: Iterable[str]) -> tuple[Axes, Scale]:
    """Axes with a place on the x axis for each version, and that axis."""
    short_names = [shorten(name, _LONGEST) for name in names]
    turn = math.radians(_TURN_DEGREES)
    foot = 0.2 + widest_in(short_names) * math.sin(turn)
    # The first label reaches furthest to the left of its place.
    reach = 0.1 + text_width_in(short_names[0]) * math.cos(turn)
    left = max(_LEFT * WIDTH_IN, reach - 0.6 * (WIDTH_IN - reach) / len(short_names))
    drawing = sheet(_HEAD_IN + _PLOT_IN + foot)
    axes = Axes.in_inches(drawing, left, _HEAD_IN, _RIGHT * WIDTH_IN, _HEAD_IN + _PLOT_IN)
    across = axes.across((-0.6, len(short_names) - 0.4))
    axes.slanted_labels(across, short_names, _TURN_DEGREES)
    return axes, across


def _write_above(axes: Axes, x: float, y: float, text: str) -> None:
    if text:
        axes.drawing.text(text, (x, y - _ABOVE), styles.text("middle", 8.0))
