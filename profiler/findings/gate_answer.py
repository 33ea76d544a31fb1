"""What a gate found: two revisions cell by cell, and what tells the machine from the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.findings.gates import Gate
from profiler.findings.verdicts import PairVerdict
from profiler.history.trends import History, by_usual, moved_together
from profiler.model import Verdict


@dataclass(frozen=True)
class GateRow:
    """One cell at both revisions."""

    variant: str
    problem: str
    pair: PairVerdict
    """The newest revision against the oldest."""
    trips: bool

    @property
    def verdict(self) -> Verdict:
        """NO DATA where none was given."""
        return self.pair.verdict or Verdict.NO_DATA


@dataclass(frozen=True)
class GateControls:
    """What tells the machine from the kernel."""

    moved_together: tuple[tuple[int, float], ...] = ()
    """How many cells moved to one side, and their mean ratio, where most did."""
    noise_floor: float | None = None
    """A/A: by how much the base strays from itself in this session; None where it is not known."""
    by_usual: float | None = None
    """The base's times by those that its cells had in earlier runs on such a machine; None without
    any."""
    earlier_runs: int = 0


@dataclass(frozen=True)
class GateAnswer:
    """What a gate found."""

    experiment: str
    base: str
    head: str
    """Commits in words."""
    machine: str
    gate: Gate
    rows: tuple[GateRow, ...]
    same: tuple[str, ...]
    """Variants of the same sources, which were not measured."""
    left_out: str
    """What the budget had no time for; empty where it had."""
    controls: GateControls

    @property
    def tripped(self) -> tuple[GateRow, ...]:
        """The rows that trip the gate."""
        return tuple(row for row in self.rows if row.trips)


def find_controls(rows: Sequence[GateRow], history: History | None) -> GateControls:
    """Controls of a gate; `history`: earlier runs of its cells on such a machine."""
    moved = [row.pair.ratio for row in rows if row.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    floors = [row.pair.noise_floor for row in rows if math.isfinite(row.pair.noise_floor)]
    times = {(row.variant, row.problem): row.pair.against_median for row in rows}
    return GateControls(
        moved_together=tuple(moved_together(moved, len(rows))),
        noise_floor=max(floors, default=None),
        by_usual=None if history is None else by_usual(times, history),
        earlier_runs=0 if history is None else len(history.runs),
    )
