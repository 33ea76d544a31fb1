"""Every cell against each of the named baselines that a reader can switch between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.analyse.judge import Pair
from profiler.findings.values import NAN, Value
from profiler.findings.verdicts import NO_VERDICT, PairVerdict, PairVerdicts
from profiler.model import Cell, Variant

OtherOf = Callable[[Cell], Cell | None]
"""The cell that a correct cell is compared with."""


@dataclass(frozen=True)
class NamedBaseline:
    """One baseline by its name, and every cell of the plan compared with it."""

    key: str
    """`reference`, `best`, `first` or `previous`."""
    variant: Variant | None
    """The variant of `reference` and `first`; None where it differs by cell or problem."""
    verdicts: Mapping[str, PairVerdict]
    """By cell id; NaN where a cell may not be compared."""
    others: Mapping[str, str | None]
    """By cell id: id of the cell that it is compared with."""


def others_of(
    cells: Sequence[Cell], correct: Mapping[str, Cell], other_of: OtherOf
) -> dict[str, Cell | None]:
    """Cell to compare with by cell id, where both have a correct result."""
    others = {}
    for cell in cells:
        other = other_of(cell) if cell.id in correct else None
        others[cell.id] = other if other is not None and other.id in correct else None
    return others


def pairs_with(others: Mapping[str, Cell | None]) -> tuple[Pair, ...]:
    """The pairs to judge; a cell is not compared with itself."""
    return tuple((cell, other.id) for cell, other in others.items() if other and other.id != cell)


def make_baseline(
    key: str,
    variant: Variant | None,
    others: Mapping[str, Cell | None],
    verdicts: PairVerdicts,
    values: Mapping[str, Value],
) -> NamedBaseline:
    """A named baseline; `values` are those of the metric that decides, by cell id."""
    return NamedBaseline(
        key=key,
        variant=variant,
        verdicts={
            cell: NO_VERDICT
            if other is None
            else _with_ratio(
                verdicts.of(cell, other.id), values.get(cell, Value()), values.get(other.id)
            )
            for cell, other in others.items()
        },
        others={cell: other.id if other else None for cell, other in others.items()},
    )


def _with_ratio(verdict: PairVerdict, value: Value, other: Value | None) -> PairVerdict:
    """A verdict; without blocks that both have, the ratio of the medians."""
    if not math.isnan(verdict.ratio):
        return verdict
    below = other.median if other is not None else NAN
    usable = math.isfinite(below) and below
    return replace(verdict, ratio=value.median / below if usable else NAN)
