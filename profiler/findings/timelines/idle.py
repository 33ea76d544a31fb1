"""How long the device was idle in the timelines of the best variant and of the baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiler.findings.timelines.cells import Phase
from profiler.model import Cell

if TYPE_CHECKING:
    from profiler.findings.findings import Findings

BUSIER = 0.05
"""Share of the time by which a device must be busier, for that to tell why."""


@dataclass(frozen=True)
class IdleDifference:
    """A unit (a launch, or a step in it) of the best and of the baseline, by their timelines."""

    cell: Cell
    against: Cell
    unit: Phase
    other: Phase


def idle_difference(findings: Findings) -> IdleDifference | None:
    """The difference at the problem that takes longest.

    None without both timelines, and where the best keeps the device busier by less than BUSIER.
    """
    row = findings.ranking.leader
    problem = findings.ranking.largest_problem
    baseline = findings.programs.baseline
    if row is None or problem is None or baseline is None:
        return None
    cell, against = (
        findings.programs.by_place.get((variant.id, problem.id))
        for variant in (row.variant, baseline)
    )
    if cell is None or against is None:
        return None
    unit, other = _unit(findings, cell), _unit(findings, against)
    if unit is None or other is None or unit.busy_share - other.busy_share < BUSIER:
        return None
    return IdleDifference(cell, against, unit, other)


def _unit(findings: Findings, cell: Cell) -> Phase | None:
    """The whole unit of a cell's timeline; None without one, or without a busy share."""
    timeline = findings.timelines.by_cell.get(cell.id)
    unit = timeline.whole_unit if timeline else None
    return unit if unit is not None and math.isfinite(unit.busy_share) else None
