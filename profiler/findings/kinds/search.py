"""Findings of a search: its course, noise, importance of parameters, coverage of the space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from profiler.findings.json_model import JsonObject, Number, Source
from profiler.model import Outcome, Params
from profiler.search.estimates import (
    CONFIDENCE,
    Coverage,
    Estimate,
    Importance,
    Noise,
    coverage,
    estimate_noise,
    estimates,
    looks_by_variant,
    parameter_importance,
)
from profiler.search.journal import Evaluated, SearchRecord, WorkerJoined


@dataclass(frozen=True)
class Trial:
    """Evaluation of a search: its result, and the best result up to it."""

    number: int
    evaluated: Evaluated
    params: Params
    estimate: Estimate | None
    """By all looks of the search; None where it failed."""
    best: Estimate | None
    """The best of all up to here, by its looks of the whole search; None while all failed."""


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
        return Counter(trial.evaluated.outcome for trial in self.trials)

    @property
    def failed(self) -> int:
        """Number of evaluations that gave no time."""
        return sum(trial.estimate is None for trial in self.trials)

    @property
    def stopped_early(self) -> int:
        """Number of evaluations that were clearly behind before their last block."""
        return sum(trial.evaluated.stopped_early for trial in self.trials)

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


def _trials(record: SearchRecord, estimates: Mapping[str, Estimate]) -> Iterator[Trial]:
    best: Estimate | None = None
    for trial_number, evaluated in enumerate(record.evaluations, start=1):
        estimate = estimates.get(evaluated.variant)
        if estimate is not None and (best is None or estimate.value < best.value):
            best = estimate
        yield Trial(trial_number, evaluated, record.proposed[evaluated.variant], estimate, best)


# ---- as JSON -------------------------------------------------------------------------------------


class SearchRatioDocument(JsonObject):
    """Time of a configuration ÷ time of the baseline, over the objective, by the timer."""

    get = Source[Estimate]()
    ratio: Number = get(lambda estimate: estimate.ratio)
    ratio_low: Number = get(lambda estimate: estimate.interval[0])
    """95 % interval"""
    ratio_high: Number = get(lambda estimate: estimate.interval[1])


class SearchEstimateDocument(JsonObject):
    """A configuration with its ratio."""

    get = Source[Estimate]()
    variant: str = get(lambda estimate: estimate.variant)
    ratio = get.spread(SearchRatioDocument, lambda estimate: estimate)


class SearchTrialDocument(JsonObject):
    """One evaluation of a search."""

    get = Source[Trial]()
    variant: str = get(lambda trial: trial.evaluated.variant)
    ratio = get.spread(SearchRatioDocument, lambda trial: trial.estimate)
    number: int = get(lambda trial: trial.number)
    params: dict[str, Any] = get(lambda trial: dict(trial.params))
    outcome: str = get(lambda trial: trial.evaluated.outcome.value)
    cause: str = get(lambda trial: trial.evaluated.cause)
    stopped_early: bool = get(lambda trial: trial.evaluated.stopped_early)
    """it was clearly behind before its last block"""
    best_so_far: Number = get(lambda trial: trial.best.ratio if trial.best else None)
    elapsed_s: float = get(lambda trial: trial.evaluated.elapsed_s)
    worker: str | None = get(lambda trial: trial.evaluated.worker or None)
    """name of its GPU; null where no workers measured"""


class SearchNoiseDocument(JsonObject):
    """Standard deviations of the logs of ratios."""

    get = Source[Noise]()
    within_looks: float = get(lambda noise: noise.within)
    """from block to block"""
    between_looks: float = get(lambda noise: noise.between)
    """from one look at a configuration to the next"""
    repeated_looks: int = get(lambda noise: noise.repeated_looks)


class SearchImportanceDocument(JsonObject):
    """How much each parameter matters."""

    get = Source[Importance]()
    method: str = get(lambda _: "permutation over kernel ridge regression")
    explained: float = get(lambda importance: importance.explained)
    """share of the variance that the model predicts unseen"""
    shares: dict[str, float] = get(lambda importance: dict(importance.shares))
    """empty where the model explains too little"""


class SearchWorkerDocument(JsonObject):
    """A GPU that measured for a search."""

    get = Source[WorkerJoined]()
    name: str = get(lambda worker: worker.worker)
    gpu: str | None = get(lambda worker: worker.gpu)
    gpu_uuid: str | None = get(lambda worker: worker.gpu_uuid)
    """a hash"""


class SearchPartDocument(JsonObject):
    """A search before the measurement; what it found was then compared as `answer` says."""

    get = Source[SearchFindings]()
    strategy: str = get(lambda search: search.record.terms.strategy)
    seed: int = get(lambda search: search.record.terms.seed)
    objective: str = get(lambda search: search.record.terms.objective)
    baseline: str = get(lambda search: search.record.terms.baseline)
    problems: list[str] = get(lambda search: list(search.record.terms.problems))
    configurations: int = get(lambda search: search.coverage.configurations)
    left_out: int = get(lambda search: search.record.terms.left_out)
    """further ones that cannot do every problem"""
    tried: int = get(lambda search: search.coverage.tried)
    untried: int = get(lambda search: search.coverage.untried)
    outcomes: dict[str, int] = get(
        lambda search: {outcome.value: count for outcome, count in search.outcomes.items()}
    )
    stopped_early: int = get(lambda search: search.stopped_early)
    seconds: float = get(lambda search: search.record.elapsed_s)
    ended_by: Literal["budget", "space"] | None = get.one_of(
        lambda search: search.record.finished and search.record.finished.reason
    )
    """null: it did not end"""
    best = get.nested(SearchEstimateDocument, lambda search: search.best)
    finalists: list[str] = get(lambda search: list(search.finalists))
    random_draws: int = get(lambda search: search.coverage.random_draws)
    confidence: float = get(lambda _: CONFIDENCE)
    better_share_below: Number = get(lambda search: search.coverage.better_share)
    """share of all configurations that may be better than the best, at most; null without random
    draws"""
    noise = get.part(SearchNoiseDocument, lambda search: search.noise)
    importance = get.nested(SearchImportanceDocument, lambda search: search.importance)
    workers = get.rows(SearchWorkerDocument, lambda search: search.record.workers)
    """empty where the GPU of the run measured"""
    evaluations = get.rows(SearchTrialDocument, lambda search: search.trials)
