"""Number of launches of a plan in its looks and its confirmation.

A launch is a visit: one run of one cell in one block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from profiler.collect.registry import is_judged
from profiler.model import FEWEST_BLOCKS, FEWEST_TO_CONFIRM, Plan, SessionKind

GO_ON = 0.1
"""Share of the cells of a problem that is expected to go on to each later look, and to the final.
It is 10 % in the recorded sweep of softmax and 14 % in the autotuning; more where most versions are
questions of their own, as in a progression."""
LAST_OF_RACE = 1
"""Look (from 0) whose blocks are the last that tell which variants are confirmed.

In six recorded sweeps 16 blocks more left 209 of 224 finalists, for as many visits as the
confirmation has."""
GO_ON_LAST = 0.03
"""The same share after it, where others than those that may be the best go on: 2 to 4 %."""

MOST_EXPLAINED = 6
"""Cells that are explained, but for those that are asked for: each takes seconds."""
MOST_FINALISTS = 8
"""Finalists of a problem. More that cannot be told apart are a tie whatever a final says, and each
costs as many visits as a block of the first look."""


class ExpectedLaunches(NamedTuple):
    """Expected and largest number of launches of one part of a run."""

    part: str
    expected: int
    most: int


@dataclass(frozen=True)
class _Field:
    """Numbers of cells of one problem, by their role."""

    rivals: int
    references: int
    """Whether the baseline is among the references."""
    baseline: bool

    @property
    def is_confirmed(self) -> bool:
        """Whether the problem has a confirmation."""
        return self.rivals > 0 and self.rivals + self.references >= FEWEST_TO_CONFIRM

    def visits(self, rivals: int, references: int) -> int:
        """Visits of one block with so many cells; the block has the baseline twice."""
        return rivals + references + int(self.baseline)


def launches_note(plan: Plan) -> str:
    """Assumption behind the expected launches; empty with one look."""
    if len(plan.looks) < 2:
        return ""
    later = len(plan.looks) > 1 + LAST_OF_RACE and plan.has_final
    last = f", {GO_ON_LAST:.0%} to the third" if later else ""
    return f"Expected: {GO_ON:.0%} of the cells go on to each later look{last}."


def launch_counts(plan: Plan) -> tuple[ExpectedLaunches, ...]:
    """Launches of each part of a plan; last the sum of all parts."""
    first = _visits_of(plan, SessionKind.TIMING)
    recorded = _visits_of(plan, SessionKind.TIMELINE)
    stamped = _visits_of(plan, SessionKind.IN_KERNEL)
    counter_visits = (
        sum(len(session.visits) for session in plan.sessions) - first - recorded - stamped
    )
    blocks = f"{plan.looks[0]} blocks" if plan.looks else "all blocks"
    parts = [ExpectedLaunches(f"first look, {blocks} of every cell", first, first)]
    parts += after_first_look(plan)
    if counter_visits:
        parts.append(ExpectedLaunches("counters", counter_visits, counter_visits))
    if recorded:
        parts.append(ExpectedLaunches("timelines, each of several in a row", recorded, recorded))
    if stamped:
        parts.append(
            ExpectedLaunches("in-kernel timelines, of kernels with stamps", stamped, stamped)
        )
    total = ExpectedLaunches("together", sum(p.expected for p in parts), sum(p.most for p in parts))
    return (*parts, total)


def after_first_look(plan: Plan) -> list[ExpectedLaunches]:
    """Launches of the later looks and of the confirmation; empty where no session is judged."""
    if not any(is_judged(plan, session) for session in plan.sessions):
        return []
    return [*_later_looks(plan), *_finals(plan)]


def _visits_of(plan: Plan, kind: SessionKind) -> int:
    return sum(len(session.visits) for session in plan.sessions if session.kind is kind)


def _later_looks(plan: Plan) -> Iterator[ExpectedLaunches]:
    fields = _fields(plan)
    for look, (before, after) in enumerate(itertools.pairwise(plan.looks), start=1):
        share = GO_ON_LAST if look > LAST_OF_RACE and plan.has_final else GO_ON
        expected = sum(
            field.visits(_expected_cells(field.rivals, share), int(field.baseline))
            for field in fields
        )
        most = sum(field.visits(field.rivals, field.references) for field in fields)
        added = after - before
        title = f"blocks {before + 1} to {after} of cells whose question is open"
        yield ExpectedLaunches(title, expected * added, most * added)


def _finals(plan: Plan) -> Iterator[ExpectedLaunches]:
    if min(plan.final_blocks, plan.looks[-1] if plan.looks else 0) < FEWEST_BLOCKS:
        return
    fields = [field for field in _fields(plan) if field.is_confirmed]
    expected = most = 0
    for field in fields:
        finalists = min(field.rivals, MOST_FINALISTS)
        expected += field.visits(min(_expected_cells(field.rivals), finalists), field.references)
        most += field.visits(finalists, field.references)
    if most:
        title = f"confirmation, {plan.final_blocks} blocks of the finalists and references"
        yield ExpectedLaunches(title, expected * plan.final_blocks, most * plan.final_blocks)


def _expected_cells(cells: int, share: float = GO_ON) -> int:
    return math.ceil(share * cells)


def _fields(plan: Plan) -> list[_Field]:
    """Numbers of rivals and references of each problem with more than one cell."""
    reference_ids = {*plan.references, plan.baseline}
    variants: dict[str, list[str]] = {}
    for cell in plan.cells:
        variants.setdefault(cell.problem.id, []).append(cell.variant.id)
    fields = [
        _Field(
            rivals=sum(variant not in reference_ids for variant in ids),
            references=sum(variant in reference_ids for variant in ids),
            baseline=plan.baseline in ids,
        )
        for ids in variants.values()
    ]
    # A single cell at a problem has nothing to compare, so no later looks.
    return [field for field in fields if field.rivals + field.references >= 2]
