"""Variants that are the same program as another: measured once, and one row with two names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from profiler.model import Cell, CellStatus


def alias_variants(cells: Sequence[Cell], statuses: Mapping[str, CellStatus]) -> Mapping[str, str]:
    """Id of the measured variant by the id of each variant whose every cell is an alias of its."""
    variant_of = {cell.id: cell.variant.id for cell in cells}
    owners: dict[str, set[str | None]] = {}
    for cell in cells:
        status = statuses.get(cell.id)
        owner = status.duplicate_of if status else None
        owners.setdefault(cell.variant.id, set()).add(variant_of.get(owner or ""))
    return {
        variant: owner
        for variant, candidates in owners.items()
        if len(candidates) == 1
        and (owner := next(iter(candidates))) is not None
        and owner != variant
    }


def sample_sources(
    cells: Sequence[Cell], statuses: Mapping[str, CellStatus], measured: Collection[str]
) -> Mapping[str, str]:
    """Id of the cell that was measured, by the id of each alias that has no samples of its own."""
    return {
        cell.id: status.duplicate_of
        for cell in cells
        if cell.id not in measured
        and (status := statuses.get(cell.id)) is not None
        and status.duplicate_of
    }
