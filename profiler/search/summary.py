"""What replays of a search say together: evaluations to a share of the best, time of a proposal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiler.model import SCHEMA_VERSION
from profiler.search.replay import TARGETS, RecordedSpace, Replay

_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class TargetSummary:
    """How many evaluations it took to reach a share of the best."""

    share: float
    reached: int
    """Number of seeds that reached it within the budget."""
    median_evaluations: float | None
    """Over all seeds; None where fewer than half reached it."""


@dataclass(frozen=True)
class ReplaySummary:
    """Replays with several seeds, summarised."""

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
            for count in checkpoints(len(replays[0].evaluations))
        ),
        invalid=sum(replay.invalid for replay in replays),
        repeated=sum(replay.repeated for replay in replays),
        median_proposal_ms=1e3 * statistics.median(seconds),
        longest_proposal_ms=1e3 * max(seconds),
    )


def checkpoints(budget: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, … and the budget itself."""
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
    """Median share of the best after some evaluations; None where most had only failures."""
    bests = [replay.evaluations[count - 1].best_ms for replay in replays]
    share = statistics.median(0.0 if best is None else recorded.best_ms / best for best in bests)
    return share or None


def replay_document(
    name: str,
    strategy: str,
    recorded: RecordedSpace,
    replays: Sequence[Replay],
    summary: ReplaySummary,
) -> dict[str, Any]:
    """Replays as one JSON document; what was not reached is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "space": name,
        "configurations": len(recorded.space),
        "failed": recorded.failed,
        "unrecorded": recorded.unrecorded,
        "foreign": recorded.foreign,
        "best_ms": recorded.best_ms,
        "strategy": strategy,
        "budget": len(replays[0].evaluations),
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
    best = min(
        (e for e in replay.evaluations if e.value_ms is not None),
        key=lambda e: e.value_ms or math.inf,
        default=None,
    )
    return {
        "seed": replay.seed,
        "best_ms": None if best is None else best.value_ms,
        "best_configuration": None if best is None else best.params,
        "evaluations_to": {
            str(share): replay.evaluations_to(share, recorded.best_ms) for share in TARGETS
        },
        "values_ms": [evaluation.value_ms for evaluation in replay.evaluations],
    }
