"""A newer run relative to an older one, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import Reason, compare_runs, control_floors, joint_floor
from profiler.comparison.facts import common_metrics
from profiler.comparison.machines import Machines, machines_of
from profiler.comparison.programs import Program, programs
from profiler.comparison.sides import Side, outcome
from profiler.comparison.timings import Timings, common_source, timings
from profiler.comparison.tuning import Retuned, retuned
from profiler.errors import UsageError
from profiler.model import Cell, Environment


@dataclass(frozen=True, eq=False)
class Step:
    """A newer run relative to an older one."""

    older: int
    newer: int
    """Places of the two in the comparison."""
    machines: Machines
    withheld: Reason | None
    """Why no duration has a verdict; None where durations may be compared."""
    control: str | None
    """Id of the variant that the ratios are relative to in both runs."""
    cells: pd.DataFrame
    """One row per cell of both, by cell id: `variant problem` (ids), the columns of `compare_runs`,
    `controlled` (whether the ratio is that to the control), `older_ns newer_ns` (medians),
    `raw_ratio raw_low raw_high` of durations, `clock_ratio`, `program`, and both outcomes."""
    metrics: pd.DataFrame
    """One row per cell and metric that both have: `cell metric older newer`."""
    retuned: Mapping[str, tuple[Retuned, ...]]
    """Cells (ids) for which a compiler's autotuner chose otherwise, with what it chose."""
    only_older: tuple[str, ...]
    only_newer: tuple[str, ...]


def step_between(sides: Sequence[Side], number: int) -> Step:
    """Compare the run at `number + 1` with the one before it; UsageError without common cells."""
    older, newer = sides[number], sides[number + 1]
    known = [{cell.id: cell for cell in side.report.plan.cells} for side in (older, newer)]
    both = [cell for name, cell in known[1].items() if name in known[0]]
    if not both:
        raise UsageError(
            f"{older.name} and {newer.name} have no cell in common.",
            remedy="Cells are joined by variant and problem: compare runs of one experiment.",
        )
    source, withheld = _source(older, newer)
    times = timings(older, source[0]), timings(newer, source[1])
    same = programs(older, newer, both)
    control = None if withheld else _control(older, newer, both, same)
    cells = _compared(times, _pairs(older, newer, both, same), control, withheld)
    for name, side in (("older_outcome", older), ("newer_outcome", newer)):
        cells[name] = [outcome(side, cell) for cell in cells.index]
    return Step(
        older=number,
        newer=number + 1,
        machines=machines_of(older.report.environment, newer.report.environment),
        withheld=withheld,
        control=control,
        cells=cells,
        metrics=common_metrics(older, newer, [cell.id for cell in both]),
        retuned={cell.id: found for cell in both if (found := retuned(older, newer, cell.id))},
        only_older=tuple(name for name in known[0] if name not in known[1]),
        only_newer=tuple(name for name in known[1] if name not in known[0]),
    )


def _source(older: Side, newer: Side) -> tuple[tuple[str | None, str | None], Reason | None]:
    """Which durations to take from each run, and why they may not be compared."""
    source = common_source(older, newer)
    withheld = _settings_differ(older.report.environment, newer.report.environment)
    if withheld is None and None not in source and source[0] != source[1]:
        withheld = Reason.DIFFERENT_COLLECTORS
    return source, withheld


def _settings_differ(older: Environment, newer: Environment) -> Reason | None:
    """Why durations of two environments are different quantities."""
    if machines_of(older, newer) is Machines.DIFFERENT:
        return Reason.DIFFERENT_MACHINES
    if older.clock_control != newer.clock_control:
        return Reason.DIFFERENT_CLOCKS
    if older.cache_control != newer.cache_control:
        return Reason.DIFFERENT_CACHES
    return None


def _control(
    older: Side, newer: Side, both: Sequence[Cell], same: Mapping[str, Program]
) -> str | None:
    """The baseline, if it is the same program in both runs: the newer run's, else the older's."""
    for wanted in (newer.report.baseline, older.report.baseline):
        own = [cell.id for cell in both if cell.variant.id == wanted]
        if own and any(same[cell].unchanged for cell in own):
            return wanted
    return None


