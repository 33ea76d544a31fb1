"""What a compiler's autotuner chose in two runs: the same source may become another program."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.comparison.sides import Side
from profiler.model import Params


@dataclass(frozen=True)
class Retuned:
    """One kernel or operation of a cell for which the two runs chose different configurations."""

    operation: str
    older: Params
    newer: Params

    @property
    def differing(self) -> tuple[str, ...]:
        """Settings in which the two differ, in the order of the newer run."""
        names = dict.fromkeys((*self.newer, *self.older))
        return tuple(
            name
            for name in names
            if (name in self.older, self.older.get(name))
            != (name in self.newer, self.newer.get(name))
        )


def retuned(older: Side, newer: Side, cell: str) -> tuple[Retuned, ...]:
    """Operations of a cell that were tuned in both runs, and otherwise; by id of the cell.

    Empty as well where one of the runs did not record what was tuned.
    """
    before, after = (_chosen(side, cell) for side in (older, newer))
    return tuple(
        Retuned(operation, before[operation], config)
        for operation, config in after.items()
        if operation in before and before[operation] != config
    )


def _chosen(side: Side, cell: str) -> dict[str, Params]:
    """The configuration that runs, by operation."""
    status = side.report.statuses.get(cell)
    tuned = () if status is None else status.tuned
    return {each.operation: each.config for each in tuned if each.best}
