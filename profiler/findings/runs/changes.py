"""One cell in two runs, and everything that a comparison found about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profiler.analyse.between_runs import REFUSED_WORDS, Reason
from profiler.analyse.verdicts import FEWEST_BLOCKS
from profiler.comparison.programs import Program
from profiler.comparison.tuning import Retuned
from profiler.findings.runs.metrics import MetricChange
from profiler.model import Outcome, Verdict

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
    clock_ratio: float
    detectable: float
    blocks_older: int
    blocks_newer: int
    metrics: tuple[MetricChange, ...]
    """Every metric that both runs have."""
    retuned: tuple[Retuned, ...]
    """Operations for which a compiler's autotuner chose differently."""

    @property
    def why(self) -> str:
        """The reason for the verdict, or for none, in words."""
        return reason_words(self)

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


def reason_words(change: CellChange) -> str:
    """The reason for a verdict, or for none, as one sentence."""
    if change.reason in REFUSED_WORDS:
        return REFUSED_WORDS[change.reason]
    margin = f"\u00b1{change.margin:.2%}"
    blocks = f"{change.blocks_older} and {change.blocks_newer} blocks"
    seen = "" if math.isnan(change.detectable) else f"; would likely see {_size(change.detectable)}"
    words = {
        Reason.DECIDED: f"beyond {margin}",
        Reason.DECIDED_BY_TIME: f"beyond {margin}; the clock is not known",
        Reason.WITHIN_MARGIN: f"within {margin}{seen}",
        Reason.FEW_BLOCKS: f"{blocks}; a verdict needs {FEWEST_BLOCKS} on each side",
        Reason.MORE_BLOCKS_NEEDED: f"{blocks} do not tell it from {margin}{seen}",
        Reason.MANY_COMPARISONS: "would stand alone, but not as one of so many comparisons",
        Reason.CLOCK: f"the SM clock differs by up to {change.clock_floor:.1%} between the runs",
        Reason.CONTROLS_MOVED: (
            f"unchanged programs vary by {change.control_floor:.1%} between the runs"
        ),
        Reason.NO_CONTROL: "no baseline that is the same program in both runs",
        Reason.NOT_MEASURED: "no correct duration in one of the runs",
        Reason.CONTROL: "the baseline: its own shift between the runs",
    }
    return words[change.reason]


def _size(effect: float) -> str:
    """A relative effect: in percent, as a factor where it is above 100 %."""
    return f"{effect:.2%}" if effect <= 1 else f"{1 + effect:.3g}\N{MULTIPLICATION SIGN}"
