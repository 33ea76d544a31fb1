"""The distinct programs of a run, their names, and which of their cells are correct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.findings.variant_names import Names
from profiler.model import Cell, CellStatus, Outcome, Plan, Problem, Variant


@dataclass(frozen=True, eq=False)
class Programs:
    """The distinct programs of a run, their names, and which of their cells are correct.

    Variants that are the same program as another are no variants here: they are names of that one
    (`aliases`), so that a program has one row and one place.
    """

    plan: Plan
    """With a label of each variant (`Variant.label`) and a short name of each problem."""
    statuses: Mapping[str, CellStatus]
    """Outcome of every cell of the plan, by its id."""
    names: Names
    """Labels of all variants, aliases too, with their parts, and what all of them share."""
    owners: Mapping[str, str]
    """Id of the measured variant by the id of each alias."""
    baseline: Variant | None

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Problems in the order of the plan."""
        return self.plan.problems

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Distinct programs, in the order of the plan."""
        return tuple(variant for variant in self.plan.variants if variant.id not in self.owners)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Label of every variant of the plan, aliases too, by its id."""
        return {variant.id: variant.label for variant in self.plan.variants}

    @cached_property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """Further names of a variant, by its id; only of those that have any."""
        by_owner: dict[str, tuple[str, ...]] = {}
        for alias, owner in self.owners.items():
            by_owner[owner] = (*by_owner.get(owner, ()), self.labels[alias])
        return by_owner

    @cached_property
    def references(self) -> frozenset[str]:
        """Ids of the variants that are never called the best: the baseline and its like."""
        reference_ids = self.plan.references
        return frozenset((*reference_ids, self.baseline.id) if self.baseline else reference_ids)

    @cached_property
    def rivals(self) -> tuple[Variant, ...]:
        """Variants that are no references, in the order of the plan."""
        return tuple(variant for variant in self.variants if variant.id not in self.references)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of `variants`, in the order of the plan."""
        return tuple(cell for cell in self.plan.cells if cell.variant.id not in self.owners)

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str], Cell]:
        """Cells of `variants` by (variant id, problem id)."""
        return {(cell.variant.id, cell.problem.id): cell for cell in self.cells}

    @cached_property
    def correct_cells(self) -> Mapping[str, Cell]:
        """Cells that were measured and gave a right result, by id."""
        return {cell.id: cell for cell in self.cells if self.correct(cell)}

    @cached_property
    def correct_by_place(self) -> Mapping[tuple[str, str], Cell]:
        """Cells with a right result by (variant id, problem id)."""
        return {place: cell for place, cell in self.by_place.items() if self.correct(cell)}

    def at(self, variant: Variant | None, problem: Problem | None) -> Cell | None:
        """The cell of a variant at a problem; None where none is planned."""
        return self.by_place.get((variant.id, problem.id)) if variant and problem else None

    def correct_at(self, variant: Variant | None, problem: Problem | None) -> Cell | None:
        """The cell of a variant at a problem, if its result is right."""
        cell = self.at(variant, problem)
        return cell if self.correct(cell) else None

    @cached_property
    def planned(self) -> Mapping[str, frozenset[str]]:
        """Ids of the problems that each variant is planned for, by variant id."""
        problems: dict[str, set[str]] = {}
        for variant, problem in self.by_place:
            problems.setdefault(variant, set()).add(problem)
        return {variant: frozenset(ids) for variant, ids in problems.items()}

    @cached_property
    def marks(self) -> Mapping[str, int]:
        """Index of each variant by id: how the page's script knows it."""
        return {variant.id: index for index, variant in enumerate(self.variants)}

    @cached_property
    def problem_numbers(self) -> Mapping[str, int]:
        """Index of each problem by id, in the order of the plan."""
        return {problem.id: index for index, problem in enumerate(self.problems)}

    @cached_property
    def cell_numbers(self) -> Mapping[str, int]:
        """Index of each distinct cell by id."""
        return {cell.id: index for index, cell in enumerate(self.cells)}

    def status(self, cell: Cell) -> CellStatus:
        """Outcome of a cell of the plan; that of one that nobody reports on is not measured."""
        return self.statuses[cell.id]

    def correct(self, cell: Cell | None) -> bool:
        """Whether a cell may be ranked: it was measured and its result was right."""
        return cell is not None and self.status(cell).outcome.correct

    def tried(self, cell: Cell | None) -> bool:
        """Whether a cell was measured or failed; a part of a run need not have all."""
        return cell is not None and self.status(cell).outcome is not Outcome.NOT_MEASURED

    def source(self, cell: Cell) -> str:
        """Id of the cell that was measured: another's where this one has its machine code."""
        return self.status(cell).duplicate_of or cell.id

    def outcome_counts(self) -> Mapping[Outcome, int]:
        """Count the cells of the plan by outcome, aliases too, in the order of `Outcome`."""
        outcomes = [self.status(cell).outcome for cell in self.plan.cells]
        return {outcome: outcomes.count(outcome) for outcome in Outcome if outcome in outcomes}

    def measured_count(self) -> int:
        """Count the cells of the plan that have a number to show."""
        return sum(self.correct(cell) for cell in self.plan.cells)


# ---- aliases -------------------------------------------------------------------------------------


def alias_variants(cells: Sequence[Cell], statuses: Mapping[str, CellStatus]) -> Mapping[str, str]:
    """Id of the measured variant by the id of each variant whose every cell is an alias of its."""
    variant_of = {cell.id: cell.variant.id for cell in cells}
    owners: dict[str, set[str | None]] = {}
    for cell in cells:
        original = statuses[cell.id].duplicate_of or ""
        owners.setdefault(cell.variant.id, set()).add(variant_of.get(original))
    return {
        variant: owner
        for variant, candidates in owners.items()
        if len(candidates) == 1
        and (owner := next(iter(candidates))) is not None
        and owner != variant
    }
