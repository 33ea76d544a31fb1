"""A search replayed on recorded results: no GPU, and the best is known."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.errors import UsageError
from profiler.kernels.arithmetic import Arithmetic, parse
from profiler.search.history import History
from profiler.search.registry import make_strategy
from profiler.search.space import SearchSpace, Value, value_key
from profiler.search.t1 import TuningProblem
from profiler.search.t4 import RecordedResult, Statistic

TARGETS = (0.95, 0.99)
"""Shares of the best: best time divided by the time that was found, as the hub has it."""


@dataclass(frozen=True)
class RecordedSpace:
    """The configurations of a space that have a record, with their values."""

    space: SearchSpace
    values_ms: NDArray[np.float64]
    """By configuration; infinity where it failed."""
    unrecorded: int
    """Valid configurations without a record: they are left out."""
    foreign: int
    """Records of configurations that the space does not have: they are left out."""
    conditions: tuple[Arithmetic, ...] = ()
    """Conditions of the space, by which each proposal is checked once more."""

    @property
    def best_ms(self) -> float:
        """Smallest value."""
        return float(self.values_ms.min())

    @property
    def failed(self) -> int:
        """Number of configurations that failed."""
        return int(np.isinf(self.values_ms).sum())


@dataclass(frozen=True)
class Evaluation:
    """One proposal of a search and what came of it."""

    params: dict[str, Value]
    value_ms: float | None
    best_ms: float | None
    """The smallest value up to here; None while everything failed."""


@dataclass(frozen=True)
class Replay:
    """One search with one seed."""

    seed: int
    evaluations: tuple[Evaluation, ...]
    invalid: int
    """Proposals that are not valid; counted by the replay, not by the strategy."""
    repeated: int
    proposal_seconds: tuple[float, ...]
    """Time of each proposal."""

    def evaluations_to(self, share: float, best_ms: float) -> int | None:
        """Number of evaluations until the best one found reaches a share of the best of all."""
        for number, evaluation in enumerate(self.evaluations, start=1):
            if evaluation.best_ms is not None and best_ms / evaluation.best_ms >= share:
                return number
        return None


def recorded_space(
    problem: TuningProblem, results: Sequence[RecordedResult], statistic: Statistic = "median"
) -> RecordedSpace:
    """Join the space of a problem with recorded results.

    Of two records of a configuration the last one counts. Raises UsageError where they share no
    configuration, or all that they share failed.
    """
    space = problem.space
    values = np.full(len(space), np.nan)
    foreign = 0
    for result in results:
        configuration = space.find(result.params) if _has_names(space, result) else None
        if configuration is None:
            foreign += 1
            continue
        value = result.value_ms(statistic)
        values[configuration] = np.inf if value is None else value
    recorded = ~np.isnan(values)
    if not recorded.any():
        raise UsageError(
            "Space and results share no configuration: "
            f"the first result {_difference(space, results[0].params)}.",
            remedy="Give the T1 and the T4 file of the same kernel.",
        )
    if not np.isfinite(values).any():
        raise UsageError(f"All {recorded.sum()} recorded configurations of the space failed.")
    unrecorded = int(len(space) - recorded.sum())
    measured_space = (
        space if unrecorded == 0 else SearchSpace(space.parameters, space.codes[recorded])
    )
    return RecordedSpace(
        space=measured_space,
        values_ms=values[recorded],
        unrecorded=unrecorded,
        foreign=foreign,
        conditions=tuple(map(parse, problem.conditions)),
    )


def _difference(space: SearchSpace, params: Mapping[str, Value]) -> str:
    """How the parameters of a result differ from those of the space."""
    for parameter in space.parameters:
        if parameter.name not in params:
            return f"has no '{parameter.name}'"
        value = params[parameter.name]
        if value_key(value) not in map(value_key, parameter.values):
            return f"has {value!r} as '{parameter.name}', the space {_shown(parameter.values)}"
    others = sorted(params.keys() - {parameter.name for parameter in space.parameters})
    if others:
        return f"has '{others[0]}', which is no parameter of the space"
    return "does not meet the space's conditions"


def _shown(values: Sequence[Value]) -> str:
    """The first values of a parameter."""
    return ", ".join([*(repr(value) for value in values[:6]), *["…"][: len(values) > 6]])


def _has_names(space: SearchSpace, result: RecordedResult) -> bool:
    return set(result.params) == {parameter.name for parameter in space.parameters}


def replay(recorded: RecordedSpace, strategy_name: str, budget: int, seed: int) -> Replay:
    """Search a recorded space with a number of evaluations; a failed one counts as one."""
    history = History(recorded.space)
    strategy = make_strategy(strategy_name, history, seed)
    evaluations: list[Evaluation] = []
    seconds: list[float] = []
    proposed: set[int] = set()
    invalid = repeated = 0
    best: float | None = None
    for _ in range(min(budget, len(recorded.space))):
        start = time.perf_counter()
        configuration = strategy.ask()
        seconds.append(time.perf_counter() - start)
        params = recorded.space.params(configuration)
        invalid += not all(condition.value(params) for condition in recorded.conditions)
        repeated += configuration in proposed
        proposed.add(configuration)
        stored = float(recorded.values_ms[configuration])
        value = stored if np.isfinite(stored) else None
        history.tell(configuration, value)
        best = value if best is None else min(best, best if value is None else value)
        evaluations.append(Evaluation(params, value, best))
    return Replay(seed, tuple(evaluations), invalid, repeated, tuple(seconds))
