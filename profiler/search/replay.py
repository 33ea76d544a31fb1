"""Replays of a search on recorded results, and their summary.

A replay needs no GPU, and its best configuration is known.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.errors import UsageError
from profiler.kernels.arithmetic import Arithmetic, parse
from profiler.model import SCHEMA_VERSION
from profiler.search.space import SearchSpace, Value, value_key
from profiler.search.strategies import SearchHistory, make_strategy
from profiler.search.t1 import TuningProblem
from profiler.search.t4 import RecordedResult, Statistic

TARGETS = (0.95, 0.99)
"""Shares of the best: best time divided by the found time, as in the hub."""


@dataclass(frozen=True)
class RecordedSpace:
    """The configurations of a space that have a record, with their values."""

    space: SearchSpace
    values_ms: NDArray[np.float64]
    """Values by configuration; infinity for a failed one."""
    unrecorded: int
    """Number of valid configurations without a record, which are left out."""
    foreign: int
    """Number of records of configurations that the space lacks, which are left out."""
    recorded_again: int = 0
    """Number of records of configurations with an earlier record, which does not count."""
    conditions: tuple[Arithmetic, ...] = ()
    """Conditions of the space, by which the replay checks each proposal."""

    @property
    def best_ms(self) -> float:
        """Smallest value."""
        return float(self.values_ms.min())

    @property
    def failed(self) -> int:
        """Number of configurations that failed."""
        return int(np.isinf(self.values_ms).sum())


@dataclass(frozen=True)
class Replay:
    """Replay of a search with one seed."""

    seed: int
    configurations: tuple[int, ...]
    """In the order of the proposals."""
    values_ms: tuple[float, ...]
    """Value of each configuration; infinity for a failed one."""
    invalid: int
    """Number of invalid proposals; counted by the replay, not by the strategy."""
    repeated: int
    proposal_seconds: tuple[float, ...]
    """Seconds of each proposal."""

    @cached_property
    def best_so_far_ms(self) -> tuple[float, ...]:
        """Smallest value up to each evaluation; infinity while everything failed."""
        return tuple(accumulate(self.values_ms, min))

    def evaluations_to(self, share: float, best_ms: float) -> int | None:
        """Number of evaluations until the best found value reaches a share of the best of all."""
        counts = (n for n, best in enumerate(self.best_so_far_ms, 1) if best_ms / best >= share)
        return next(counts, None)


def recorded_space(
    problem: TuningProblem, results: Sequence[RecordedResult], statistic: Statistic = "median"
) -> RecordedSpace:
    """Join the space of a problem with recorded results.

    Of two records of a configuration the last counts. Raises UsageError where space and results
    share no configuration, or all shared configurations failed.
    """
    space = problem.space
    names = {parameter.name for parameter in space.parameters}
    values = np.full(len(space), np.nan)
    foreign = recorded_again = 0
    for result in results:
        configuration = space.find(result.params) if result.params.keys() == names else None
        if configuration is None:
            foreign += 1
            continue
        value = result.value_ms(statistic)
        recorded_again += not np.isnan(values[configuration])
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
        recorded_again=recorded_again,
        conditions=tuple(map(parse, problem.conditions)),
    )


def _difference(space: SearchSpace, params: Mapping[str, Value]) -> str:
    """Sentence part on how the parameters of a result differ from the space's."""
    for parameter in space.parameters:
        if parameter.name not in params:
            return f"has no '{parameter.name}'"
        value = params[parameter.name]
        if value_key(value) not in map(value_key, parameter.values):
            return f"has {value!r} as '{parameter.name}', the space {_shown(parameter.values)}"
    unknown_names = sorted(params.keys() - {parameter.name for parameter in space.parameters})
    if unknown_names:
        return f"has '{unknown_names[0]}', which is no parameter of the space"
    return "does not meet the space's conditions"


def _shown(values: Sequence[Value]) -> str:
    """The first values of a parameter."""
    return ", ".join([*(repr(value) for value in values[:6]), *["…"][: len(values) > 6]])


def replay(recorded: RecordedSpace, strategy_name: str, budget: int, seed: int) -> Replay:
    """Replay of a search on a recorded space; failed evaluations count."""
    history = SearchHistory(recorded.space)
    strategy = make_strategy(strategy_name, history, seed)
    configurations: list[int] = []
    values: list[float] = []
    seconds: list[float] = []
    invalid = 0
    for _ in range(min(budget, len(recorded.space))):
        start = time.perf_counter()
        configuration = next(strategy)
        seconds.append(time.perf_counter() - start)
        params = recorded.space.params(configuration)
        invalid += not all(condition.value(params) for condition in recorded.conditions)
        configurations.append(configuration)
        values.append(float(recorded.values_ms[configuration]))
        history.tell(configuration, values[-1] if math.isfinite(values[-1]) else None)
    repeated = len(configurations) - len(set(configurations))
    return Replay(seed, tuple(configurations), tuple(values), invalid, repeated, tuple(seconds))


