"""What a parameter of problems changes: the best of problems that differ in nothing else.

Some experiments ask that, and not only which variant is best: what a mask costs, or the layout of
the inputs. Durations of two problems are of different work, and are given no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analyse.effects import ParameterStep
from profiler.findings.ranking import Ranking
from profiler.model import Problem, Variant
from profiler.planning.problem_names import distinct, varying
from profiler.run_folder.load.report import PageSettings


@dataclass(frozen=True)
class Contrast:
    """One value of a parameter against the first, or against `false`."""

    step: ParameterStep
    """Without pairs of variants: each problem has its own best."""
    ratios: tuple[tuple[Problem, float], ...]
    """The best value of each problem ÷ that of the problem that differs in this alone."""

    @property
    def ratio(self) -> float:
        """Geometric mean."""
        return math.exp(math.fsum(math.log(ratio) for _, ratio in self.ratios) / len(self.ratios))


def contrasted_parameter(problems: Sequence[Problem], settings: PageSettings) -> str | None:
    """The parameter of problems that an experiment asks about; None without one.

    A page of grids names it as its rows, which are words; else it is a flag. Problems of a captured
    step are what a program happened to ask.
    """
    if settings.weights is not None:
        return None
    keys = varying(problems)
    of_rows = settings.axes[0] if settings.axes else None
    if of_rows in keys and all(isinstance(value, str) for value in distinct(problems, of_rows)):
        return of_rows
    flags = (
        key
        for key in keys
        if all(isinstance(problem.params.get(key), bool) for problem in problems)
    )
    return next(flags, None)


def flags_of(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Parameters that are on or off in variants that differ in them."""
    return tuple(
        key
        for key in varying(variants)
        if any(isinstance(variant.params.get(key), bool) for variant in variants)
    )


def contrasts(ranking: Ranking, settings: PageSettings) -> tuple[Contrast, ...]:
    """Every other value of the parameter that is asked about, the one that changes most first."""
    problems = ranking.programs.problems
    key = contrasted_parameter(problems, settings)
    if key is None:
        return ()
    before, *others = sorted(distinct(problems, key), key=lambda value: value is True)
    best = {
        problem: winner.value.median
        for problem, winner in ranking.winners.items()
        if winner.value.median > 0
    }
    by_key = {_rest(problem, key): problem for problem in problems if problem.params[key] == before}
    value_contrasts = []
    for value in others:
        ratios = tuple(
            (problem, best[problem.id] / best[other.id])
            for problem in problems
            if problem.params[key] == value
            and (other := by_key.get(_rest(problem, key))) is not None
            and {problem.id, other.id} <= best.keys()
        )
        if ratios:
            value_contrasts.append(Contrast(ParameterStep(key, before, value, ()), ratios))
    return tuple(sorted(value_contrasts, key=lambda contrast: -abs(math.log(contrast.ratio))))


def _rest(problem: Problem, key: str) -> str:
    """Identity of a problem without one of its parameters."""
    return repr(sorted((name, value) for name, value in problem.params.items() if name != key))
