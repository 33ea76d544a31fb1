"""Is a cell of one run faster or slower than in another run: runs that were not interleaved.

Two runs differ in more than the kernel: clock, temperature and layout move all durations of a run
together. So a cell is compared by its ratio to a control, a baseline that is the same program in
both runs: L = ln(cell / baseline) in each block. The L of the newer run and those of the older are
two independent samples. They are compared by Yuen's test, Welch's t test on 20 % trimmed means: the
shift is the difference of the trimmed means, its interval and its tests come from the same
statistic. The verdict has the form of the paired ones of `verdicts`: FASTER or SLOWER where the
shift is beyond a margin, SAME where it and its interval are within (two one-sided tests) and the
margin is not too wide (`verdicts.is_too_wide`), else UNCLEAR.

A rank-sum test would need no trimming, but of eight blocks a side it gets no p value small enough
to stand beside twenty other comparisons once a single visit took longer.

The margin is the largest of

- ln(1 + DELTA);
- the noise floor: those of both runs (A against A') added as independent errors are;
- the clock floor: when the SM clock (cycles per ns) differs by a factor, the ratio of two kernels
  can move by that factor, if one waits for the SMs and the other for memory, and by no more;
- the control floor: how far programs that did not change stray between these two runs. The blocks
  of a run cannot tell that; only other unchanged cells can;
- the session floor, where too few programs are unchanged to tell: what the offsets of two sessions
  differ by in other runs, by duration (`intervals.PRIOR_SDS`).

The interval holds that deviation too, whether unchanged cells or other runs told it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from profiler.analyse.intervals import (
    CONFIDENCE,
    COVERED,
    FEWEST,
    Floats,
    duration_classes,
    session_sds,
    widened_ends,
)
from profiler.analyse.paired_tests import adjust_families, family_levels
from profiler.analyse.verdicts import DELTA, is_too_wide, reasons_of, verdicts_of
from profiler.model import ALPHA, FEWEST_BLOCKS, Verdict

Objects = npt.NDArray[np.object_]

FEWEST_CONTROLS = 5
"""Fewer unchanged programs than this say little about how far such programs stray."""
TRIM = 0.2
"""Share of the blocks that is left out at each end: one of eight (Wilcox, Introduction to Robust
Estimation, section 5.3). One visit in twenty takes longer for reasons of its own."""
_POWER = 0.8
_Alternative = Literal["two-sided", "less", "greater"]
_DIGITS = 12
"""Log ratios that differ by less than the last of these digits came from equal times."""


class BetweenRunsReason(StrEnum):
    """Why a comparison between runs has the verdict that it has, or none."""

    DECIDED = "decided"
    DECIDED_BY_TIME = "decided_by_time"
    """FASTER or SLOWER; without cycles the change of the clock is unknown."""
    WITHIN_MARGIN = "within_margin"
    FEW_BLOCKS = "few_blocks"
    MORE_BLOCKS_NEEDED = "more_blocks_needed"
    MANY_COMPARISONS = "many_comparisons"
    """Would be decided alone, but not as one of its family."""
    CLOCK = "clock"
    """Would be decided if the SM clock were the same in both runs."""
    WIDE_MARGIN = "wide_margin"
    """Within a margin that is too wide to call two durations the same."""
    CONTROLS_MOVED = "controls_moved"
    """Would be decided if programs that did not change had not moved as much."""
    FEW_CONTROLS = "few_controls"
    """Would be decided if unchanged programs were enough to estimate offsets between sessions."""
    GAPS = "gaps"
    OVERLAP = "overlap"
    WAITS = "waits"
    COPIES = "copies"
    """All four as in `verdicts.Reason`."""
    NO_CONTROL = "no_control"
    """No baseline that is the same program in both runs."""
    NOT_MEASURED = "not_measured"
    CONTROL = "control"
    """The baseline itself, which other cells are compared with."""
    DIFFERENT_MACHINES = "different_machines"
    DIFFERENT_CLOCKS = "different_clocks"
    DIFFERENT_CACHES = "different_caches"
    DIFFERENT_COLLECTORS = "different_collectors"


REFUSED_WORDS: Mapping[BetweenRunsReason, str] = {
    BetweenRunsReason.DIFFERENT_MACHINES: "different machines",
    BetweenRunsReason.DIFFERENT_CLOCKS: "different clock control",
    BetweenRunsReason.DIFFERENT_CACHES: "different cache control",
    BetweenRunsReason.DIFFERENT_COLLECTORS: "durations of different collectors",
}
"""Reasons for which durations of two runs have no verdict at all, in words."""

COLUMNS = (
    "verdict",
    "reason",
    "ratio",
    "ratio_low",
    "ratio_high",
    "margin",
    "noise_floor",
    "clock_floor",
    "control_floor",
    "session_floor",
    "detectable",
    "blocks_older",
    "blocks_newer",
    "p_faster",
    "p_slower",
    "p_same",
)


# ---- two independent samples, many pairs at a time -----------------------------------------------


@dataclass(frozen=True)
class Shifts:
    """Shift from each row of an older sample to that of a newer one, each (count,)."""

    older: npt.NDArray[np.int64]
    """Number of blocks of each row."""
    newer: npt.NDArray[np.int64]
    middle: Floats
    """Difference of the trimmed means; NaN where a run has no block."""
    low: Floats
    high: Floats
    """Ends of the 95 % interval of `middle`; NaN with fewer than `intervals.FEWEST` values."""
    freedom: Floats
    """Degrees of freedom of that interval's t distribution."""

    @property
    def errors(self) -> Floats:
        """Standard error of each shift, by the blocks."""
        half = (self.high - self.low) / 2
        errors: Floats = half / scipy.stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)
        return errors

    def detection_distance(self, levels: Floats, session_sd: Floats) -> Floats:
        """Distance beyond a margin at which a true shift is found four times out of five.

        By tests whose p values have to be below `levels` (count,), in two other runs, whose offsets
        differ by another draw of `session_sd` (count,).
        """
        quantile = scipy.stats.t.ppf(1 - levels, self.freedom)
        deviations = np.hypot(self.errors, session_sd)
        distance: Floats = self.errors * quantile + deviations * scipy.stats.t.ppf(
            _POWER, self.freedom
        )
        return distance

    def with_session_offsets(self, session_sd: Floats) -> Shifts:
        """These estimates with the offsets of two sessions in the intervals."""
        low, high = (widened_ends(end, self.middle, session_sd) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns `ESTIMATE_COLUMNS` of these estimates, by name."""
        return {
            "ratio": np.exp(self.middle),
            "ratio_low": np.exp(self.low),
            "ratio_high": np.exp(self.high),
            "error": self.errors,
            "blocks_older": self.older,
            "blocks_newer": self.newer,
        }


def shifts(newer: Floats, older: Floats) -> Shifts:
    """Estimate the shift between the rows of `newer` (count, n) and of `older` (count, m)."""
    counts = np.full(len(older), older.shape[1]), np.full(len(newer), newer.shape[1])
    middle = np.asarray(
        scipy.stats.trim_mean(newer, TRIM, axis=1) - scipy.stats.trim_mean(older, TRIM, axis=1)
    )
    if min(newer.shape[1], older.shape[1]) < FEWEST:
        nothing = np.full(len(newer), np.nan)
        return Shifts(*counts, middle, nothing, nothing, nothing)
    test = _yuen_test(newer, older, "two-sided")
    interval = test.confidence_interval(CONFIDENCE)
    half = np.nan_to_num((interval.high - interval.low) / 2)
    return Shifts(*counts, middle, middle - half, middle + half, np.nan_to_num(test.df, nan=1.0))


def shift_tails(newer: Floats, older: Floats) -> tuple[Floats, Floats]:
    """P values that each row of `newer` (count, n) lies below that of `older`, and above.

    Where no value differs from its neighbours within a side, there is no spread to compare a shift
    with, and a rank-sum test answers.
    """
    newer, older = newer.round(_DIGITS), older.round(_DIGITS)
    less, greater = np.ones(len(newer)), np.ones(len(newer))
    spread = _core_spread(newer) + _core_spread(older)
    medians_differ = np.median(newer, axis=1) != np.median(older, axis=1)
    tested = ((spread > 0, _yuen_test), ((spread == 0) & medians_differ, _rank_sum))
    for rows, test in tested:
        if rows.any():
            less[rows] = test(newer[rows], older[rows], "less").pvalue
            greater[rows] = test(newer[rows], older[rows], "greater").pvalue
    return less, greater


def _core_spread(rows: Floats) -> Floats:
    """Range of the values that trimming leaves in each row."""
    cut = int(TRIM * rows.shape[1])
    core: Floats = np.ptp(np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut], axis=1)
    return core


def _yuen_test(newer: Floats, older: Floats, alternative: _Alternative) -> Any:
    with warnings.catch_warnings():
        # Rows of nearly equal values lose digits; their difference is known well enough.
        warnings.simplefilter("ignore", category=RuntimeWarning)
        return scipy.stats.ttest_ind(
            newer, older, axis=1, equal_var=False, trim=TRIM, alternative=alternative
        )


def _rank_sum(newer: Floats, older: Floats, alternative: _Alternative) -> Any:
    return scipy.stats.mannwhitneyu(newer, older, axis=1, alternative=alternative)


# ---- floors --------------------------------------------------------------------------------------


def joint_floor(older: Floats, newer: Floats) -> Floats:
    """Noise floor of a difference between two runs; NaN only where neither run has one.

    Errors of the two runs are independent, so their squares add.
    """
    joint = np.hypot(np.nan_to_num(older), np.nan_to_num(newer))
    floor: Floats = np.where(np.isnan(older) & np.isnan(newer), np.nan, joint)
    return floor


def control_floors(cells: pd.DataFrame) -> pd.DataFrame:
    """Columns `control_floor session_sd` of each cell's shift, estimated from unchanged programs.

    `cells` has one row per cell: `variant problem shift error shorter_ns control`; `shift` is the
    log ratio between the runs, `error` its standard error by the blocks, `shorter_ns` the shorter
    of the durations of cell and baseline, `control` whether the cell is the same program in both.
    The estimate is from the controls of the same problem, without those of the cell's own variant;
    where they are fewer than `FEWEST_CONTROLS`, from those of all problems whose duration class is
    that of the cell: long kernels do not tell how far short ones stray. NaN where these are too few
    as well.

    The floor is how far controls stray, their errors included; the deviation is without these.
    """
    cells = cells.assign(
        size=cells["shift"].abs(),
        duration_class=duration_classes(cells["shorter_ns"].to_numpy(dtype=np.float64)),
    )
    controls = cells[cells["control"] & cells["shift"].notna()]
    keys = cells[["variant", "problem", "duration_class"]].itertuples(index=False, name=None)
    rows = [_control_floor(_neighbours(controls, *key)) for key in keys]
    columns = ["control_floor", "session_sd"]
    return pd.DataFrame(rows, index=cells.index, columns=columns, dtype=float)


def _neighbours(
    controls: pd.DataFrame, variant: str, problem: str, duration_class: int
) -> pd.DataFrame:
    other_variants = controls[controls["variant"] != variant]
    same_problem = other_variants[other_variants["problem"] == problem]
    if len(same_problem) >= FEWEST_CONTROLS:
        return same_problem
    return other_variants[other_variants["duration_class"] == duration_class]


def _control_floor(neighbours: pd.DataFrame) -> tuple[float, float]:
    if len(neighbours) < FEWEST_CONTROLS:
        return float("nan"), float("nan")
    floor = _percentile_by_median() * float(neighbours["size"].median())
    error = float(neighbours["error"].fillna(0.0).median())
    deviation = floor / scipy.stats.norm.ppf((1 + CONFIDENCE) / 2)
    return floor, float(np.sqrt(max(0.0, deviation**2 - error**2)))


def with_prior(controls: pd.DataFrame, shorter_ns: Floats) -> pd.DataFrame:
    """`control_floors` with the prior deviation, by duration, where controls are too few.

    The column `session_floor` has values for these cells alone. A shift has two offsets.
    """
    has_floor = controls["control_floor"].notna().to_numpy()
    prior = np.sqrt(2) * session_sds(shorter_ns)
    return controls.assign(
        session_sd=np.where(has_floor, controls["session_sd"], prior),
        session_floor=np.where(has_floor, np.nan, COVERED * prior),
    )


@functools.cache
def _percentile_by_median() -> float:
    """95th percentile of |shift| ÷ its median, for normal errors around no shift.

    The median stands as long as fewer than half of the controls really changed; a percentile would
    not.
    """
    return float(scipy.stats.norm.ppf(0.975) / scipy.stats.norm.ppf(0.75))


# ---- estimates -----------------------------------------------------------------------------------

ESTIMATE_COLUMNS = ("ratio", "ratio_low", "ratio_high", "error", "blocks_older", "blocks_newer")


def estimate_ratios(older: pd.DataFrame, newer: pd.DataFrame, cells: pd.Index[Any]) -> pd.DataFrame:
    """Ratio of each cell, newer ÷ older, with its interval, and no test: ESTIMATE_COLUMNS.

    `error` is that of the log ratio. Intervals and errors are by the blocks alone. Frames
    as in `compare_runs`; the result has the index `cells`.
    """
    estimates = _estimates(_samples(older, newer, cells), len(cells))
    return pd.DataFrame(estimates.columns, index=cells, columns=list(ESTIMATE_COLUMNS))


_Groups = list[tuple[npt.NDArray[np.int64], Floats, Floats]]
"""Cells with equal numbers of blocks on both sides: (numbers, older values, newer values)."""


def _estimates(groups: _Groups, count: int) -> Shifts:
    """Shifts of all pairs (count,)."""
    estimates = Shifts(*np.zeros((2, count), np.int64), *np.full((4, count), np.nan))
    for cells, before, after in groups:
        estimates.older[cells], estimates.newer[cells] = before.shape[1], after.shape[1]
        if before.shape[1] and after.shape[1]:
            group_shifts = shifts(after, before)
            for name in ("middle", "low", "high", "freedom"):
                getattr(estimates, name)[cells] = getattr(group_shifts, name)
    return estimates


# ---- verdicts ------------------------------------------------------------------------------------


def compare_runs(older: pd.DataFrame, newer: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Verdict on each cell of the newer run relative to the older run, with its numbers.

    `older` and `newer` have one row per cell and block, `cell log_value`: ln(cell / baseline) where
    the cell has a control, else ln(duration). `pairs` has one row per cell, its index being the
    cell, and any of these columns:

    - `noise_floor`, `clock_floor`, `control_floor`, `session_floor`: log ratios, NaN is not known;
    - `session_sd`: deviation of its shift between two sessions, a log ratio; NaN is 0;
    - `family`: cells with the same value are judged together;
    - `withheld`: a `BetweenRunsReason` for which a cell gets no verdict, None for the rest.

    The result has the index of `pairs` and `COLUMNS`. Ratios are newer / older, below 1 is faster;
    margin, floors and `detectable` are relative effects. `verdict` is None where it was withheld
    for one of `REFUSED_WORDS` or because the cell is the control; UNCLEAR without a control.
    """
    groups = _samples(older, newer, pairs.index)
    estimates = _estimates(groups, len(pairs))
    margins = {name: _margins(pairs, floors) for name, floors in _FLOORS_LEFT_OUT.items()}
    p_values = {name: _p_values(groups, margin) for name, margin in margins.items()}
    p_faster, p_slower, p_same = p_values["all"]
    session_sd = np.nan_to_num(_floor(pairs, "session_sd"))
    with_offsets = estimates.with_session_offsets(session_sd)
    within_margin = (with_offsets.low >= -margins["all"]) & (with_offsets.high <= margins["all"])
    within_margin &= p_same < ALPHA
    margin_too_wide = is_too_wide(margins["all"], DELTA)
    p_same_if_narrow = np.where(within_margin & ~margin_too_wide, p_same, np.nan)
    families = pd.factorize(_text_column(pairs, "family"))[0].astype(np.int64)
    adjusted = adjust_families(p_faster, p_slower, families)
    levels = family_levels(*adjusted, families, ALPHA)
    unadjusted = {name: verdicts_of(*values, ALPHA) for name, values in p_values.items()}
    verdicts, reasons = _with_floors(
        verdicts_of(*adjusted, p_same_if_narrow, ALPHA), unadjusted, estimates, pairs
    )
    kept_open_by_width = (
        within_margin & margin_too_wide & (reasons == BetweenRunsReason.MORE_BLOCKS_NEEDED)
    )
    reasons[kept_open_by_width] = BetweenRunsReason.WIDE_MARGIN
    _withhold_verdicts(verdicts, reasons, _text_column(pairs, "withheld"))
    columns = {
        **with_offsets.columns,
        "verdict": pd.Series(verdicts, index=pairs.index, dtype=object),
        "reason": pd.Series(reasons, index=pairs.index, dtype=object),
        "margin": np.expm1(margins["all"]),
        **{name: np.expm1(_floor(pairs, name)) for name in _FLOORS},
        "detectable": np.expm1(margins["all"] + estimates.detection_distance(levels, session_sd)),
        "p_faster": adjusted[0],
        "p_slower": adjusted[1],
        "p_same": p_same,
    }
    return pd.DataFrame(columns, index=pairs.index, columns=list(COLUMNS))


_FLOORS = ("noise_floor", "clock_floor", "control_floor", "session_floor")
_FLOORS_LEFT_OUT = {
    "all": (),
    "clock": ("clock_floor",),
    "controls": ("clock_floor", "control_floor", "session_floor"),
}
"""Floors that each margin leaves out: the full margin decides; the others tell which floor kept a
pair from being decided."""


def _p_values(groups: _Groups, margins: Floats) -> tuple[Floats, Floats, Floats]:
    """P values of faster, slower and same; NaN below `FEWEST_BLOCKS` on a side."""
    p_faster, p_slower, p_same = np.full((3, len(margins)), np.nan)
    for cells, before, after in groups:
        if min(before.shape[1], after.shape[1]) >= FEWEST_BLOCKS:
            tests = _margin_tests(after, before, margins[cells])
            p_faster[cells], p_slower[cells], p_same[cells] = tests
    return p_faster, p_slower, p_same


def _margin_tests(newer: Floats, older: Floats, margins: Floats) -> tuple[Floats, Floats, Floats]:
    """P values of "below -margin", "above +margin" and "between them" (the larger of two)."""
    faster, above_lower = shift_tails(newer + margins[:, np.newaxis], older)
    below_upper, slower = shift_tails(newer - margins[:, np.newaxis], older)
    return faster, slower, np.maximum(above_lower, below_upper)


def _samples(older: pd.DataFrame, newer: pd.DataFrame, cells: pd.Index[Any]) -> _Groups:
    """Values of the cells, in groups with equal numbers of blocks on both sides."""
    older_values, newer_values = _values_by_cell(older, cells), _values_by_cell(newer, cells)
    sizes = pd.DataFrame({"older": [*map(len, older_values)], "newer": [*map(len, newer_values)]})
    groups: _Groups = []
    for _, rows in sizes.groupby(["older", "newer"]):
        places = rows.index.to_numpy(dtype=np.int64)
        before, after = (
            np.array([values[place] for place in places]) for values in (older_values, newer_values)
        )
        groups.append((places, before, after))
    return groups


def _values_by_cell(frame: pd.DataFrame, cells: pd.Index[Any]) -> list[Floats]:
    """Finite log values of each cell, sorted, so that the order of blocks changes nothing."""
    finite = frame[np.isfinite(frame["log_value"].to_numpy(dtype=np.float64))]
    values = {
        cell: np.sort(group.to_numpy(dtype=np.float64))
        for cell, group in finite.groupby("cell", sort=False)["log_value"]
    }
    return [values.get(cell, np.empty(0)) for cell in cells]


def _margins(pairs: pd.DataFrame, floors_left_out: tuple[str, ...]) -> Floats:
    floors = [_floor(pairs, name) for name in _FLOORS if name not in floors_left_out]
    margin: Floats = np.fmax.reduce([np.full(len(pairs), np.log1p(DELTA)), *floors])
    return margin


def _floor(pairs: pd.DataFrame, name: str) -> Floats:
    if name not in pairs:
        return np.full(len(pairs), np.nan)
    sizes: Floats = np.abs(pairs[name].to_numpy(dtype=np.float64))
    return sizes


def _text_column(pairs: pd.DataFrame, name: str) -> Objects:
    if name not in pairs:
        return np.full(len(pairs), None, dtype=object)
    texts: Objects = pairs[name].to_numpy(dtype=object)
    return texts


def _with_floors(
    verdicts: Objects, unadjusted: dict[str, Objects], estimates: Shifts, pairs: pd.DataFrame
) -> tuple[Objects, Objects]:
    """Verdict and reason of each cell; later rules overrule earlier ones.

    `unadjusted`: verdicts without an adjustment for other cells, by the margin that was tried.
    """
    differs_by_margin = {name: _is_difference(rows) for name, rows in unadjusted.items()}
    verdicts = verdicts.copy()
    # A wide margin makes nothing SAME that a clock or the controls only keep from being decided.
    verdicts[
        (verdicts == Verdict.SAME) & (differs_by_margin["clock"] | differs_by_margin["controls"])
    ] = Verdict.UNCLEAR
    differs, unclear = _is_difference(verdicts), verdicts == Verdict.UNCLEAR
    blocks = np.minimum(estimates.older, estimates.newer)
    rules = (
        (unclear & differs_by_margin["controls"], BetweenRunsReason.CONTROLS_MOVED),
        (
            unclear & differs_by_margin["controls"] & ~np.isnan(_floor(pairs, "session_floor")),
            BetweenRunsReason.FEW_CONTROLS,
        ),
        (unclear & differs_by_margin["clock"], BetweenRunsReason.CLOCK),
        (unclear & differs_by_margin["all"], BetweenRunsReason.MANY_COMPARISONS),
        (differs, BetweenRunsReason.DECIDED),
        (differs & np.isnan(_floor(pairs, "clock_floor")), BetweenRunsReason.DECIDED_BY_TIME),
        (verdicts == Verdict.SAME, BetweenRunsReason.WITHIN_MARGIN),
        (blocks < FEWEST_BLOCKS, BetweenRunsReason.FEW_BLOCKS),
        (blocks == 0, BetweenRunsReason.NOT_MEASURED),
    )
    reasons = reasons_of(rules, BetweenRunsReason.MORE_BLOCKS_NEEDED)
    verdicts[blocks == 0] = Verdict.NO_DATA
    return verdicts, reasons


def _is_difference(verdicts: Objects) -> npt.NDArray[np.bool_]:
    return np.isin(verdicts.astype(str), [Verdict.FASTER.value, Verdict.SLOWER.value])


def _withhold_verdicts(verdicts: Objects, reasons: Objects, withheld: Objects) -> None:
    """Take back verdicts that may not be given; a cell that was not measured stays NO DATA."""
    for place, reason in enumerate(withheld):
        if reason is None or verdicts[place] == Verdict.NO_DATA:
            continue
        verdicts[place] = Verdict.UNCLEAR if reason == BetweenRunsReason.NO_CONTROL else None
        reasons[place] = reason
