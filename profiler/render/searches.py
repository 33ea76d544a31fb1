"""The section of a search: sentences, course, what was tried, importance of parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from profiler.findings.findings import Findings
from profiler.findings.kinds.search import SearchFindings, Trial
from profiler.findings.programs import Programs
from profiler.notices import counted
from profiler.planning.matrix import value_text
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Scale,
    decade_ticks,
    limits,
    linear_ticks,
    places,
    points_of,
    sheet,
    times_ticks,
    whole_numbers,
)
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import WIDTH_IN, Drawing, Mark, ends_of, spans_decades
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.names import shorten
from profiler.render.words.signs import OUTCOME_WORDS
from profiler.search.estimates import CONFIDENCE, FEWEST_MEASURED, GEOMEAN, WORST
from profiler.search.space import Parameter, value_key

_QUICK_SHARE = 0.1
_MOST_AXES = 12
"""Axes of the figure that there is room for; the most important parameters first."""


FINALIST = "finalist"
"""Role of the row of a configuration that went on."""


def search_section(findings: Findings) -> dict[str, Any] | None:
    """Parts of the section of a search; None where there was none.

    A row for each evaluation: values of the parameters that differ, ratio and its interval, its GPU
    where several measured, its outcome with the cause behind it.
    """
    search = findings.search
    if search is None:
        return None
    free = _free_parameters(search)
    tunes, several = findings.report.settings.page_kind.tunes, len(search.record.workers) > 1
    return {
        "sentences": search_sentences(findings, search),
        "course": None if tunes else course_chart(findings),
        "tried": _tried_chart(search, free),
        "importance": search.importance.shares if search.importance is not None else {},
        "importance_reading": importance_reading(search),
        "heads": [*(parameter.name for parameter in free)],
        "has_workers": several,
        "rows": [_row(search, trial, free, with_worker=several) for trial in search.trials],
    }


def _free_parameters(search: SearchFindings) -> tuple[Parameter, ...]:
    """Parameters that differ, the most important first."""
    shares = search.importance.shares if search.importance is not None else {}
    free = [
        Parameter.of(name, values)
        for name, values in search.record.terms.parameters.items()
        if len(values) > 1
    ]
    return tuple(sorted(free, key=lambda parameter: -shares.get(parameter.name, 0.0)))


def course_chart(findings: Findings, chart_id: str = "search-course") -> Chart | None:
    """Every evaluation of the search and the best so far; None where nothing was measured."""
    programs, search = findings.programs, findings.search
    if search is None or all(trial.estimate is None for trial in search.trials):
        return None
    baseline = variant_name(programs, search.record.terms.baseline)
    return make_chart(
        chart_id,
        "Best so far by evaluation",
        "A dot for each configuration that was measured. Line: the best so far, with its "
        f"95\u202f% interval by all looks at it. Time \u00f7 that of {baseline} in the same block, "
        f"by the timer, {objective_words(programs, search)}.",
        course(*course_marks(search), "time \u00f7 baseline"),
    )


def course_marks(search: SearchFindings) -> tuple[list[Mark], list[Mark]]:
    """Marks for `course`: the evaluations, and the best so far at each of them."""
    evaluated: list[Mark] = []
    best: list[Mark] = []
    for trial in search.trials:
        for marks, estimate in ((evaluated, trial.estimate), (best, trial.best)):
            ratio = math.nan if estimate is None else estimate.ratio
            ends = (None, None) if estimate is None else estimate.interval
            low, high = (math.nan if end is None else end for end in ends)
            marks.append(Mark("", ratio, low, high, place=trial.number))
    return evaluated, best


def _tried_chart(search: SearchFindings, free: tuple[Parameter, ...]) -> Chart | None:
    shown_axes = free[:_MOST_AXES]
    tried = tried_lines(search, shown_axes)
    if len(tried) < 2 or not shown_axes:
        return None
    left_out = len(free) - len(shown_axes)
    more = f" {left_out} less important parameters have no axis." if left_out else ""
    axes = [(p.name, [value_text(value) for value in p.values]) for p in shown_axes]
    return make_chart(
        "search-tried",
        "What was tried",
        "A line for each configuration that was measured, through its value on every axis; the "
        "most important parameter first. The last axis is its time \u00f7 that of the baseline, "
        f"the smallest on top. Blue: the quickest tenth.{more}",
        parallel_lines(tried, axes, max(1, round(_QUICK_SHARE * len(tried)))),
    )


def tried_lines(
    search: SearchFindings, parameters: tuple[Parameter, ...]
) -> list[tuple[float, list[int]]]:
    """Ratio of each configuration and the place of its value on each axis, the slowest first."""
    codes = {p.name: {value_key(v): code for code, v in enumerate(p.values)} for p in parameters}
    lines = [
        (trial.estimate.ratio, [codes[name][value_key(trial.params[name])] for name in codes])
        for trial in search.trials
        if trial.estimate is not None
    ]
    return sorted(lines, key=lambda line: -line[0])


def _row(
    search: SearchFindings, trial: Trial, free: Sequence[Parameter], *, with_worker: bool
) -> Row:
    estimate = trial.estimate
    low, high = (None, None) if estimate is None else estimate.interval
    outcome = OUTCOME_WORDS[trial.evaluated.outcome]
    ended = f"{outcome}, stopped early" if trial.evaluated.stopped_early else outcome
    data = (
        *(Datum(value_text(trial.params[parameter.name]), css="words") for parameter in free),
        Datum.times(None if estimate is None else estimate.ratio, outcome),
        Datum(numbers.interval(low, high) or numbers.MISSING),
        *([Datum(trial.evaluated.worker, css="words")] if with_worker else []),
        Datum(ended, title=trial.evaluated.cause, css="words"),
    )
    return Row(
        str(trial.number),
        data,
        role=FINALIST if trial.evaluated.variant in search.finalists else "other",
    )


# ---- sentences -----------------------------------------------------------------------------------


IMPORTANCE_METHOD = "permutation importance over kernel ridge regression on the logs of the ratios"


def search_sentences(findings: Findings, search: SearchFindings) -> tuple[str, ...]:
    """Sentences on a search: its course, its result, its noise and what it may have missed."""
    return (
        _course(search),
        *_found(findings.programs, search),
        missed(search),
        _noise(search),
        *_gpus(search),
    )


def _course(search: SearchFindings) -> str:
    cover, terms = search.coverage, search.record.terms
    seconds = search.record.elapsed_s
    share = cover.tried / cover.configurations
    text = (
        f"The strategy {terms.strategy} tried {cover.tried:,} of {cover.configurations:,} "
        f"configurations ({100 * share:.1f} %) in {numbers.seconds(seconds)}"
    )
    facts = []
    if search.failed:
        facts.append(f"{search.failed} failed")
    if search.stopped_early:
        facts.append(f"{search.stopped_early} were stopped early, clearly behind the best")
    if terms.left_out:
        facts.append(f"{terms.left_out} more cannot do every problem and were left out")
    return f"{'; '.join([text, *facts])}."


def _found(programs: Programs, search: SearchFindings) -> Iterator[str]:
    best = search.best
    if best is None:
        yield "None of them could be measured."
        return
    baseline = variant_name(programs, search.record.terms.baseline)
    yield (
        f"By the timer the best is {variant_name(programs, best.variant)}: "
        f"{numbers.ratio(best.ratio)} the time of "
        f"{f'{baseline} {numbers.interval(*best.interval)}'.rstrip()}, "
        f"{objective_words(programs, search)}."
    )
    if search.record.finished is None:
        yield "The search was stopped before its end."
    else:
        yield (
            f"{counted(len(search.finalists), 'finalist')} went on; the answer and all numbers in "
            "other sections are of their measurement, not of the search."
        )


def search_summary(search: SearchFindings) -> str:
    """Sentence on what was tried, and how sure it is that nothing much better was missed."""
    return f"Search: {_course(search)} {missed(search)}"


def missed(search: SearchFindings) -> str:
    """Words on how sure it is that nothing much better was missed."""
    cover = search.coverage
    if not cover.untried:
        return "Every configuration was tried."
    never = f"{cover.untried:,} configurations were never tried"
    if cover.better_share is None:
        return (
            f"{never}, and none was drawn at random: how many of them are better is not known "
            "(the strategies random and portfolio draw some)."
        )
    return (
        f"{never}. None of the {cover.random_draws} that were drawn at random is better than the "
        f"best found: with {100 * CONFIDENCE:.0f} % confidence at most {cover.most_better:,} of "
        f"all configurations ({100 * cover.better_share:.2g} %) are better."
    )


def _noise(search: SearchFindings) -> str:
    noise = search.noise
    looks = noise.repeated_looks
    source = f"{looks} repeated looks at the best" if looks else "assumed: nothing was repeated"
    return (
        f"A ratio varies by {100 * noise.within:.1f} % from block to block and by "
        f"{100 * noise.between:.1f} % from look to look ({source})."
    )


def _gpus(search: SearchFindings) -> Iterator[str]:
    """Number of evaluations by GPU, where there are several."""
    counts = Counter(trial.evaluated.worker for trial in search.trials)
    workers = [worker for worker in search.record.workers if counts[worker.worker]]
    if len(workers) < 2:
        return
    listed = ", ".join(
        f"{worker.worker} ({worker.gpu_uuid or 'no UUID'}) {counts[worker.worker]}"
        for worker in workers
    )
    yield (
        f"Ratios were measured on {len(workers)} GPUs of one model, each beside the baseline on "
        f"the same GPU: {listed}. What these GPUs differ by is part of the noise from look to look."
    )


def importance_reading(search: SearchFindings) -> str:
    """Sentence on what the importances are, or why there are none."""
    importance = search.importance
    if importance is None:
        few = "Too few configurations were measured for a model"
        return f"{few}: at least {FEWEST_MEASURED} are needed."
    explained = f"{100 * max(importance.explained, 0):.0f} % of the variance"
    if not importance.shares:
        return (
            f"A model of the parameters predicts only {explained} of configurations that were left "
            "out of it: too little to say which parameter matters."
        )
    return (
        f"Share of each parameter in what configurations differ by: {IMPORTANCE_METHOD}. The model "
        f"predicts {explained} of configurations that were left out of it."
    )


def objective_words(programs: Programs, search: SearchFindings) -> str:
    """Words for what a ratio of the search compares, and over which problems."""
    terms = search.record.terms
    if len(terms.problems) == 1:
        names = {problem.id: problem.name for problem in programs.problems}
        return f"at {names.get(terms.problems[0], terms.problems[0])}"
    means = {GEOMEAN: "geometric mean over", WORST: "the worst of"}
    return f"{means[terms.objective]} {len(terms.problems)} problems"


def variant_name(programs: Programs, variant: str) -> str:
    """Label of a variant; its id where it was not measured after the search."""
    return programs.labels.get(variant, variant)


# ---- figures -------------------------------------------------------------------------------------


_COURSE_IN, _LINES_IN = 3.2, 3.4
_LEFT_IN, _RIGHT_IN, _FOOT_IN, _HEAD_IN = 0.9, 0.2, 0.55, 0.3
_DOT = styles.circle(1.87)
_SMALL = 8.0
_MIDDLE = (styles.ASCENT - styles.DESCENT) / 2
"""From the middle of letters down to their baseline, by their size."""
_SPREAD = 0.5
"""Share of the room of a value in which the lines through it lie beside each other."""


def course(evaluated: Sequence[Mark], best: Sequence[Mark], label: str) -> Drawing:
    """Every evaluation, NaN where it failed, and the best so far with its interval.

    The place of a mark is the number of the evaluation.
    """
    axes = _axes(_COURSE_IN)
    number = [mark.place for mark in best]
    ratios = [mark.value for mark in evaluated]
    logarithmic = spans_decades(ratios)
    every = [*ratios, *ends_of(best)]
    ends = limits(list(filter(math.isfinite, every)), logarithmic=logarithmic)
    across = axes.across((0.5, max(*number, 2) + 0.5))
    upwards = axes.upwards(ends, logarithmic=logarithmic)
    axes.grid_across(across, linear_ticks(across, whole_numbers(12)), "evaluation")
    ticks = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
    axes.grid_upwards(upwards, times_ticks(ticks.values), label)
    scales = (across, upwards)
    for at in points_of(evaluated, scales):
        axes.drawing.symbol(_DOT, at, styles.symbol(styles.OTHER))
    lowest, value, highest = (
        # Corners of steps: each value holds until the next one.
        places(np.repeat(number, 2)[1:], np.repeat(edge, 2)[:-1], scales)
        for edge in zip(*((mark.low, mark.value, mark.high) for mark in best), strict=True)
    )
    axes.drawing.area([*lowest, *reversed(highest)], styles.fill(styles.BEST, 0.25))
    axes.drawing.path(value, styles.line(styles.BEST, 1.8))
    axes.spines()
    return axes.drawing


def parallel_lines(
    lines: Sequence[tuple[float, Sequence[int]]],
    axes_values: Sequence[tuple[str, Sequence[str]]],
    quick: int,
) -> Drawing:
    """Lines, of each its ratio on the last axis and the place of its value on each other axis.

    `axes_values`: name and values of each axis. Lines are drawn in their order, the last ones, as
    many as are `quick`, in blue.
    """
    axes = _axes(_LINES_IN, left=0.3, right=0.7, head=0.5)
    scales = axes.across((-0.3, len(axes_values) + 0.4)), axes.upwards((-0.02, 1.02))
    ratios = [ratio for ratio, _ in lines]
    codes = zip(*(codes for _, codes in lines), strict=True)
    heights = np.column_stack(
        [
            *(
                _heights(np.array(of_axis), len(values))
                for of_axis, (_, values) in zip(codes, axes_values, strict=True)
            ),
            _scaled(np.log(ratios)),
        ]
    )
    for rows, colour, width in (
        (heights[:-quick], styles.OTHER, 0.7),
        (heights[-quick:], styles.BEST, 1.4),
    ):
        style = styles.line(colour, width, "stroke-opacity: 0.8")
        for row in rows:
            axes.drawing.path(places(range(len(row)), row, scales), style)
    for place, (name, values) in enumerate(axes_values):
        value_texts = [shorten(value, 12) for value in values]
        levels = [(code + 0.5) / len(values) for code in range(len(values))]
        _axis(axes, scales, (place, shorten(name, 16)), dict(zip(levels, value_texts, strict=True)))
    _ratio_axis(axes, scales, len(axes_values), ratios)
    return axes.drawing


def _axes(
    panel_in: float,
    *,
    left: float = _LEFT_IN,
    right: float = _RIGHT_IN,
    head: float = _HEAD_IN,
) -> Axes:
    drawing = sheet(head + panel_in + _FOOT_IN)
    return Axes.in_inches(drawing, left, head, WIDTH_IN - right, head + panel_in)


def _heights(codes: np.ndarray, count: int) -> np.ndarray:
    """Height of each row on an axis of so many values, those of one value beside each other."""
    spread = np.linspace(-_SPREAD, _SPREAD, len(codes)) / 2
    heights: np.ndarray = (codes.astype(float) + 0.5 + spread) / count
    return heights


def _scaled(values: np.ndarray) -> np.ndarray:
    span = float(values.max() - values.min()) or 1.0
    scaled: np.ndarray = (values.max() - values) / span
    return scaled


def _axis(
    axes: Axes,
    scales: tuple[Scale, Scale],
    head: tuple[int, str],
    levels: Mapping[float, str],
    *,
    beside: float = -0.03,
) -> None:
    """An upright axis at a place under its name; texts by height, left of it or right."""
    (place, name), (across, upwards) = head, scales
    axes.drawing.path(places((place, place), (0.0, 1.0), scales), styles.line(styles.GRID, 1.0))
    above = upwards.at(1.04) - styles.DESCENT * _SMALL
    axes.drawing.text(name, (across.at(place), above), styles.text("middle", _SMALL))
    style = styles.text("end" if beside < 0 else "start", _SMALL)
    for height, text in levels.items():
        at = (across.at(place + beside), upwards.at(height) + _MIDDLE * _SMALL)
        axes.drawing.text(text, at, style)


def _ratio_axis(
    axes: Axes, scales: tuple[Scale, Scale], place: int, ratios: Sequence[float]
) -> None:
    """The last axis: the smallest ratio on top, logarithmic."""
    low, high = float(np.log(min(ratios))), float(np.log(max(ratios)))
    parts = (0, 1 / 3, 2 / 3, 1) if high > low else (0,)
    levels = {1 - part: numbers.ratio(float(np.exp(low + part * (high - low)))) for part in parts}
    _axis(axes, scales, (place, "\u00f7 baseline"), levels, beside=0.03)
