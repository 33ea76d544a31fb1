"""The page of a ladder of versions: percent of the reference, each step, what went with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.effects import Effect, Medians, ParameterStep, moves, over_problems
from profiler.findings.ladder import Rung, rungs
from profiler.findings.lookup import OUTCOME_WORDS, Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import symbol
from profiler.findings.values import NAN
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.model import Problem
from profiler.render.figures import ladder_figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.kinds.versions import View, metric_parts, problem_parts
from profiler.render.tables.moved import counters, medians_of, move_datum, move_size
from profiler.render.tables.rows import Datum, Row, with_unit
from profiler.render.tables.verdict_cells import counts_datum, verdict_datum
from profiler.render.tables.why import STILL_UNDER
from profiler.render.words import numbers
from profiler.render.words.labels import Label, labels

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
"""What a reader of a ladder looks at side by side, where it was collected; several are added up."""
_MOST_COUNTERS = 5
_MOST_STALLS = 2
"""Of these counters: reasons to wait are many, and one rises as another falls."""


@dataclass(frozen=True)
class Twin:
    """A figure and the table that says the same."""

    chart: Chart
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Line:
    """One line of the ledger."""

    number: int
    row: Row
    """Its note is that of the version."""
    counters: str


LEDGER_HEADS = (
    *("step", "step verdict", "step there"),
    *("cumulative", "cumulative verdict", "% of reference"),
)


def progression_view(ranking: Ranking) -> View:
    """Percent of the reference, the ladder, small multiples and the ledger."""
    lookup = ranking.lookup
    ladder = rungs(ranking)
    problem = lookup.largest_problem
    parts = {
        "percents": _percents(lookup, ladder),
        "ladder": _ladder(lookup, ladder),
        "multiples": None if problem is None else _multiples(lookup, ladder, problem),
        "ledger": ledger(lookup, ladder),
        "ledger_heads": LEDGER_HEADS,
        "noted": any(one.variant.note for one in ladder),
        "ledger_problem": problem,
        **problem_parts(ranking),
        **metric_parts(ranking),
    }
    return View("progression.html", "From version to version", parts)


def rung_name(rung: Rung) -> str:
    """Number and name, as figures and tables call a version."""
    return f"{rung.number}\u2002{rung.variant.name}"


def _percents(lookup: Lookup, ladder: Sequence[Rung]) -> Twin | None:
    if lookup.baseline is None or not any(math.isfinite(one.percent) for one in ladder):
        return None
    means = pd.DataFrame(
        [(rung_name(one), lookup.marks[one.variant.id], one.percent) for one in ladder],
        columns=["name", "mark", "value"],
    )
    title = f"Percent of {lookup.baseline.name}"
    reading = (
        "Of its performance: 100 is as much work in the same time, 50 takes twice the time. Thick: "
        "geometric mean over the problems. Thin: one problem each."
    )
    figure = ladder_figures.percent_lines(
        means, percent_table(lookup, ladder), lookup.baseline.name
    )
    heads = ("geometric mean", *(problem.name for problem in lookup.problems))
    rows = tuple(
        _rung_row(
            lookup, one, [_percent(one.percent, _mean_title(one)), *map(_percent, one.percents)]
        )
        for one in ladder
    )
    return Twin(make_chart("percents", title, reading, figure), heads, rows)


def percent_table(lookup: Lookup, ladder: Sequence[Rung]) -> pd.DataFrame:
    """Percent of the reference by problem and place on the ladder; NaN where it is missing."""
    return pd.DataFrame(
        [
            (problem.id, place, rung.percents[index])
            for index, problem in enumerate(lookup.problems)
            for place, rung in enumerate(ladder)
        ],
        columns=["problem", "place", "value"],
    )


def _mean_title(rung: Rung) -> str:
    known = sum(math.isfinite(one) for one in rung.percents)
    return f"geometric mean over {known} of {len(rung.percents)} problems"


def _percent(value: float, title: str = "") -> Datum:
    return Datum.quantity(value, "%", "not measured for both", title)


def _rung_row(lookup: Lookup, rung: Rung, data: Sequence[Datum]) -> Row:
    return Row(
        rung_name(rung), lookup.marks[rung.variant.id], "other", tuple(data), rung.variant.note
    )


def _ladder(lookup: Lookup, ladder: Sequence[Rung]) -> Twin | None:
    table = ladder_table(lookup, ladder)
    if len(table) < 2:
        return None
    metric = lookup.primary.label
    title = f"{metric} against the first version"
    reading = (
        "Logarithmic: equal heights are equal factors. Tread: geometric mean over the problems; "
        "bar: from the lowest to the highest problem. The number is the step from the version "
        "before, with its verdict where all problems agree."
    )
    figure = ladder_figures.ladder(table, f"{metric} \u00f7 that of the first")
    heads = ("cumulative", "lowest", "highest", "cumulative verdict", "step", "verdict")
    known = [one for one in ladder if over_problems(one.whole).pairs]
    rows = tuple(
        _rung_row(
            lookup,
            one,
            [
                *_extremes(one.whole),
                counts_datum(one.whole_rulings),
                _ratio(over_problems(one.step).ratio),
                counts_datum(one.step_rulings),
            ],
        )
        for one in known
    )
    return Twin(make_chart("ladder", title, reading, figure), heads, rows)


def ladder_table(lookup: Lookup, ladder: Sequence[Rung]) -> pd.DataFrame:
    """Rows for `ladder_figures.ladder`: versions with a correct result."""
    rows = []
    for one in ladder:
        whole, step = over_problems(one.whole), over_problems(one.step)
        if whole.pairs:
            text = f"{numbers.ratio(step.ratio)} {symbol(one.step_rulings)}".rstrip()
            text = text if step.pairs else ""
            ends = (whole.ratio, whole.smallest, whole.largest)
            rows.append((rung_name(one), lookup.marks[one.variant.id], *ends, text))
    return pd.DataFrame(rows, columns=["name", "mark", "value", "low", "high", "text"])


def _extremes(found: Sequence[Effect]) -> list[Datum]:
    whole = over_problems(found)
    return [_ratio(value) for value in (whole.ratio, whole.smallest, whole.largest)]


def _ratio(value: float) -> Datum:
    if not math.isfinite(value):
        return Datum(title="nothing to compare with", css="none")
    return Datum(numbers.ratio(value), numbers.raw(value))


@dataclass(frozen=True)
class Panel:
    """One of the small multiples: the sum of its metrics."""

    metrics: tuple[Label, ...]

    @property
    def label(self) -> str:
        """Names of the metrics."""
        return " + ".join(metric.label for metric in self.metrics)

    @property
    def unit(self) -> str:
        """Unit that the metrics share."""
        return self.metrics[0].unit

    @property
    def head(self) -> str:
        """Name, with the unit where values do not say it."""
        return self.label if numbers.says_unit(self.unit) else with_unit(self.metrics[0], self.unit)


def panels_of(lookup: Lookup) -> tuple[Panel, ...]:
    """The primary metric and the small multiples of which all metrics were collected."""
    present = {one.name for one in lookup.measured_metrics}
    wanted = dict.fromkeys([(lookup.report.primary,), *MULTIPLES])
    return tuple(Panel(labels(names)) for names in wanted if present.issuperset(names))


def _multiples(lookup: Lookup, ladder: Sequence[Rung], problem: Problem) -> Twin | None:
    panels = panels_of(lookup)
    table = multiples_table(lookup, ladder, problem, panels)
    shown = [panel for panel in panels if panel.label in set(table["panel"])]
    if not shown:
        return None
    reading = "Versions by their number, in the same order in every panel."
    figure = ladder_figures.multiples(table)
    chart = make_chart("multiples", f"Counters at {problem.name}", reading, figure)
    rows = tuple(
        _rung_row(lookup, one, [_median(lookup, one, problem, panel) for panel in shown])
        for one in ladder
    )
    return Twin(chart, tuple(panel.head for panel in shown), rows)


def multiples_table(
    lookup: Lookup, ladder: Sequence[Rung], problem: Problem, panels: Sequence[Panel]
) -> pd.DataFrame:
    """Rows for `ladder_figures.multiples`; a panel that no version has is left out."""
    rows = [
        (
            panel.label,
            panel.unit,
            place,
            str(one.number),
            lookup.marks[one.variant.id],
            _value(lookup, one, problem, panel),
        )
        for panel in panels
        for place, one in enumerate(ladder)
    ]
    columns = ["panel", "unit", "place", "number", "mark", "value"]
    table = pd.DataFrame(rows, columns=columns)
    return table[table.groupby("panel")["value"].transform("count") > 0]


def _value(lookup: Lookup, rung: Rung, problem: Problem, panel: Panel) -> float:
    """Sum of the metrics; NaN where one is missing."""
    correct = lookup.correct(lookup.cells.get((rung.variant.id, problem.id)))
    values = [lookup.at(rung.variant, problem, one.name).median for one in panel.metrics]
    return sum(values) if correct else NAN


def _median(lookup: Lookup, rung: Rung, problem: Problem, panel: Panel) -> Datum:
    value = _value(lookup, rung, problem, panel)
    cell = lookup.cells.get((rung.variant.id, problem.id))
    return Datum.quantity(value, panel.unit, lookup.why_missing(cell, panel.metrics[0].name))


def ledger(lookup: Lookup, ladder: Sequence[Rung]) -> tuple[Line, ...]:
    """Each version with its note, its time at the largest problem, its step and its counters."""
    problem = lookup.largest_problem
    if problem is None:
        return ()
    medians = {metric: medians_of(lookup, metric) for metric in counters(lookup)}
    return tuple(
        Line(
            one.number,
            _rung_row(lookup, one, _ledger_data(lookup, one, problem)),
            counters_in_words(one, problem, medians) or _why_nothing(lookup, one, problem),
        )
        for one in ladder
    )


def _ledger_data(lookup: Lookup, rung: Rung, problem: Problem) -> list[Datum]:
    place = lookup.problem_numbers[problem.id]
    return [
        _median(lookup, rung, problem, Panel((lookup.primary,))),
        _step(rung.step),
        counts_datum(rung.step_rulings),
        _step_there(rung, place),
        _ratio(over_problems(rung.whole).ratio),
        counts_datum(rung.whole_rulings),
        _percent(rung.percent, _mean_title(rung)),
    ]


def _step(found: Sequence[Effect]) -> Datum:
    whole = over_problems(found)
    if not whole.pairs:
        return _ratio(NAN)
    span = f"{numbers.ratio(whole.smallest)} to {numbers.ratio(whole.largest)}"
    return Datum(numbers.ratio(whole.ratio), numbers.raw(whole.ratio), f"{span} by problem")


def _step_there(rung: Rung, place: int) -> Datum:
    """Ratio, interval and verdict of a step at one problem, by the place of that."""
    if not rung.step or not rung.step[place].pairs:
        return _ratio(NAN)
    effect = rung.step[place]
    said = verdict_datum(rung.step_rulings[place])
    between = numbers.interval(effect.low, effect.high)
    texts = (numbers.ratio(effect.ratio), between, rung.step_rulings[place].word)
    css = said.css.removesuffix(" none")
    return Datum(" ".join(filter(None, texts)), numbers.raw(effect.ratio), said.title, css)


def counters_in_words(rung: Rung, problem: Problem, medians: Mapping[Label, Medians]) -> str:
    """The counters that moved most with a step at one problem; empty where none did."""
    if rung.before is None:
        return ""
    step = ParameterStep(
        "version", rung.before.name, rung.variant.name, ((rung.before, rung.variant),)
    )
    found = []
    for metric, values in medians.items():
        (move,) = moves(step, values, [problem.id])
        if move.pairs and move_size(metric, move) > STILL_UNDER:
            found.append((move_size(metric, move), metric, move))
    found.sort(key=lambda one: -one[0])
    stalls = [one for one in found if one[1].name.startswith(STALL_PREFIX)]
    unsaid = stalls[_MOST_STALLS:]
    kept = [one for one in found if one not in unsaid][:_MOST_COUNTERS]
    return ", ".join(f"{metric.label} {move_datum(metric, move).text}" for _, metric, move in kept)


def _why_nothing(lookup: Lookup, rung: Rung, problem: Problem) -> str:
    cell = lookup.cells.get((rung.variant.id, problem.id))
    if cell is None or not lookup.correct(cell):
        return OUTCOME_WORDS[lookup.status(cell).outcome] if cell else "not in the plan"
    if rung.before is None:
        return "the first version"
    compared = lookup.correct(lookup.cells.get((rung.before.id, problem.id)))
    return "no counter moved" if compared else "the version before has no result here"
