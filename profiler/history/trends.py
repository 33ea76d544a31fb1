"""What became of each cell, and of each variant over its problems, in the runs of an experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.analyse.change_points import MOST_RUNS
from profiler.history.answers import Answer, HistoryRun, RunAnswers
from profiler.history.levels import Trend, with_causes, with_changes


@dataclass(frozen=True)
class History:
    """The runs of one experiment on one kind of machine, the oldest first."""

    experiment: str
    metric: str
    machine: str
    runs: tuple[HistoryRun, ...]
    trends: tuple[Trend, ...]
    variants: tuple[Trend, ...]
    """A trend for each variant of several problems, over all of them: what moves them together
    stands out of the noise of each."""
    other_machines: tuple[str, ...]
    """Kinds of machines of its runs that are left out."""

    @property
    def changed(self) -> tuple[Trend, ...]:
        """Trends whose level changed: variants over their problems, then cells."""
        return tuple(trend for trend in (*self.variants, *self.trends) if trend.changes)

    def differences(self, older: int, newer: int) -> tuple[str, ...]:
        """What two runs differ by, in words: commit, card, versions."""
        return tuple(_differences(self.runs[older], self.runs[newer]))


def find_history(
    runs: Sequence[RunAnswers], metric: str, machine: str | None = None
) -> History | None:
    """Trends of every cell; None where no run has the metric.

    `machine`: words in the name of the kind of machine; None: that of the newest run.
    """
    kinds = list(dict.fromkeys(of_run.run.machine for of_run in reversed(runs)))
    wanted = [kind for kind in kinds if machine is None or machine.lower() in kind.lower()]
    if not wanted:
        return None
    kept = [of_run for of_run in runs if of_run.run.machine == wanted[0]][-MOST_RUNS:]
    trends = tuple(_trends(kept))
    return History(
        experiment=kept[-1].run.experiment,
        metric=metric,
        machine=wanted[0],
        runs=tuple(of_run.run for of_run in kept),
        trends=with_causes(with_changes(trends, metric)),
        variants=with_causes(with_changes(tuple(_over_problems(trends)), metric)),
        other_machines=tuple(kind for kind in kinds if kind != wanted[0]),
    )


def _trends(runs: Sequence[RunAnswers]) -> Iterable[Trend]:
    by_cell: dict[str, dict[int, Answer]] = {}
    for number, of_run in enumerate(runs):
        for answer in of_run.answers:
            by_cell.setdefault(answer.cell, {})[number] = answer
    baselines = [of_run.run.baseline for of_run in runs]
    for cell, answers in by_cell.items():
        newest = answers[max(answers)]
        used = {baselines[run] for run in answers}
        baseline = used.pop() if len(used) == 1 else None
        is_baseline = baseline is not None and cell.startswith(f"{baseline}..")
        has_ratios = all((answer.ratio or 0) > 0 for answer in answers.values())
        relative = baseline is not None and not is_baseline and has_ratios
        yield Trend(cell, newest.variant, newest.problem, is_baseline, relative, answers)


def _over_problems(trends: Sequence[Trend]) -> Iterator[Trend]:
    """Geometric mean of the ratios to the baseline, for each variant with several problems."""
    groups: dict[tuple[str, tuple[int, ...]], list[Trend]] = {}
    for trend in trends:
        if trend.is_relative:
            groups.setdefault((trend.variant, tuple(trend.answers)), []).append(trend)
    for (variant, runs), cells in groups.items():
        if len(cells) > 1:
            problem = f"over {len(cells)} problems"
            answers = {run: _mean([cell.answers[run] for cell in cells], problem) for run in runs}
            yield Trend("", variant, problem, False, True, answers, cells=len(cells))


def _mean(answers: Sequence[Answer], problem: str) -> Answer:
    """Geometric mean of the ratios of one run, whose errors are independent, and of its times."""
    middles = np.log([answer.ratio or math.nan for answer in answers])
    lows = np.log([answer.ratio_low or math.nan for answer in answers])
    highs = np.log([answer.ratio_high or math.nan for answer in answers])
    middle = middles.mean()
    low = middle - np.hypot.reduce(middles - lows) / len(answers)
    high = middle + np.hypot.reduce(highs - middles) / len(answers)
    return answers[0]._replace(
        problem=problem,
        value=float(np.exp(np.mean(np.log([answer.value for answer in answers])))),
        low=None,
        high=None,
        ratio=math.exp(middle),
        ratio_low=math.exp(low) if math.isfinite(low) else None,
        ratio_high=math.exp(high) if math.isfinite(high) else None,
        verdict=None,
    )


def _differences(older: HistoryRun, newer: HistoryRun) -> Iterable[str]:
    if older.commit != newer.commit:
        yield f"commit {older.commit or 'unknown'} \u2192 {newer.commit or 'unknown'}"
    if older.card.lower() != newer.card.lower():
        yield "another card"
    for field in sorted({*older.versions, *newer.versions}):
        before, after = older.versions.get(field), newer.versions.get(field)
        if before != after and before and after:
            yield f"{field} {before} \u2192 {after}"
