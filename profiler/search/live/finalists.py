"""Which of the configurations that a search measured are judged in the end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from profiler.search.live.noise import Estimate, estimates
from profiler.search.live.records import SearchRecord

FEWEST, MOST = 3, 8
"""Finalists by the objective. Those that lead at single problems come on top."""
_DIFFERENCE_ERRORS = 2.0


def finalists(record: SearchRecord) -> tuple[str, ...]:
    """Ids of the variants to judge, the best by the search first.

    Those that cannot be told from the best, at least FEWEST and at most MOST, and the quickest at
    each problem.
    """
    ranked = sorted(estimates(record).values(), key=lambda estimate: estimate.value)
    if not ranked:
        return ()
    near = [estimate.variant for estimate in ranked if _may_be_best(estimate, ranked[0])]
    count = min(max(len(near), FEWEST), MOST)
    first = [estimate.variant for estimate in ranked[:count]]
    return tuple(dict.fromkeys((*first, *_quickest_at_problems(record))))


def _may_be_best(candidate: Estimate, best: Estimate) -> bool:
    reserve = _DIFFERENCE_ERRORS * math.hypot(candidate.error, best.error)
    return candidate.value - best.value <= reserve


def _quickest_at_problems(record: SearchRecord) -> Iterator[str]:
    """The variant with the smallest mean ratio at each problem."""
    for problem in record.terms.problems:
        means = {
            evaluation.variant: statistics.fmean(evaluation.log_ratios[problem])
            for evaluation in record.evaluations
            if evaluation.log_ratios.get(problem)
        }
        if means:
            yield min(means, key=means.__getitem__)
