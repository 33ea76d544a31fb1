"""Verdicts on pairs: FASTER, SLOWER, SAME, UNCLEAR or NO DATA, with their reasons.

Durations are compared block by block: a block measures every arm once, so that drift hits both
sides of a ratio alike. A pair is a candidate and its baseline on one problem; `log_ratio` is
ln(candidate / baseline) of their durations in one block, `log_cycles` that of their cycles.

A difference counts only beyond the margin m = max(ln(1 + delta), noise floor, what the offset of
one session may be: `intervals`). With
alpha = 0.05 / looks, one-sided signed-rank tests decide (`paired_tests`): FASTER where
p < alpha / 2 for a median below -m, SLOWER where p < alpha / 2 for one above +m, SAME where both
tests for a median between -m and +m have p < alpha and the 95 % interval lies between them too,
else UNCLEAR. The first two are adjusted for the number of comparisons; overwhelming effects have a
second test, which few blocks suffice for. Cycles have to agree: a clock that moved is no property
of a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.intervals import (
    COVERED,
    NO_OFFSETS,
    Floats,
    equal_sizes,
    median_intervals,
    session_sds,
    widened_ends,
)
from profiler.analyse.paired_tests import (
    DIGITS,
    adjust_families,
    detectable_effects,
    family_levels,
    margin_tests,
    median_floors,
)
from profiler.model import (
    ALPHA,
    FEWEST_BLOCKS,
    MARGIN_PCT,
    CellStatus,
    Environment,
    Verdict,
)

Flags = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]

DELTA = MARGIN_PCT / 100
"""Smaller differences are SAME, unless an experiment says otherwise."""
LOOKS = (8, 16, 32)
"""Numbers of blocks after which a sequential run decides; each look spends a third of alpha."""
MOST_NOISE = 0.10
"""Noise floor above which nothing is SAME, unless an experiment asks for a margin as wide."""


class Reason(StrEnum):
    """Why a comparison has the verdict that it has."""

    DECIDED = "decided"
    """FASTER or SLOWER, in time and in cycles."""
    DECIDED_BY_TIME = "decided_by_time"
    """FASTER or SLOWER in time; there are no cycles."""
    WITHIN_MARGIN = "within_margin"
    """SAME in time, and not different in cycles."""
    WITHIN_MARGIN_BY_TIME = "within_margin_by_time"
    """SAME in time; there are no cycles."""
    FEW_BLOCKS = "few_blocks"
    MORE_BLOCKS_NEEDED = "more_blocks_needed"
    """The data agree with a difference on either side of a margin."""
    MANY_COMPARISONS = "many_comparisons"
    """Would be decided alone, but not as one of its family."""
    NOISE = "noise"
    """Within a margin that only the noise of the baseline made so wide."""
    CYCLES_UNCLEAR = "cycles_unclear"
    """FASTER or SLOWER in time, not yet decided in cycles."""
    CLOCK = "clock"
    """Time and cycles contradict each other."""
    MIXED_LAUNCHES = "mixed_launches"
    """Launches of one visit are of several kinds, such as trials of an autotuner."""
    GAPS = "gaps"
    """Would be another with the gaps between the kernels of a launch: sums of kernels hold none."""
    OVERLAP = "overlap"
    """Would be another if kernels that can run at once did: their durations are added."""
    WAITS = "waits"
    """Would be another with what the host does while a launch waits for the device."""
    COPIES = "copies"
    """Would be another with the copies and fills of a launch that are no kernels."""
    NOT_MEASURED = "not_measured"
    SAME_PROGRAM = "same_program"
    """SAME because both have one machine code; nothing was compared."""


HELPED_BY_BLOCKS = frozenset(
    {
        Reason.FEW_BLOCKS,
        Reason.MORE_BLOCKS_NEEDED,
        Reason.MANY_COMPARISONS,
        Reason.NOISE,
        Reason.CYCLES_UNCLEAR,
        Reason.CLOCK,
    }
)
"""Reasons that more blocks may change."""
UNSEEN = frozenset({Reason.GAPS, Reason.OVERLAP, Reason.WAITS, Reason.COPIES})
"""Reasons that no number beside the verdict shows."""

GAP_NS = 1000.0
"""Time from the end of a kernel to the start of the next on its stream: 0.93 to 1.2 µs on an H200
with driver 580; 0.03 to 0.3 µs in a CUDA graph."""

UNTIMED = ("at_once", "waiting_ns", "copies_ns")
"""Columns of `untimed_by_cell`."""
COLUMNS = (
    "verdict",
    "reason",
    "ratio",
    "ratio_low",
    "ratio_high",
    "cycles_ratio",
    "margin",
    "noise_floor",
    "session_sd",
    "detectable",
    "blocks",
    "p_faster",
    "p_slower",
    "p_same",
)


@dataclass(frozen=True)
class _PairTests:
    """Tests of one quantity (time or cycles), each (pairs,); NaN where it was not tested."""

    blocks: npt.NDArray[np.int64]
    median: Floats
    low: Floats
    high: Floats
    reach: Floats
    """Largest distance from 0 of the interval of a pair SAME by p, or of the mirrored pair."""
    faster: Floats
    slower: Floats
    same: Floats

    @classmethod
    def empty(cls, pairs: int) -> _PairTests:
        """Tests without a value, for so many pairs."""
        numbers: dict[str, Any] = {item.name: np.full(pairs, np.nan) for item in fields(cls)}
        return cls(**(numbers | {"blocks": np.zeros(pairs, dtype=np.int64)}))

    def with_session_offsets(self, session_sds: Floats) -> _PairTests:
        """These tests with the offset of a session in the intervals."""
        return replace(
            self,
            low=widened_ends(self.low, self.median, session_sds),
            high=widened_ends(self.high, self.median, session_sds),
            reach=widened_ends(self.reach, np.abs(self.median), session_sds),
        )


def compare(  # noqa: PLR0913 - all but the first two by keyword
    blocks: pd.DataFrame,
    pairs: pd.DataFrame,
    *,
    delta: float = DELTA,
    looks: int = 1,
    described: pd.Index[Any] | None = None,
    detectable: bool = True,
) -> pd.DataFrame:
    """Verdict of each pair with the numbers behind it, in columns `COLUMNS`.

    `blocks` has one row per pair and block: `pair`, `log_ratio` and, where cycles were counted,
    `log_cycles`. What is not finite was not measured. `pairs` has one row per pair, its index being
    what `pair` refers to, and any of these columns:

    - `noise_floor`, `cycles_noise_floor`: from `noise_floors`; NaN or absent is not known, and then
      the margin is `delta` alone (for cycles: the margin of the durations);
    - `session_sd`: of their log ratio between sessions; 0 where absent. Margins hold `COVERED` of
      it, intervals 1.96;
    - `family`: pairs with the same value are judged together; one family by default.

    `looks` is how often the data may be judged before they are complete: 1 for a number of blocks
    that was fixed before, `len(LOOKS)` for a sequential run. `described`: the pairs that get
    intervals and detectable effects, which take most of the time; all by default. No pair gets a
    detectable effect unless `detectable`.

    The result has the index of `pairs` and `COLUMNS`. `ratio` is exp(median log ratio) with its
    95 % interval (candidate / baseline, below 1 is faster), `cycles_ratio` that of cycles, NaN
    where they were not counted; `margin`, `noise_floor`, `session_sd` and `detectable` are relative
    effects (0.0123 is 1.23 %). `p_faster` and `p_slower` are adjusted
    and meet alpha / 2; `p_same` meets alpha. It is not adjusted: as an intersection-union test it
    has level alpha without that, and nobody picks the SAME out of many as the one to act on.

    Raises ValueError where `blocks` names a pair that `pairs` does not have.
    """
    alpha = ALPHA / looks
    floor = _column(pairs, "noise_floor")
    session_sd = np.nan_to_num(_column(pairs, "session_sd"))
    least_margin = np.fmax(np.log1p(delta), COVERED * session_sd)
    margin = np.fmax(least_margin, floor)
    cycles_floor = _column(pairs, "cycles_noise_floor")
    cycles_margin = np.where(np.isnan(cycles_floor), margin, np.fmax(least_margin, cycles_floor))
    has_interval = np.ones(len(pairs), bool) if described is None else pairs.index.isin(described)
    time = _pair_tests(blocks, "log_ratio", pairs.index, margin, has_interval).with_session_offsets(
        session_sd
    )
    cycles = _pair_tests(blocks, "log_cycles", pairs.index, cycles_margin)
    families = _families(pairs)
    p_faster, p_slower = adjust_families(time.faster, time.slower, families)
    levels = family_levels(p_faster, p_slower, families, alpha)
    levels_needed = np.where(has_interval & detectable, levels, np.nan)
    effects = _detectable_effects(
        blocks, pairs.index, (floor, least_margin, session_sd), levels_needed
    )
    margin_too_wide = is_too_wide(margin, delta)
    reaches_beyond = time.reach > margin
    p_same = np.where(margin_too_wide | reaches_beyond, np.nan, time.same)
    in_time = verdicts_of(p_faster, p_slower, p_same, alpha)
    # Not adjusted: a claim needs both, so that the adjustment in time bounds the wrong ones.
    in_cycles = verdicts_of(cycles.faster, cycles.slower, cycles.same, alpha)
    unadjusted = verdicts_of(time.faster, time.slower, p_same, alpha)
    verdicts, reasons = _verdicts_with_cycles(
        in_time, in_cycles, unadjusted, time.blocks, cycles.blocks
    )
    too_noisy = margin_too_wide & ~reaches_beyond & (time.same < alpha)
    reasons[too_noisy & (verdicts == Verdict.UNCLEAR)] = Reason.NOISE
    return pd.DataFrame(
        {
            "verdict": pd.Series(verdicts, index=pairs.index, dtype=object),
            "reason": pd.Series(reasons, index=pairs.index, dtype=object),
            "ratio": np.exp(time.median),
            "ratio_low": np.exp(time.low),
            "ratio_high": np.exp(time.high),
            "cycles_ratio": np.exp(cycles.median),
            "margin": np.expm1(margin),
            "noise_floor": np.expm1(floor),
            "session_sd": np.expm1(session_sd),
            "detectable": np.expm1(effects),
            "blocks": time.blocks,
            "p_faster": p_faster,
            "p_slower": p_slower,
            "p_same": time.same,
        },
        index=pairs.index,
        columns=list(COLUMNS),
    )


def is_too_wide(margins: Floats, delta: float) -> Flags:
    """Whether each margin (log ratio) is so wide that no difference within it is SAME.

    A margin as wide as the experiment asks for (`delta`) never is.
    """
    flags: Flags = margins > max(np.log1p(MOST_NOISE), np.log1p(delta))
    return flags


def noise_floors(differences: pd.Series[Any], of: pd.Series[Any]) -> pd.Series[Any]:
    """Noise floor of each value of `of` (e.g. the problem), by bootstrapped medians of no change.

    `differences` are of the two arms of the baseline, A and A', one per block: log ratios, or
    percentage points. The floor has their unit: the 95th percentile of |bootstrapped median|. NaN
    below `FEWEST_BLOCKS`: a floor from fewer is no better founded than a verdict from fewer.
    """
    frame = pd.DataFrame({"pair": of.to_numpy(), "value": differences.to_numpy(dtype=np.float64)})
    keys = pd.Index(of.unique(), name=of.name)
    floors = np.full(len(keys), np.nan)
    for indices, rows in _rows(frame, "value", keys):
        if rows.shape[1] >= FEWEST_BLOCKS:
            floors[indices] = median_floors(rows)
    return pd.Series(floors, index=keys, name="noise_floor")


def undecided_pairs(comparisons: pd.DataFrame) -> pd.Index[Any]:
    """Index of the UNCLEAR pairs of a result of `compare` that a later look may decide."""
    open_reasons = comparisons["reason"].isin(list(HELPED_BY_BLOCKS))
    return comparisons.index[(comparisons["verdict"] == Verdict.UNCLEAR) & open_reasons]


def make_unclear(verdicts: pd.DataFrame, reasons: pd.Series[Any]) -> None:
    """Make the rows that have a reason UNCLEAR, in place."""
    verdicts.loc[reasons.index, "verdict"] = Verdict.UNCLEAR
    verdicts.loc[reasons.index, "reason"] = reasons


def untimed_by_cell(statuses: Mapping[str, CellStatus], environment: Environment) -> pd.DataFrame:
    """Table of what sums of kernels leave out: UNTIMED by cell id, NaN where it is not known.

    `at_once waiting_ns` are `UntimedWork.concurrent_kernels` and `waiting_ns`; `copies_ns` is the
    least time of copies that are no kernels: GAP_NS each, and at the bandwidth of the memory.
    """
    copied_ns = 1e9 / (environment.peak_dram_bytes_per_s or math.inf)
    facts = [
        (
            untimed.concurrent_kernels,
            untimed.waiting_ns,
            (untimed.copies or 0.0) * GAP_NS + (untimed.copied_bytes or 0.0) * copied_ns,
        )
        for untimed in (status.untimed for status in statuses.values())
    ]
    return pd.DataFrame(facts, index=list(statuses), columns=list(UNTIMED), dtype=float)


def overturned_by_launches(pairs: pd.DataFrame) -> pd.Series[Any]:
    """Reasons why verdicts on added kernels may not hold for whole launches, without those that do.

    `pairs`: `verdict ratio margin`; with and without `against_` before the name, `median` (ns),
    `kernels` whose durations were added (NaN: a timer that does not count them, most of which time
    whole launches), `longest_kernel_ns` of these (NaN: not known), how many of them can run
    `at_once` (NaN: one), and the other columns of UNTIMED.

    GAPS: the verdict would be another with GAP_NS between kernels that run one after the other,
    COPIES: with copies, WAITS: with the whole time of launches that wait for the device.
    OVERLAP: it would be another if kernels that can run at once did. They then take together at
    least the sum of their times divided by their number, and as long as the longest.
    """
    untimed_ns, overlap = _untimed_and_overlap(pairs, "")
    other_untimed_ns, other_overlap = _untimed_and_overlap(pairs, "against_")
    # Arrays: operations on columns take pandas most of the time of a comparison of a few pairs.
    ratio, median, other_median = (
        _column(pairs, name) for name in ("ratio", "median", "against_median")
    )
    whole_ratio = ratio * (1 + untimed_ns / median) / (1 + other_untimed_ns / other_median)
    margin, verdict = np.log1p(_column(pairs, "margin")), pairs["verdict"].to_numpy(dtype=object)
    faster, same, slower, unclear = (
        verdict == stated
        for stated in (Verdict.FASTER, Verdict.SAME, Verdict.SLOWER, Verdict.UNCLEAR)
    )
    untimed = pairs[["waiting_ns", "against_waiting_ns", "copies_ns", "against_copies_ns"]]
    # More blocks would not decide what waits or copies, and is UNCLEAR for another reason.
    open_ones = same | (unclear & (untimed.to_numpy(dtype=np.float64) > 0).any(axis=1))
    by_untimed = (untimed_ns != other_untimed_ns) & (
        (faster & (whole_ratio >= 1))
        | (slower & (whole_ratio <= 1))
        | (open_ones & (np.abs(np.log(whole_ratio)) > margin))
    )
    by_overlap = ((overlap > 1) | (other_overlap > 1)) & (
        (faster & (ratio * other_overlap >= 1))
        | (slower & (ratio / overlap <= 1))
        | (same & (np.log(np.maximum(ratio * other_overlap, overlap / ratio)) > margin))
    )
    is_overturned = by_overlap | by_untimed
    overturned = pairs[is_overturned]
    reasons = [
        Reason.OVERLAP if overlaps else _untimed_reason(pair)
        for overlaps, (_, pair) in zip(
            by_overlap[is_overturned], overturned.iterrows(), strict=True
        )
    ]
    # A list, because NumPy makes plain text of members of this enum.
    return pd.Series(reasons, overturned.index, object)


def _untimed_reason(pair: pd.Series[Any]) -> Reason:
    """Reason WAITS, COPIES or GAPS, by what launches of a pair do beside their kernels."""
    if pair["waiting_ns"] > 0 or pair["against_waiting_ns"] > 0:
        return Reason.WAITS
    copies = pair["copies_ns"] > 0 or pair["against_copies_ns"] > 0
    return Reason.COPIES if copies else Reason.GAPS


def _untimed_and_overlap(pairs: pd.DataFrame, prefix: str) -> tuple[Floats, Floats]:
    """Time in ns that sums of kernels leave out; how many times shorter overlap can make these.

    Of the columns of `overturned_by_launches` with this prefix.
    """
    kernels, longest, at_once, waiting_ns, copies_ns, median = (
        _column(pairs, f"{prefix}{name}")
        for name in ("kernels", "longest_kernel_ns", *UNTIMED, "median")
    )
    is_sum = ~np.isnan(kernels)
    at_once = np.where(is_sum & ~np.isnan(at_once), at_once, 1.0)
    gaps_ns = np.where(at_once <= 1, kernels - 1, 0.0) * GAP_NS
    untimed_ns = np.fmax(gaps_ns + np.nan_to_num(copies_ns), np.fmax(waiting_ns - median, 0.0))
    return np.where(is_sum, untimed_ns, 0.0), np.fmin(at_once, median / longest)


def find_contenders(
    times: pd.DataFrame,
    floors: pd.Series[Any] | None = None,
    *,
    delta: float = DELTA,
    looks: int = len(LOOKS),
    sds: Sequence[float] = NO_OFFSETS,
) -> pd.DataFrame:
    """Variants that may be the best of each problem, with which later looks go on.

    `times` has one row per problem, variant and block: `problem variant block duration_ns`.
    `floors` are noise floors by problem, `sds` those of `intervals.session_sds`. The result
    has one row per problem and variant that was timed: `problem variant best contender`. The best
    is the lowest median among the variants with most blocks (one that left the race saw other
    drift), or one with fewer that is ahead of it in the blocks of both. A contender is not SLOWER
    than it, by the test of `compare` on durations. That is not adjusted for the number of variants:
    leaving the race is no claim, and a margin lies between the best and all that leave it. With
    fewer than `FEWEST_BLOCKS` blocks in common nobody leaves.
    """
    timed = times[(times["duration_ns"] > 0) & np.isfinite(times["duration_ns"])]
    race: pd.DataFrame = (
        timed.groupby(["problem", "variant"], sort=False)["duration_ns"]
        .agg(["count", "median"])
        .reset_index()
    )
    has_most_blocks = race["count"] == race.groupby("problem")["count"].transform("max")
    best = race[has_most_blocks].groupby("problem")["median"].idxmin()
    ratios_to_best = _ratios_to_best(timed, race, best)
    ahead = ratios_to_best.groupby("pair")["log_ratio"].median()[
        lambda median: (median < 0) & ~has_most_blocks
    ]
    if len(ahead):
        best.update(pd.Series(ahead).groupby(race["problem"]).idxmin())
        ratios_to_best = _ratios_to_best(timed, race, best)
    race["best"] = race.index.isin(best)
    by_problem = pd.Series(dtype=float) if floors is None else floors
    noise = race["problem"].map(by_problem).to_numpy(dtype=np.float64)
    shortest = race.groupby("problem")["median"].transform("min").to_numpy(dtype=np.float64)
    offsets = COVERED * session_sds(shortest, sds)
    margins = np.fmax(np.fmax(np.log1p(delta), offsets), noise)
    tests = _pair_tests(ratios_to_best, "log_ratio", race.index, margins)
    race["contender"] = ~(tests.slower < ALPHA / looks / 2)
    return race.drop(columns=["count", "median"])


def _ratios_to_best(timed: pd.DataFrame, race: pd.DataFrame, best: pd.Series[int]) -> pd.DataFrame:
    """Log ratio of each variant (`pair`, its row in `race`) to the best, by block of both."""
    leader = race.loc[best, ["problem", "variant"]].merge(timed)
    return (
        timed.merge(leader, on=["problem", "block"], suffixes=("", "_best"))
        .merge(race[["problem", "variant"]].reset_index(names="pair"))
        .assign(log_ratio=lambda rows: np.log(rows["duration_ns"] / rows["duration_ns_best"]))
    )


def _column(pairs: pd.DataFrame, name: str) -> Floats:
    if name not in pairs:
        return np.full(len(pairs), np.nan)
    return pairs[name].to_numpy(dtype=np.float64)


def _families(pairs: pd.DataFrame) -> npt.NDArray[np.int64]:
    if "family" not in pairs:
        return np.zeros(len(pairs), dtype=np.int64)
    return pd.factorize(pairs["family"])[0].astype(np.int64)


def _rows(
    frame: pd.DataFrame, column: str, pairs: pd.Index[Any]
) -> Iterator[tuple[npt.NDArray[np.int64], Floats]]:
    """Finite values of a column as matrices of equal numbers of blocks: (indices of pairs, rows).

    Values are in ascending order, so that the order of blocks changes nothing, not even by chance.
    """
    frame = frame[np.isfinite(frame[column].to_numpy(dtype=np.float64))]
    owner = pairs.get_indexer(pd.Index(frame["pair"]))
    if (owner < 0).any():
        raise ValueError(f"blocks of unknown pairs: {list(frame['pair'][owner < 0].unique()[:5])}")
    values = frame[column].to_numpy(dtype=np.float64)
    values = values[np.lexsort((values, owner))]
    for indices, places in equal_sizes(np.bincount(owner, minlength=len(pairs))):
        yield indices, values[places]


def _pair_tests(
    blocks: pd.DataFrame,
    column: str,
    pairs: pd.Index[Any],
    margins: Floats,
    has_interval: Flags | None = None,
) -> _PairTests:
    """Tests of one column of log ratios; intervals of the pairs in `has_interval` alone."""
    tests_of_pairs = _PairTests.empty(len(pairs))
    if column not in blocks:
        return tests_of_pairs
    for indices, exact in _rows(blocks, column, pairs):
        rows = exact.round(DIGITS)
        n = rows.shape[1]
        tests_of_pairs.blocks[indices] = n
        tests_of_pairs.median[indices] = np.median(rows, axis=1)
        if has_interval is not None:
            in_group = has_interval[indices]
            places = indices[in_group]
            tests_of_pairs.low[places], tests_of_pairs.high[places] = median_intervals(
                rows[in_group]
            )
        if n >= FEWEST_BLOCKS:
            tests = margin_tests(rows, margins[indices])
            (
                tests_of_pairs.faster[indices],
                tests_of_pairs.slower[indices],
                tests_of_pairs.same[indices],
            ) = tests
            within_margin = (tests_of_pairs.same[indices] < ALPHA) & ~np.isnan(
                tests_of_pairs.low[indices]
            )
            places = indices[within_margin]
            # A resample of the mirrored pair is another one: a verdict is the same both ways round.
            low, high = median_intervals(-rows[within_margin, ::-1])
            ends = [-tests_of_pairs.low[places], tests_of_pairs.high[places], -low, high]
            tests_of_pairs.reach[places] = np.max(ends, axis=0)
    return tests_of_pairs


def _detectable_effects(
    blocks: pd.DataFrame,
    pairs: pd.Index[Any],
    limits: tuple[Floats, Floats, Floats],
    levels: Floats,
) -> Floats:
    """Detectable log ratio of each pair; NaN with too few blocks for a verdict.

    `limits`: noise floor, least margin and deviation between sessions of each pair. `levels`:
    one-sided p values that pairs have to meet, NaN for those that are not asked about.
    """
    detectable = np.full(len(pairs), np.nan)
    for indices, exact in _rows(blocks, "log_ratio", pairs):
        is_needed = ~np.isnan(levels[indices]) & (exact.shape[1] >= FEWEST_BLOCKS)
        places, rows = indices[is_needed], exact[is_needed].round(DIGITS)
        if len(places):
            floors, least, session_sds = (of_pairs[places] for of_pairs in limits)
            detectable[places] = detectable_effects(
                rows, floors, least, levels[places], session_sds
            )
    return detectable


def verdicts_of(p_faster: Floats, p_slower: Floats, p_same: Floats, alpha: float) -> Objects:
    """Verdict of each pair by its p values (pairs,); UNCLEAR where these are NaN: not tested."""
    verdicts = _repeated_value(Verdict.UNCLEAR, len(p_faster))
    verdicts[p_same < alpha] = Verdict.SAME
    verdicts[p_slower < alpha / 2] = Verdict.SLOWER
    verdicts[p_faster < alpha / 2] = Verdict.FASTER
    return verdicts


def _verdicts_with_cycles(
    in_time: Objects,
    in_cycles: Objects,
    unadjusted: Objects,
    blocks: npt.NDArray[np.int64],
    cycles_blocks: npt.NDArray[np.int64],
) -> tuple[Objects, Objects]:
    """Verdict and reason of each pair; later rules overrule earlier ones."""
    counted = cycles_blocks > 0
    differs = (in_time == Verdict.FASTER) | (in_time == Verdict.SLOWER)
    is_same = in_time == Verdict.SAME
    cycles_differ = (in_cycles == Verdict.FASTER) | (in_cycles == Verdict.SLOWER)
    cycles_pending = differs & counted & (in_cycles == Verdict.UNCLEAR)
    cycles_disagree = differs & counted & (in_cycles != Verdict.UNCLEAR) & (in_cycles != in_time)
    cycles_disagree |= is_same & cycles_differ
    rules = [
        ((in_time == Verdict.UNCLEAR) & (unadjusted != Verdict.UNCLEAR), Reason.MANY_COMPARISONS),
        (differs, Reason.DECIDED),
        (differs & ~counted, Reason.DECIDED_BY_TIME),
        (is_same, Reason.WITHIN_MARGIN),
        (is_same & ~counted, Reason.WITHIN_MARGIN_BY_TIME),
        (cycles_pending, Reason.CYCLES_UNCLEAR),
        (cycles_disagree, Reason.CLOCK),
        (blocks < FEWEST_BLOCKS, Reason.FEW_BLOCKS),
        (blocks == 0, Reason.NOT_MEASURED),
    ]
    verdicts = in_time.copy()
    verdicts[cycles_pending | cycles_disagree] = Verdict.UNCLEAR
    verdicts[blocks == 0] = Verdict.NO_DATA
    return verdicts, reasons_of(rules, Reason.MORE_BLOCKS_NEEDED)


def reasons_of(rules: Sequence[tuple[Flags, StrEnum]], default: StrEnum) -> Objects:
    """Reason of each pair: that of the last rule whose flag (pairs,) is set for the pair."""
    reasons = _repeated_value(default, len(rules[0][0]))
    for flags, reason in rules:
        reasons[flags] = reason
    return reasons


def _repeated_value(value: StrEnum, count: int) -> Objects:
    """An array that repeats one enum member; np.full would make strings of it."""
    array = np.empty(count, dtype=object)
    array.fill(value)
    return array
