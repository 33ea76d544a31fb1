"""One cell in two runs, and everything that a comparison found about it."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.analyse.between_runs import REFUSED_WORDS, Reason
from profiler.comparison.programs import Program
from profiler.comparison.tuning import Retuned
from profiler.findings.runs.metrics import MetricChange
from profiler.model import Outcome, Verdict

__all__ = ["CellChange", "Reason"]

MOST_MOVED = 3
"""Counters of a cell that are named beside its verdict."""


@dataclass(frozen=True)
class CellChange:
    """A cell of the newer run relative to the older one. Ratios are newer ÷ older; NaN is missing.

    Margin, floors and `detectable` are relative effects: 0.0123 is 1.23 %.
    """

    cell: str
    variant: str
    problem: str
    verdict: Verdict | None
    """None where no verdict may be given."""
    reason: Reason
    program: Program
    is_control: bool
    """Whether it is a cell of the variant that the ratios are relative to."""
    controlled: bool
    """Whether `ratio` is that of the ratios to the control; else it is that of the durations."""
    older_outcome: Outcome
    newer_outcome: Outcome
    older_ns: float
    newer_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float
    raw_ratio: float
    """Of the durations, whatever moved all durations of a run."""
    raw_low: float
    raw_high: float
    margin: float
    noise_floor: float
    clock_floor: float
    control_floor: float
    session_floor: float
    clock_ratio: float
    detectable: float
    blocks_older: int
    blocks_newer: int
    metrics: tuple[MetricChange, ...]
    """Every metric that both runs have."""
    retuned: tuple[Retuned, ...]
    """Operations for which a compiler's autotuner chose differently."""

    @property
    def refused_words(self) -> str:
        """Why the durations of the runs have no verdicts, in words; empty where they have."""
        return REFUSED_WORDS.get(self.reason, "")

    @property
    def other_code(self) -> bool:
        """Whether other code ran in the newer run."""
        return self.program.other_code

    @property
    def decided(self) -> bool:
        """Whether it is FASTER or SLOWER."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def changed_facts(self) -> tuple[MetricChange, ...]:
        """Static facts that differ."""
        return tuple(change for change in self.metrics if change.fact_changed)

    @property
    def moved_counters(self) -> tuple[MetricChange, ...]:
        """Counters that moved, those that moved most first."""
        moved = (change for change in self.metrics if change.moved)
        return tuple(sorted(moved, key=lambda change: -change.size))

    @property
    def most_telling(self) -> tuple[MetricChange, ...]:
        """Facts that differ, and the counters that moved most."""
        return (*self.changed_facts, *self.moved_counters[:MOST_MOVED])
