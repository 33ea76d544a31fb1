"""Evaluation of a proposal: blocks beside the baseline, fewer for a proposal that is behind."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from profiler.model import Outcome
from profiler.search.journal import Evaluated
from profiler.sessions.search.bench import Bench, Block, Subject, SubjectFailedError

BLOCKS = 4
"""Blocks of an evaluation that is not stopped early."""
LOOK_BLOCKS = 2
"""Blocks of another look at the best."""

LogRatios = Mapping[str, tuple[float, ...]]


def evaluate(bench: Bench, subject: Subject, is_behind: Callable[[LogRatios], bool]) -> Evaluated:
    """Result of a subject, checked and measured; `is_behind` is called between blocks.

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


def repeat_look(bench: Bench, subject: Subject) -> LogRatios | None:
    """Log ratios of a subject that was measured before; None where it fails now."""
    try:
        # The runner has forgotten it, and its result was checked when it was evaluated.
        blocks = [bench.block(subject, check=False) for _ in range(LOOK_BLOCKS)]
    except SubjectFailedError:
        return None
    finally:
        bench.forget(subject)
    return _log_ratios(blocks)


def _log_ratios(blocks: Sequence[Block]) -> dict[str, tuple[float, ...]]:
    """Logs of the subject's time divided by the baseline's, by problem and block."""
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