def _compared(
    times: tuple[Timings, Timings],
    pairs: pd.DataFrame,
    control: str | None,
    withheld: Reason | None,
) -> pd.DataFrame:
    """The columns of `Step.cells` but the outcomes; `pairs` is from `_pairs`."""
    reference = _references(pairs, control)
    relative = [each.relative(reference) for each in times]
    raw = [each.raw() for each in times]
    controlled = set(relative[0]["cell"]) & set(relative[1]["cell"])
    pairs["controlled"] = pairs.index.isin(list(controlled))
    reasons = _withheld(pairs, reference, withheld)
    pairs["withheld"] = pd.Series(reasons, index=pairs.index, dtype=object)
    clock = pd.Series(times[1].clock / times[0].clock, dtype=float).reindex(pairs.index)
    pairs["clock_floor"] = _clock_floor(clock, pairs["problem"], reference)
    floors = [each.floors(control).reindex(pairs["problem"]).to_numpy() for each in times]
    pairs["noise_floor"] = joint_floor(*floors)
    older, newer = (
        _with_raw(own, plain, controlled) for own, plain in zip(relative, raw, strict=True)
    )
    # The shifts say what the controls do, and only then is it known what the shifts mean.
    pairs["control_floor"] = _control_floor(pairs, compare_runs(older, newer, pairs)["ratio"])
    kept = pairs[["variant", "problem", "program", "controlled"]]
    found = compare_runs(older, newer, pairs)
    return pd.concat([kept, found, _raw_columns(times, raw, pairs, clock)], axis=1)


def _pairs(
    older: Side, newer: Side, both: Sequence[Cell], same: Mapping[str, Program]
) -> pd.DataFrame:
    """One row per common cell: `variant problem program family measured_as`.

    `measured_as` is the variant whose samples a cell has: another where both are one program.
    """
    ids = pd.Index([cell.id for cell in both], name="cell")
    variants = {cell.id: cell.variant.id for cell in both}
    twins = (_twin(older, cell) or _twin(newer, cell) or cell for cell in ids)
    return pd.DataFrame(
        {
            "variant": [cell.variant.id for cell in both],
            "problem": [cell.problem.id for cell in both],
            # As objects: pandas would make plain strings of them, and NaN of None.
            "program": pd.Series([same[cell] for cell in ids], index=ids, dtype=object),
            "family": [cell.problem.id for cell in both],
            "measured_as": [variants.get(twin, twin) for twin in twins],
        },
        index=ids,
    )


def _twin(side: Side, cell: str) -> str | None:
    status = side.report.statuses.get(cell)
    return None if status is None else status.duplicate_of


def _raw_columns(
    times: tuple[Timings, Timings],
    raw: Sequence[pd.DataFrame],
    pairs: pd.DataFrame,
    clock: pd.Series[Any],
) -> pd.DataFrame:
    """Durations as they are: medians of both runs and their ratio, whatever shifted the runs."""
    plain = compare_runs(raw[0], raw[1], pairs[["family"]])
    return pd.DataFrame(
        {
            "older_ns": times[0].median.reindex(pairs.index),
            "newer_ns": times[1].median.reindex(pairs.index),
            "raw_ratio": plain["ratio"],
            "raw_low": plain["ratio_low"],
            "raw_high": plain["ratio_high"],
            "clock_ratio": clock,
        },
        index=pairs.index,
    )


def _references(pairs: pd.DataFrame, control: str | None) -> Mapping[str, str]:
    """Cell id of the control of each problem; only where it is the same program in both runs."""
    own = pairs[pairs["variant"] == control]
    return {
        problem: str(cell)
        for cell, problem, program in zip(own.index, own["problem"], own["program"], strict=True)
        if program.unchanged
    }


def _withheld(
    pairs: pd.DataFrame, reference: Mapping[str, str], withheld: Reason | None
) -> list[Reason | None]:
    if withheld is not None:
        return [withheld] * len(pairs)
    controls = set(reference.values())
    found: list[Reason | None] = []
    for cell, controlled in zip(pairs.index, pairs["controlled"], strict=True):
        if cell in controls:
            found.append(Reason.CONTROL)
        else:
            found.append(None if controlled else Reason.NO_CONTROL)
    return found


def _clock_floor(
    clock: pd.Series[Any], problems: pd.Series[Any], reference: Mapping[str, str]
) -> pd.Series[Any]:
    """The larger of two shifts of the SM clock: while the cell ran, and while its control did."""
    own = np.log(clock).abs()
    by_problem = {problem: own.get(cell, np.nan) for problem, cell in reference.items()}
    of_control = problems.map(by_problem).astype(float)
    return pd.Series(np.fmax(own, of_control), index=clock.index)


def _control_floor(pairs: pd.DataFrame, ratios: pd.Series[Any]) -> pd.Series[Any]:
    unchanged = np.array([program.unchanged for program in pairs["program"]])
    own_samples = (pairs["variant"] == pairs["measured_as"]).to_numpy()
    return control_floors(
        pd.DataFrame(
            {
                "variant": pairs["measured_as"],
                "problem": pairs["problem"],
                "shift": np.log(ratios),
                "control": unchanged & own_samples & pairs["withheld"].isna().to_numpy(),
            },
            index=pairs.index,
        )
    )


def _with_raw(relative: pd.DataFrame, raw: pd.DataFrame, controlled: Set[str]) -> pd.DataFrame:
    """Ratios to the control where a cell has one in both runs; durations elsewhere."""
    return pd.concat(
        [
            relative[relative["cell"].isin(list(controlled))],
            raw[~raw["cell"].isin(list(controlled))],
        ],
        ignore_index=True,
    )
