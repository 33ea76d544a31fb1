"""What a compiler's autotuner chose in two runs: the same source may become another program."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.comparison.sides import Side
from profiler.model import Params


@dataclass(frozen=True)
class Chosen:
    """One choice of the autotuner: a name where it chose between several makers, and settings."""

    choice: str
    config: Params


@dataclass(frozen=True)
class Retuned:
    """One kernel or operation of a cell for which two runs chose otherwise."""

    operation: str
    older: tuple[Chosen, ...]
    """What ran; several where several kernels have one name, none where it was not there."""
    newer: tuple[Chosen, ...]

    @property
    def differing(self) -> tuple[tuple[str, object, object], ...]:
        """Settings that differ, older and newer (None: not there), where one choice met another.

        Empty where the kernels themselves are others, or another maker was chosen.
        """
        if len(self.older) != 1 or len(self.newer) != 1:
            return ()
        (older,), (newer,) = self.older, self.newer
        if older.choice != newer.choice:
            return ()
        names = dict.fromkeys((*newer.config, *older.config))
        both = ((name, older.config.get(name), newer.config.get(name)) for name in names)
        return tuple(one for one in both if one[1] != one[2])


def retuned(older: Side, newer: Side, cell: str) -> tuple[Retuned, ...]:
    """Operations of a cell (id) for which the two runs chose otherwise, or which only one has.

    Empty as well where one of the runs did not record what was tuned.
    """
    before, after = (_chosen(side, cell) for side in (older, newer))
    if not before or not after:
        return ()
    operations = dict.fromkeys((*after, *before))
    found = (Retuned(one, before.get(one, ()), after.get(one, ())) for one in operations)
    return tuple(one for one in found if one.older != one.newer)


def _chosen(side: Side, cell: str) -> dict[str, tuple[Chosen, ...]]:
    """What runs, by operation; of several kernels of one name in an order that says nothing."""
    status = side.report.statuses.get(cell)
    found: dict[str, tuple[Chosen, ...]] = {}
    for each in () if status is None else status.tuned:
        if each.best:
            chosen = Chosen(each.choice, each.config)
            found[each.operation] = (*found.get(each.operation, ()), chosen)
    return {name: tuple(sorted(chosen, key=str)) for name, chosen in found.items()}
