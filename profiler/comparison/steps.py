"""A newer run relative to an older one, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import Reason, compare_runs, control_floors, joint_floor
from profiler.comparison.facts import common_metrics
from profiler.comparison.programs import Program, programs
from profiler.comparison.sides import Side, outcome
from profiler.comparison.timings import Timings, common_source, timings
from profiler.errors import UsageError
from profiler.model import Cell, Environment


@dataclass(frozen=True, eq=False)
class Step:
    """A newer run relative to an older one."""

    older: int
    newer: int
    """Places of the two in the comparison."""
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
    cells = _compared(times, both, same, control, withheld)
    for name, side in (("older_outcome", older), ("newer_outcome", newer)):
        cells[name] = [outcome(side, cell) for cell in cells.index]
    return Step(
        older=number,
        newer=number + 1,
        withheld=withheld,
        control=control,
        cells=cells,
        metrics=common_metrics(older, newer, [cell.id for cell in both]),
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
    if (older.gpu, newer.gpu) == (None, None) and older.cpu != newer.cpu:
        return Reason.DIFFERENT_MACHINES
    if older.gpu != newer.gpu:
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
    both: Sequence[Cell],
    same: Mapping[str, Program],
    control: str | None,
    withheld: Reason | None,
) -> pd.DataFrame:
    """The columns of `Step.cells` but the outcomes."""
    ids = pd.Index([cell.id for cell in both], name="cell")
    pairs = pd.DataFrame(
        {
            "variant": [cell.variant.id for cell in both],
            "problem": [cell.problem.id for cell in both],
            # As objects: pandas would make plain strings of them, and NaN of None.
            "program": pd.Series([same[cell.id] for cell in both], index=ids, dtype=object),
        },
        index=ids,
    )
    pairs["family"] = pairs["problem"]
    reference = _references(pairs, control)
    relative = [each.relative(reference) for each in times]
    pairs["controlled"] = [
        all(cell in set(frame["cell"]) for frame in relative) for cell in pairs.index
    ]
    pairs["withheld"] = pd.Series(_withheld(pairs, reference, withheld), index=ids, dtype=object)
    clock = pd.Series(times[1].clock / times[0].clock, dtype=float).reindex(pairs.index)
    pairs["clock_floor"] = _clock_floor(clock, pairs["problem"], reference)
    floors = [each.floors(control).reindex(pairs["problem"]).to_numpy() for each in times]
    pairs["noise_floor"] = joint_floor(*floors)
    raw = [each.raw() for each in times]
    plain = compare_runs(raw[0], raw[1], pairs[["family"]])
    values = [
        _with_raw(relative[place], raw[place], pairs["controlled"]) for place in range(len(times))
    ]
    pairs["control_floor"] = _control_floor(
        pairs, compare_runs(values[0], values[1], pairs)["ratio"]
    )
    found = compare_runs(values[0], values[1], pairs)
    kept = pairs[["variant", "problem", "program", "controlled"]]
    medians = {
        name: each.median.reindex(pairs.index)
        for name, each in zip(("older_ns", "newer_ns"), times, strict=True)
    }
    more = pd.DataFrame(
        {
            **medians,
            "raw_ratio": plain["ratio"],
            "raw_low": plain["ratio_low"],
            "raw_high": plain["ratio_high"],
            "clock_ratio": clock,
        },
        index=pairs.index,
    )
    return pd.concat([kept, found, more], axis=1)


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
    unchanged = [program.unchanged for program in pairs["program"]]
    return control_floors(
        pd.DataFrame(
            {
                "variant": pairs["variant"],
                "problem": pairs["problem"],
                "shift": np.log(ratios),
                "control": np.array(unchanged) & pairs["withheld"].isna().to_numpy(),
            },
            index=pairs.index,
        )
    )


def _with_raw(
    relative: pd.DataFrame, raw: pd.DataFrame, controlled: pd.Series[Any]
) -> pd.DataFrame:
    """Ratios to the control where a cell has one in both runs; durations elsewhere."""
    has = controlled[controlled].index
    return pd.concat(
        [relative[relative["cell"].isin(has)], raw[~raw["cell"].isin(has)]], ignore_index=True
    )
