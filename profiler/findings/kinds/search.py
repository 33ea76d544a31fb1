"""What is true of a search: its course, its noise, what matters, and what it may have missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.model import Outcome, Params
from profiler.search.live.coverage import CONFIDENCE, Coverage, coverage
from profiler.search.live.importance import Importance, parameter_importance
from profiler.search.live.noise import (
    Estimate,
    Noise,
    estimate_noise,
    estimates,
    looks_by_variant,
)
from profiler.search.live.records import SearchRecord


@dataclass(frozen=True)
class Trial:
    """One evaluation: its result, and the best up to it."""

    number: int
    variant: str
    """Variant id."""
    params: Params
    outcome: Outcome
    cause: str
    estimate: Estimate | None
    """By all looks of the search; None where it failed."""
    stopped_early: bool
    best: Estimate | None
    """The best of all up to here, by its looks of the whole search; None while all failed."""
    elapsed_s: float
    worker: str = ""
    """Name of the GPU that measured it, where workers did."""


@dataclass(frozen=True, eq=False)
class SearchFindings:
    """The findings of a search."""

    record: SearchRecord
    trials: tuple[Trial, ...]
    best: Estimate | None
    noise: Noise
    coverage: Coverage
    importance: Importance | None
    """None where too little was measured."""

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Number of evaluations by outcome."""
        return Counter(trial.outcome for trial in self.trials)

    @property
    def failed(self) -> int:
        """Number of evaluations that gave no time."""
        return sum(trial.estimate is None for trial in self.trials)

    @property
    def stopped_early(self) -> int:
        """Number of evaluations that were clearly behind before their last block."""
        return sum(trial.stopped_early for trial in self.trials)

    @property
    def finalists(self) -> tuple[str, ...]:
        """Ids of the variants that were judged after it; empty where it did not end."""
        return self.record.finished.finalists if self.record.finished is not None else ()


def find_search(record: SearchRecord | None) -> SearchFindings | None:
    """Findings of a search; None where there was none."""
    if record is None:
        return None
    estimate_by_variant = estimates(record)
    measured = [e for e in record.evaluations if e.variant in estimate_by_variant]
    return SearchFindings(
        record=record,
        trials=tuple(_trials(record, estimate_by_variant)),
        best=min(estimate_by_variant.values(), key=lambda estimate: estimate.value, default=None),
        noise=estimate_noise(looks_by_variant(record)),
        coverage=coverage(record),
        importance=parameter_importance(
            record.terms.parameters,
            [record.proposed[e.variant] for e in measured],
            [estimate_by_variant[e.variant].value for e in measured],
        ),
    )


def _trials(record: SearchRecord, known: Mapping[str, Estimate]) -> Iterator[Trial]:
    best: Estimate | None = None
    for number, evaluated in enumerate(record.evaluations, start=1):
        estimate = known.get(evaluated.variant)
        if estimate is not None and (best is None or estimate.value < best.value):
            best = estimate
        yield Trial(
            number=number,
            variant=evaluated.variant,
            params=record.proposed[evaluated.variant],
            outcome=evaluated.outcome,
            cause=evaluated.cause,
            estimate=estimate,
            stopped_early=evaluated.stopped_early,
            best=best,
            elapsed_s=evaluated.elapsed_s,
            worker=evaluated.worker,
        )


def search_document(search: SearchFindings | None) -> dict[str, Any] | None:
    """Findings of a search as JSON-ready data; null where there was none."""
    if search is None:
        return None
    terms, cover = search.record.terms, search.coverage
    finished = search.record.finished
    return {
        "strategy": terms.strategy,
        "seed": terms.seed,
        "objective": terms.objective,
        "baseline": terms.baseline,
        "problems": list(terms.problems),
        "configurations": cover.configurations,
        "left_out": terms.left_out,
        "tried": cover.tried,
        "untried": cover.untried,
        "outcomes": {outcome.value: count for outcome, count in search.outcomes.items()},
        "stopped_early": search.stopped_early,
        "seconds": max((trial.elapsed_s for trial in search.trials), default=0.0),
        "ended_by": None if finished is None else finished.reason,
        "best": _estimate_document(search.best),
        "finalists": list(search.finalists),
        "random_draws": cover.random_draws,
        "confidence": CONFIDENCE,
        "better_share_below": cover.better_share,
        "noise": {
            "within_looks": search.noise.within,
            "between_looks": search.noise.between,
            "repeated_looks": search.noise.repeated_looks,
        },
        "importance": _importance_document(search.importance),
        "workers": [
            {"name": worker.worker, "gpu": worker.gpu, "gpu_uuid": worker.gpu_uuid}
            for worker in search.record.workers
        ],
        "evaluations": [_trial_document(trial) for trial in search.trials],
    }


def _estimate_document(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    low, high = estimate.interval
    ratios = {"ratio": estimate.ratio, "ratio_low": low, "ratio_high": high}
    return {"variant": estimate.variant, **ratios}


def _importance_document(importance: Importance | None) -> dict[str, Any] | None:
    if importance is None:
        return None
    return {
        "method": "permutation over kernel ridge regression",
        "explained": importance.explained,
        "shares": dict(importance.shares),
    }


def _trial_document(trial: Trial) -> dict[str, Any]:
    estimate = _estimate_document(trial.estimate) or {
        "ratio": None,
        "ratio_low": None,
        "ratio_high": None,
    }
    return {
        **estimate,
        "number": trial.number,
        "variant": trial.variant,
        "params": dict(trial.params),
        "outcome": trial.outcome.value,
        "cause": trial.cause,
        "stopped_early": trial.stopped_early,
        "best_so_far": None if trial.best is None else trial.best.ratio,
        "elapsed_s": trial.elapsed_s,
        "worker": trial.worker or None,
    }
