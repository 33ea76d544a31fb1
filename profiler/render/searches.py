"""The section of a search: sentences, course, what was tried, importance of parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.kinds.search import SearchFindings, Trial
from profiler.findings.programs import Programs
from profiler.notices import counted
from profiler.planning.matrix import value_text
from profiler.render.figures import search_figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Mark
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
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
        search_figures.course(*course_marks(search), "time \u00f7 baseline"),
    )


def course_marks(search: SearchFindings) -> tuple[list[Mark], list[Mark]]:
    """Marks for `search_figures.course`: the evaluations, and the best so far at each of them."""
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
        search_figures.parallel_lines(tried, axes, max(1, round(_QUICK_SHARE * len(tried)))),
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
    outcome = OUTCOME_WORDS[trial.outcome]
    ended = f"{outcome}, stopped early" if trial.stopped_early else outcome
    data = (
        *(Datum(value_text(trial.params[parameter.name]), css="words") for parameter in free),
        Datum.times(None if estimate is None else estimate.ratio, outcome),
        Datum(numbers.interval(low, high) or numbers.MISSING),
        *([Datum(trial.worker, css="words")] if with_worker else []),
        Datum(ended, title=trial.cause, css="words"),
    )
    return Row(
        str(trial.number), data, role=FINALIST if trial.variant in search.finalists else "other"
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
    seconds = max((trial.elapsed_s for trial in search.trials), default=0.0)
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
    """How sure it is that nothing much better was missed."""
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
    counts = Counter(trial.worker for trial in search.trials)
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
