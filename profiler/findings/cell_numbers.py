"""One number per cell and metric: of the final where the cell was in it, else of the blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from profiler.analyse.summary import SUMMARY_COLUMNS, summarise_finals
from profiler.findings.values import BLOCKS, FINAL, Value
from profiler.findings.verdicts import JUDGED, PairVerdict
from profiler.model import Cell, CellStatus
from profiler.run_folder.load.report import Report

NUMBER_COLUMNS = (*SUMMARY_COLUMNS, "source")
_FIELD_OF_COLUMN = {
    "baseline_median": "against_median",
    "ratio": "ratio",
    "ratio_low": "low",
    "ratio_high": "high",
}
"""Column of a number → field of the verdict that it is taken from."""


def block_numbers(report: Report, sources: Mapping[str, str]) -> pd.DataFrame:
    """The summary of the blocks in which every cell was measured: `NUMBER_COLUMNS`.

    `sources`: by id of a cell without samples of its own, the cell that was measured for it.
    """
    return _with_aliases(report, report.measured.summary, sources).assign(source=BLOCKS)


def final_numbers(
    report: Report, correct: Collection[str], sources: Mapping[str, str]
) -> pd.DataFrame:
    """The summary of the final, of correct cells: `NUMBER_COLUMNS`; empty where there was none."""
    summary = summarise_finals(
        report.measured.samples,
        cells=report.plan.cells,
        baseline=report.plan.baseline,
        ranked=list(correct),
    )
    summary = summary[summary["cell"].isin(list(correct))]
    return _with_aliases(report, summary, sources).assign(source=FINAL)


def _with_aliases(
    report: Report, summary: pd.DataFrame, sources: Mapping[str, str]
) -> pd.DataFrame:
    """Rows of a summary, and for each cell without any those of the cell measured for it."""
    summary = summary.reindex(columns=list(SUMMARY_COLUMNS))
    places = summary.groupby("cell", sort=False).indices
    shared = [
        summary.iloc[places[sources[cell.id]]].assign(cell=cell.id, variant=cell.variant.id)
        for cell in report.plan.cells
        if sources.get(cell.id) in places and cell.id not in places
    ]
    filled = [rows for rows in (summary, *shared) if len(rows)]
    return pd.concat(filled, ignore_index=True) if filled else summary


def one_number_per_cell(blocks: pd.DataFrame, final: pd.DataFrame) -> pd.DataFrame:
    """The rows of the final, and those of the blocks of which the final has none.

    In the order of `blocks`, so that cells and metrics stand as in the plan.
    """
    if final.empty:
        return blocks
    key = ["cell", "metric"]
    places = blocks[key].assign(place=range(len(blocks)))
    again = final.merge(places, on=key)
    first = blocks.assign(place=range(len(blocks)))
    first = first[~first["place"].isin(again["place"])]
    joined = pd.concat([first, again]).sort_values("place", kind="stable")
    return joined.drop(columns="place").reset_index(drop=True)[list(NUMBER_COLUMNS)]


def with_verdict_ratios(
    numbers: pd.DataFrame, against_baseline: Mapping[str, PairVerdict]
) -> pd.DataFrame:
    """The ratios of durations are those of their verdicts, so that each has one ratio."""
    judged = {cell: verdict for cell, verdict in against_baseline.items() if verdict.blocks}
    if not judged:
        return numbers
    frame = numbers.copy()
    rows = (frame["metric"] == JUDGED) & frame["cell"].isin(list(judged))
    cells = frame.loc[rows, "cell"]
    for column, name in _FIELD_OF_COLUMN.items():
        fields = {cell: getattr(verdict, name) for cell, verdict in judged.items()}
        frame.loc[rows, column] = cells.map(fields)
    return frame


def with_ranks(numbers: pd.DataFrame, metric: str, ranks: Mapping[str, float]) -> pd.DataFrame:
    """The frame in which cells have these ranks in one metric, and no other cell has one."""
    rows = numbers["metric"] == metric
    new_ranks = numbers["cell"].map(ranks).astype("float64")
    return numbers.assign(rank=numbers["rank"].where(~rows, new_ranks))


def values_of(numbers: pd.DataFrame) -> dict[tuple[str, str], Value]:
    """Values by (cell id, metric)."""
    frame = numbers.reindex(columns=["cell", "metric", *Value._fields])
    frame["n"] = frame["n"].fillna(0).astype(int)
    cells, metrics = (map(str, frame[column].tolist()) for column in ("cell", "metric"))
    values = map(Value, *(frame[name].tolist() for name in Value._fields))
    return dict(zip(zip(cells, metrics, strict=True), values, strict=True))


# ---- aliases -------------------------------------------------------------------------------------


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