_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class TargetSummary:
    """Numbers of evaluations to reach a share of the best."""

    share: float
    reached: int
    """Number of seeds that reached the share within the budget."""
    median_evaluations: float | None
    """Median over all seeds; None where fewer than half reached the share."""


@dataclass(frozen=True)
class ReplaySummary:
    """Summary of replays with several seeds."""

    targets: tuple[TargetSummary, ...]
    best_so_far: tuple[tuple[int, float | None], ...]
    """Number of evaluations, and the median over seeds of the share of the best found by then."""
    invalid: int
    repeated: int
    median_proposal_ms: float
    longest_proposal_ms: float


def summarise(recorded: RecordedSpace, replays: Sequence[Replay]) -> ReplaySummary:
    """Summary of replays on one space; there is at least one."""
    seconds = [second for replay in replays for second in replay.proposal_seconds]
    return ReplaySummary(
        targets=tuple(_target(share, recorded, replays) for share in TARGETS),
        best_so_far=tuple(
            (count, _share_after(count, recorded, replays))
            for count in checkpoints(len(replays[0].values_ms))
        ),
        invalid=sum(replay.invalid for replay in replays),
        repeated=sum(replay.repeated for replay in replays),
        median_proposal_ms=1e3 * statistics.median(seconds),
        longest_proposal_ms=1e3 * max(seconds),
    )


def checkpoints(budget: int) -> tuple[int, ...]:
    """Numbers of evaluations for the summary: 1, 2, 5, 10, 20, 50, … and the budget."""
    counts: list[int] = []
    scale = 1
    while scale <= budget:
        counts += [scale * step for step in _STEPS if scale * step < budget]
        scale *= 10
    return (*counts, budget)


def _target(share: float, recorded: RecordedSpace, replays: Sequence[Replay]) -> TargetSummary:
    counts = [replay.evaluations_to(share, recorded.best_ms) for replay in replays]
    reached = sum(count is not None for count in counts)
    median = statistics.median(math.inf if count is None else count for count in counts)
    return TargetSummary(share, reached, median if math.isfinite(median) else None)


def _share_after(count: int, recorded: RecordedSpace, replays: Sequence[Replay]) -> float | None:
    """Median share of the best after so many evaluations; None where most had only failures."""
    bests = (replay.best_so_far_ms[count - 1] for replay in replays)
    return statistics.median(recorded.best_ms / best for best in bests) or None


def replay_document(
    name: str,
    strategy: str,
    recorded: RecordedSpace,
    replays: Sequence[Replay],
    summary: ReplaySummary,
) -> dict[str, Any]:
    """JSON document of replays; an unreached share is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "space": name,
        "configurations": len(recorded.space),
        "failed": recorded.failed,
        "unrecorded": recorded.unrecorded,
        "foreign": recorded.foreign,
        "recorded_again": recorded.recorded_again,
        "best_ms": recorded.best_ms,
        "strategy": strategy,
        "budget": len(replays[0].values_ms),
        "targets": [
            {
                "share": target.share,
                "seeds_reached": target.reached,
                "median_evaluations": target.median_evaluations,
            }
            for target in summary.targets
        ],
        "invalid_proposals": summary.invalid,
        "repeated_proposals": summary.repeated,
        "median_proposal_ms": summary.median_proposal_ms,
        "longest_proposal_ms": summary.longest_proposal_ms,
        "seeds": [_seed_document(replay, recorded) for replay in replays],
    }


def _seed_document(replay: Replay, recorded: RecordedSpace) -> dict[str, Any]:
    best_ms = replay.best_so_far_ms[-1]
    best = replay.configurations[replay.values_ms.index(best_ms)]
    has_best = math.isfinite(best_ms)
    return {
        "seed": replay.seed,
        "best_ms": best_ms if has_best else None,
        "best_configuration": recorded.space.params(best) if has_best else None,
        "evaluations_to": {
            str(share): replay.evaluations_to(share, recorded.best_ms) for share in TARGETS
        },
        "values_ms": [value if math.isfinite(value) else None for value in replay.values_ms],
    }
