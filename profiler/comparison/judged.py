"""Verdicts on the durations of the cells that two runs share: a frame with a row per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import (
    BetweenRunsReason,
    compare_runs,
    control_floors,
    estimate_ratios,
    joint_floor,
    with_prior,
)
from profiler.analyse.judge import kernels_by_cell
from profiler.analyse.verdicts import (
    UNTIMED,
    make_unclear,
    overturned_by_launches,
    untimed_by_cell,
)
from profiler.collect.registry import has_counters
from profiler.comparison.programs import Machines, ProgramRelation, machines_of
from profiler.comparison.runs import ComparedRun, Timings
from profiler.model import Cell

Sources = tuple[str | None, str | None]
"""Collectors of the durations of both runs."""


def refusal_reason(
    older: ComparedRun, newer: ComparedRun, sources: Sources
) -> BetweenRunsReason | None:
    """Reason why the durations of two runs are not compared; None where they may be."""
    if None not in sources and sources[0] != sources[1]:
        return BetweenRunsReason.DIFFERENT_COLLECTORS
    first, second = older.report.environment, newer.report.environment
    if machines_of(first, second) is Machines.DIFFERENT:
        return BetweenRunsReason.DIFFERENT_MACHINES
    if first.clock_control != second.clock_control:
        return BetweenRunsReason.DIFFERENT_CLOCKS
    # Of other collectors nothing says when caches are emptied.
    flushed = sources[0] is None or has_counters(sources[0])
    if flushed and first.cache_control != second.cache_control:
        return BetweenRunsReason.DIFFERENT_CACHES
    return None


def find_control(
    older: ComparedRun,
    newer: ComparedRun,
    shared_cells: Sequence[Cell],
    programs_by_cell: Mapping[str, ProgramRelation],
) -> str | None:
    """The baseline, if it is the same program in both runs: the newer run's, else the older's."""
    for baseline in (newer.report.plan.baseline, older.report.plan.baseline):
        if any(
            programs_by_cell[cell.id].unchanged
            for cell in shared_cells
            if cell.variant.id == baseline
        ):
            return baseline
    return None


def judge_cells(
    times: tuple[Timings, Timings],
    pairs: pd.DataFrame,
    control: str | None,
    refused: BetweenRunsReason | None,
) -> pd.DataFrame:
    """Judge the durations of cells that two runs share; `pairs` is from `common_cells`.

    By cell id: `variant problem program` (ids), the columns of `compare_runs`, `controlled`
    (whether the ratio is that to the control), `older_ns newer_ns` (medians), `raw_ratio raw_low
    raw_high` of durations, and `clock_ratio`.
    """
    reference = _control_cells(pairs, control)
    relative = [run.relative(reference) for run in times]
    raw = [run.raw() for run in times]
    controlled = set(relative[0]["cell"]) & set(relative[1]["cell"])
    pairs["controlled"] = pairs.index.isin(list(controlled))
    reasons = _reasons_without_verdict(pairs, reference, refused)
    pairs["withheld"] = pd.Series(reasons, index=pairs.index, dtype=object)
    clock = pd.Series(times[1].clock / times[0].clock, dtype=float).reindex(pairs.index)
    pairs["clock_floor"] = _clock_floor(clock, pairs["problem"], reference)
    floors = [run.floors(control).reindex(pairs["problem"]).to_numpy() for run in times]
    pairs["noise_floor"] = joint_floor(*floors)
    older, newer = (
        _with_durations(ratios, plain, controlled)
        for ratios, plain in zip(relative, raw, strict=True)
    )
    # The controls' floors come from the shifts, and the shifts' verdicts from the floors.
    shorter = _shorter_ns(times, pairs, reference)
    controls = _control_floors(pairs, estimate_ratios(older, newer, pairs.index), shorter)
    with_floors = with_prior(controls, shorter.to_numpy(dtype=np.float64))
    # Only cells that get a verdict have two ratios to one control, which the floors hold for.
    judged = compare_runs(older, newer, pairs.join(with_floors.where(pairs["withheld"].isna())))
    raw_columns = _raw_columns(times, raw, pairs, clock)
    make_unclear(judged, _overturned(times, pairs, judged.join(raw_columns)))
    identity = pairs[["variant", "problem", "program", "controlled"]]
    return pd.concat([identity, judged, raw_columns], axis=1)


def _overturned(
    times: tuple[Timings, Timings], pairs: pd.DataFrame, judged: pd.DataFrame
) -> pd.Series[Any]:
    """Reasons of the cells whose verdict on added kernels may not hold for whole launches."""
    older, newer = (kernels_by_cell(run.blocks).reindex(pairs.index) for run in times)
    # The same program overlaps, waits and copies in both runs alike.
    is_other = np.array([not program.unchanged for program in pairs["program"]])
    untimed = {
        f"{prefix}{name}": pairs[f"{run}{name}"].where(is_other)
        for run, prefix in (("newer_", ""), ("older_", "against_"))
        for name in UNTIMED
    }
    launches = judged.assign(
        **untimed, median=judged["newer_ns"], against_median=judged["older_ns"]
    ).join([newer, older.add_prefix("against_")])
    return overturned_by_launches(launches).map(BetweenRunsReason)


def common_cells(
    older: ComparedRun,
    newer: ComparedRun,
    shared_cells: Sequence[Cell],
    programs_by_cell: Mapping[str, ProgramRelation],
) -> pd.DataFrame:
    """One row per common cell: its `variant problem program family measured_as`, and more.

    `measured_as` is the variant whose samples a cell has: another variant where both variants are
    one program. With `older_` and `newer_` before them, the columns UNTIMED of both runs.
    """
    ids = pd.Index([cell.id for cell in shared_cells], name="cell")
    variants = {cell.id: cell.variant.id for cell in shared_cells}
    owners = [
        older.report.statuses[cell].duplicate_of or newer.report.statuses[cell].duplicate_of
        for cell in ids
    ]
    table = pd.DataFrame(
        {
            "variant": [cell.variant.id for cell in shared_cells],
            "problem": [cell.problem.id for cell in shared_cells],
            # As objects: pandas would make plain strings of them, and NaN of None.
            "program": pd.Series([programs_by_cell[cell] for cell in ids], index=ids, dtype=object),
            "family": [cell.problem.id for cell in shared_cells],
            "measured_as": [
                variants.get(owner or cell, owner) for cell, owner in zip(ids, owners, strict=True)
            ],
        },
        index=ids,
    )
    untimed = (
        untimed_by_cell(run.report.statuses, run.report.environment) for run in (older, newer)
    )
    return table.join(
        [facts.add_prefix(run) for run, facts in zip(("older_", "newer_"), untimed, strict=True)]
    )


def _raw_columns(
    times: tuple[Timings, Timings],
    raw: Sequence[pd.DataFrame],
    pairs: pd.DataFrame,
    clock: pd.Series[Any],
) -> pd.DataFrame:
    """Durations as they are: medians of both runs and their quotient, whatever shifted the runs.

    The quotient's interval is that of the trimmed means, widened to contain the quotient.
    """
    plain = estimate_ratios(raw[0], raw[1], pairs.index)
    older, newer = (run.median.reindex(pairs.index) for run in times)
    quotient = newer / older
    return pd.DataFrame(
        {
            "older_ns": older,
            "newer_ns": newer,
            "raw_ratio": quotient,
            "raw_low": plain["ratio_low"].clip(upper=quotient),
            "raw_high": plain["ratio_high"].clip(lower=quotient),
            "clock_ratio": clock,
        },
        index=pairs.index,
    )


def _control_cells(pairs: pd.DataFrame, control: str | None) -> Mapping[str, str]:
    """Cell id of the control by problem, where it is the same program in both runs."""
    rows = pairs[pairs["variant"] == control]
    return {
        problem: str(cell)
        for cell, problem, program in zip(rows.index, rows["problem"], rows["program"], strict=True)
        if program.unchanged
    }


def _reasons_without_verdict(
    pairs: pd.DataFrame, reference: Mapping[str, str], refused: BetweenRunsReason | None
) -> list[BetweenRunsReason | None]:
    """Reason why each cell gets no verdict; None for cells that get a verdict."""
    if refused is not None:
        return [refused] * len(pairs)
    controls = set(reference.values())
    reasons: list[BetweenRunsReason | None] = []
    for cell, controlled in zip(pairs.index, pairs["controlled"], strict=True):
        if cell in controls:
            reasons.append(BetweenRunsReason.CONTROL)
        else:
            reasons.append(None if controlled else BetweenRunsReason.NO_CONTROL)
    return reasons


def _clock_floor(
    clock: pd.Series[Any], problems: pd.Series[Any], reference: Mapping[str, str]
) -> pd.Series[Any]:
    """Shift of the SM clock: under the cell, under its control, or between the two.

    The largest of these: shifts in opposite directions add in a ratio to the control.
    """
    shift = np.log(clock)
    by_problem = {problem: shift.get(cell, np.nan) for problem, cell in reference.items()}
    control_shift = problems.map(by_problem).astype(float)
    shifts = (shift, control_shift, shift - control_shift)
    return pd.Series(np.fmax.reduce([size.abs() for size in shifts]), index=clock.index)


def _shorter_ns(
    times: tuple[Timings, Timings], pairs: pd.DataFrame, reference: Mapping[str, str]
) -> pd.Series[Any]:
    """Shortest of the medians of each cell and of its control, of both runs."""
    medians = [run.median for run in times]
    control_cells = pairs["problem"].map(reference)
    durations = [median.reindex(pairs.index).to_numpy() for median in medians]
    durations += [median.reindex(control_cells).to_numpy() for median in medians]
    return pd.Series(np.fmin.reduce(durations), index=pairs.index)


def _control_floors(
    pairs: pd.DataFrame, estimates: pd.DataFrame, shorter_ns: pd.Series[Any]
) -> pd.DataFrame:
    unchanged = np.array([program.unchanged for program in pairs["program"]])
    is_measured = (pairs["variant"] == pairs["measured_as"]).to_numpy()
    return control_floors(
        pd.DataFrame(
            {
                "variant": pairs["measured_as"],
                "problem": pairs["problem"],
                "shift": np.log(estimates["ratio"]),
                "error": estimates["error"],
                "shorter_ns": shorter_ns,
                "control": unchanged & is_measured & pairs["withheld"].isna().to_numpy(),
            },
            index=pairs.index,
        )
    )


def _with_durations(
    relative: pd.DataFrame, raw: pd.DataFrame, controlled: Set[str]
) -> pd.DataFrame:
    """Ratios to the control where a cell has one in both runs; durations elsewhere."""
    return pd.concat(
        [
            relative[relative["cell"].isin(list(controlled))],
            raw[~raw["cell"].isin(list(controlled))],
        ],
        ignore_index=True,
    )
