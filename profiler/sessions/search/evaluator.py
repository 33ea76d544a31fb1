"""What a proposal is measured with, and a batch of proposals on one GPU.

A proposal: some blocks beside the baseline, fewer where it is behind. A batch: the incumbent first,
then each candidate.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from profiler.model import Outcome
from profiler.search.estimates import Estimate, Noise, block_values, estimate
from profiler.search.journal import Evaluated
from profiler.sessions.search.bench import Bench, Block, Subject, SubjectFailedError

BLOCKS = 4
"""Blocks of an evaluation that is not stopped early."""
LOOK_BLOCKS = 2
"""Blocks of another look at the best."""

LogRatios = Mapping[str, tuple[float, ...]]


def evaluate(bench: Bench, subject: Subject, is_behind: Callable[[LogRatios], bool]) -> Evaluated:
    """Check and measure a subject; `is_behind` is asked after each block but the last.

    A wrong result, an error or the end of the runner is a result.
    """
    began = time.monotonic()
    blocks: list[Block] = []
    try:
        while len(blocks) < BLOCKS:
            if blocks and is_behind(_log_ratios(blocks)):
                break
            blocks.append(bench.block(subject, check=True))
    except SubjectFailedError as failure:
        bench.forget(subject)
        seconds = time.monotonic() - began
        return Evaluated(subject.variant, failure.outcome, failure.cause, measured_s=seconds)
    bench.forget(subject)
    return Evaluated(
        subject.variant,
        Outcome.MEASURED,
        log_ratios=_log_ratios(blocks),
        duration_ns=_medians(blocks),
        stopped_early=len(blocks) < BLOCKS,
        measured_s=time.monotonic() - began,
    )


def look_again(bench: Bench, subject: Subject) -> LogRatios | None:
    """Blocks of a subject that was measured before; None where it fails now."""
    try:
        # The runner has forgotten it, and its result was checked when it was evaluated.
        blocks = [bench.block(subject, check=False) for _ in range(LOOK_BLOCKS)]
    except SubjectFailedError:
        return None
    finally:
        bench.forget(subject)
    return _log_ratios(blocks)


def _log_ratios(blocks: Sequence[Block]) -> dict[str, tuple[float, ...]]:
    """By problem, of each block: log of the subject's time divided by the baseline's."""
    return {
        problem: tuple(
            math.log(block.subject_ns[problem] / block.baseline_ns[problem]) for block in blocks
        )
        for problem in blocks[0].subject_ns
    }


def _medians(blocks: Sequence[Block]) -> dict[str, float]:
    return {
        problem: statistics.median(block.subject_ns[problem] for block in blocks)
        for problem in blocks[0].subject_ns
    }


@dataclass
class BestHere:
    """The best of a batch: candidates are compared with what the same GPU measured."""

    objective: str
    noise: Noise
    """Noise of the whole search."""
    _best: Estimate | None = None

    def take(self, variant: str, log_ratios: LogRatios) -> None:
        """Take what was measured of a variant."""
        if values := block_values(log_ratios, self.objective):
            measured = estimate(variant, [values], self.noise)
            if self._best is None or measured.value < self._best.value:
                self._best = measured

    def is_ahead(self, log_ratios: LogRatios) -> bool:
        """Whether a candidate of which these blocks were measured is clearly behind."""
        values = block_values(log_ratios, self.objective)
        if self._best is None or not values:
            return False
        return estimate("", [values], self.noise).is_behind(self._best)


def evaluate_batch(  # noqa: PLR0913 - all but the first by keyword
    bench: Bench,
    *,
    incumbent: Subject | None,
    candidates: Sequence[Subject],
    best: BestHere,
    on_look: Callable[[LogRatios], None],
    on_evaluated: Callable[[Evaluated], None],
) -> None:
    """Measure a batch; each result is given on as soon as it is there."""
    if incumbent is not None:
        looked = look_again(bench, incumbent)
        if looked is not None:
            best.take(incumbent.variant, looked)
            on_look(looked)
    for candidate in candidates:
        evaluated = evaluate(bench, candidate, best.is_ahead)
        if evaluated.outcome is Outcome.MEASURED:
            best.take(candidate.variant, evaluated.log_ratios)
        on_evaluated(evaluated)
