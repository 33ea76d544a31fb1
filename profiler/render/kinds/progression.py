"""The page of a ladder of versions: times of the reference, each step, what went with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import Medians, counter_medians, moved_counters
from profiler.findings.findings import Findings
from profiler.findings.kinds.steps import Effect, Rung, StepEffect
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.metrics.queries import Label, labels
from profiler.model import Problem
from profiler.render.figures import ladder_figures
from profiler.render.figures.charts import Chart, make_chart, mark_of
from profiler.render.figures.drawing import Mark
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


def rung_name(rung: Rung) -> str:
    """Number and note, or number and name, as figures and tables call a version."""
    name = rung.variant.label
    return name if _NUMBERED.match(name) else f"{rung.number}\u2002{name}"


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
    which = "Above" if findings.numbers.primary.better == "higher" else "Below"
    reading = f"{which} 1 is better. Logarithmic: equal heights are equal factors."
    figure = ladder_figures.ratio_lines(means, problems, findings.programs.baseline.label, title)
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
    figure = ladder_figures.ladder(marks, f"{metric} \u00f7 that of the first")
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
    """Marks for `ladder_figures.ladder`: versions with a correct result."""
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
    figure = ladder_figures.multiples(
        [(panel_name(panel), panel[0].unit, of_panel) for panel, of_panel in marks.items()]
    )
    title = f"Counters at {problem.name}"
    columns = [_median_column(findings.numbers, problem, panel) for panel in marks]
    rows = _version_table(findings.programs, title, columns, ladder)
    return make_chart("multiples", title, reading, figure, table=rows)


def multiples_marks(
    findings: Findings, ladder: Sequence[Rung], problem: Problem, panels: Sequence[StepPanel]
) -> dict[StepPanel, list[Mark]]:
    """Marks for `ladder_figures.multiples`; a panel that no version has is left out."""
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
                "version": _version(rung),
                "row": row,
                "moved": counter_bars(rung, problem, medians),
                "why_none": _why_nothing(programs, rung, problem),
            }
            for rung, row in zip(ladder, table.lines, strict=True)
        ],
    }


def _version(rung: Rung) -> str:
    name = rung.variant.name
    return name if _NUMBERED.match(rung.variant.label) else f"{rung.number}\u2002{name}"


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
    stalls = [counter for counter in moved if counter.metric.name.startswith(STALL_PREFIX)]
    left_out = stalls[_MOST_STALLS:]
    shown_counters = [counter for counter in moved if counter not in left_out][:_MOST_COUNTERS]
    return tuple(
        (
            counter.metric.label,
            move_datum(counter.metric, counter.moves[0]).text,
            f"w{max(1, round(BAR_STEPS * min(counter.size, 1.0)))}",
        )
        for counter in shown_counters
    )


def _why_nothing(programs: Programs, rung: Rung, problem: Problem) -> str:
    cell = programs.at(rung.variant, problem)
    if cell is None or not programs.correct(cell):
        return OUTCOME_WORDS[programs.status(cell).outcome] if cell else "not in the plan"
    if rung.before is None:
        return "the first version"
    compared = programs.correct(programs.at(rung.before, problem))
    return "no counter moved" if compared else "the version before has no result here"
