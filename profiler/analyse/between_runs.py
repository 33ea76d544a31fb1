"""Is a cell of one run faster or slower than in another run: runs that were not interleaved.

Two runs differ in more than the kernel: clock, temperature and layout move all durations of a run
together. So a cell is compared by its ratio to a control, a baseline that is the same program in
both runs: L = ln(cell / baseline) in each block. The L of the newer run and those of the older are
two independent samples. Their shift is the Hodges-Lehmann estimate (median of all differences), its
interval the shifts that the rank-sum test does not reject, the tests are rank-sum tests against a
margin, in the form that `verdicts` gives to the paired ones: FASTER or SLOWER beyond it, SAME
within it (two one-sided tests), else UNCLEAR.

The margin is the largest of

- ln(1 + delta);
- the noise floor: those of both runs (A against A') added as independent errors are;
- the clock floor: when the SM clock (cycles per ns) differs by a factor, the ratio of two kernels
  can move by that factor, if one waits for the SMs and the other for memory, and by no more;
- the control floor: how far programs that did not change stray between these two runs. The blocks
  of a run cannot tell that; only other unchanged cells can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from profiler.analyse.paired_tests import adjust_families
from profiler.analyse.verdicts import ALPHA, DELTA, FEWEST_BLOCKS
from profiler.model import Verdict

Floats = npt.NDArray[np.float64]
Objects = npt.NDArray[np.object_]

FEWEST_CONTROLS = 5
"""Fewer unchanged programs than this say little about how far such programs stray."""
_SPREAD = float(stats.norm.ppf(0.975) / stats.norm.ppf(0.75))
"""From the median of |shift| to its 95th percentile, for normal errors around no shift. The median
stands as long as fewer than half of the controls really changed; a percentile would not."""
_TWO_SIDED = float(stats.norm.ppf(0.975))
_DIGITS = 12
"""Log ratios that differ by less came from equal times."""


class Reason(StrEnum):
    """Why a comparison between runs has the verdict that it has, or none."""

    DECIDED = "decided"
    DECIDED_BY_TIME = "decided_by_time"
    """FASTER or SLOWER; without cycles nobody knows what the clock did."""
    WITHIN_MARGIN = "within_margin"
    FEW_BLOCKS = "few_blocks"
    MORE_BLOCKS_NEEDED = "more_blocks_needed"
    MANY_COMPARISONS = "many_comparisons"
    """Would be decided alone, but not as one of its family."""
    CLOCK = "clock"
    """Would be decided if the SM clock were the same in both runs."""
    CONTROLS_MOVED = "controls_moved"
    """Would be decided if programs that did not change had not moved as much."""
    NO_CONTROL = "no_control"
    """No baseline that is the same program in both runs."""
    NOT_MEASURED = "not_measured"
    CONTROL = "control"
    """The baseline itself: others are judged by it."""
    DIFFERENT_MACHINES = "different_machines"
    DIFFERENT_CLOCKS = "different_clocks"
    DIFFERENT_CACHES = "different_caches"
    DIFFERENT_COLLECTORS = "different_collectors"


REFUSED_WORDS: Mapping[Reason, str] = {
    Reason.DIFFERENT_MACHINES: "different machines",
    Reason.DIFFERENT_CLOCKS: "different clock control",
    Reason.DIFFERENT_CACHES: "different cache control",
    Reason.DIFFERENT_COLLECTORS: "durations of different collectors",
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
    "detectable",
    "blocks_older",
    "blocks_newer",
    "p_faster",
    "p_slower",
    "p_same",
)


# ---- two independent samples, many pairs at a time -----------------------------------------------


def shifts(newer: Floats, older: Floats) -> tuple[Floats, Floats, Floats]:
    """How much higher each row of `newer` (count, n) lies than that of `older` (count, m).

    Hodges-Lehmann estimate and its 95 % interval by the large-sample form of the inverted rank-sum
    test (Hollander and Wolfe, Nonparametric Statistical Methods, section 4.3), each (count,). The
    interval is NaN where there are too few values for any.
    """
    n, m = newer.shape[1], older.shape[1]
    pairs = np.sort((newer[:, :, np.newaxis] - older[:, np.newaxis, :]).reshape(len(newer), n * m))
    middle: Floats = np.median(pairs, axis=1)
    place = int(n * m / 2 - _TWO_SIDED * np.sqrt(n * m * (n + m + 1) / 12))
    if place < 1:
        nothing = np.full(len(newer), np.nan)
        return middle, nothing, nothing
    return middle, pairs[:, place - 1], pairs[:, n * m - place]


def rank_sum_tails(newer: Floats, older: Floats) -> tuple[Floats, Floats]:
    """P values that each row of `newer` (count, n) lies below that of `older`, and above.

    The exact distribution of `scipy.stats.mannwhitneyu` for small samples without ties, its normal
    approximation, corrected for ties, for the others.
    """
    newer, older = newer.round(_DIGITS), older.round(_DIGITS)
    both = np.sort(np.concatenate([newer, older], axis=1), axis=1)
    less, greater = np.ones(len(newer)), np.ones(len(newer))
    ties = (np.diff(both, axis=1) == 0).any(axis=1)
    varied = np.ptp(both, axis=1) > 0
    # Rows with ties go apart: one of them would make scipy take the approximation for all.
    for chosen in (np.flatnonzero(~ties), np.flatnonzero(ties & varied)):
        if len(chosen):
            sides = newer[chosen], older[chosen]
            less[chosen] = stats.mannwhitneyu(*sides, axis=1, alternative="less").pvalue
            greater[chosen] = stats.mannwhitneyu(*sides, axis=1, alternative="greater").pvalue
    return less, greater


# ---- floors --------------------------------------------------------------------------------------


def joint_floor(older: Floats, newer: Floats) -> Floats:
    """Noise floor of a difference between two runs from their own; NaN only where neither is known.

    Errors of the two runs are independent, so their squares add.
    """
    joint = np.hypot(np.nan_to_num(older), np.nan_to_num(newer))
    floor: Floats = np.where(np.isnan(older) & np.isnan(newer), np.nan, joint)
    return floor


def control_floors(cells: pd.DataFrame) -> pd.Series[Any]:
    """How far unchanged programs stray between two runs, as each cell's neighbours tell it.

    `cells` has one row per cell: `variant problem shift control`; `shift` is the log ratio between
    the runs, `control` whether the cell is the same program in both. Asked are the controls of the
    same problem, without those of the cell's own variant; where they are fewer than
    `FEWEST_CONTROLS`, those of all problems; NaN where these are too few as well.
    """
    controls = cells[cells["control"] & cells["shift"].notna()]
    sizes = controls.assign(size=controls["shift"].abs())
    found = [
        _stray(sizes, variant, problem)
        for variant, problem in zip(cells["variant"], cells["problem"], strict=True)
    ]
    return pd.Series(found, index=cells.index, dtype=float, name="control_floor")


def _stray(controls: pd.DataFrame, variant: str, problem: str) -> float:
    others = controls[controls["variant"] != variant]
    near = others[others["problem"] == problem]
    chosen = near if len(near) >= FEWEST_CONTROLS else others
    if len(chosen) < FEWEST_CONTROLS:
        return float("nan")
    return _SPREAD * float(chosen["size"].median())


# ---- verdicts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tested:
    """All pairs, each array (pairs,); NaN where there was nothing to test."""

    older: npt.NDArray[np.int64]
    newer: npt.NDArray[np.int64]
    shift: Floats
    low: Floats
    high: Floats
    scatter: Floats
    """Standard error of the difference of the means."""


def compare_runs(
    older: pd.DataFrame, newer: pd.DataFrame, pairs: pd.DataFrame, *, delta: float = DELTA
) -> pd.DataFrame:
    """The verdict on each cell of the newer run relative to the older one, and its numbers.

    `older` and `newer` have one row per cell and block, `cell log_value`: ln(cell / baseline) where
    the cell has a control, else ln(duration). `pairs` has one row per cell, its index being the
    cell, and any of these columns:

    - `noise_floor`, `clock_floor`, `control_floor`: log ratios, NaN is not known;
    - `family`: cells with the same value are judged together;
    - `withheld`: a `Reason` for which a cell gets no verdict, None for the rest.

    The result has the index of `pairs` and `COLUMNS`. Ratios are newer / older, below 1 is faster;
    margin, floors and `detectable` are relative effects. `verdict` is None where it was withheld
    for one of `REFUSED_WORDS` or because the cell is the control; UNCLEAR without a control.
    """
    found, p_values = _test(older, newer, pairs, delta)
    faster, slower, same = p_values["all"]
    families = pd.factorize(_texts(pairs, "family"))[0].astype(np.int64)
    adjusted = adjust_families(faster, slower, families)
    said = {name: _says(*p_values[name]) for name in p_values}
    verdicts, reasons = _judge(_says(*adjusted, same), said, found, _floor(pairs, "clock_floor"))
    _withhold(verdicts, reasons, _texts(pairs, "withheld"))
    margins = _margins(pairs, delta)
    columns = {
        "verdict": pd.Series(verdicts, index=pairs.index, dtype=object),
        "reason": pd.Series(reasons, index=pairs.index, dtype=object),
        "ratio": np.exp(found.shift),
        "ratio_low": np.exp(found.low),
        "ratio_high": np.exp(found.high),
        "margin": np.expm1(margins),
        **{
            name: np.expm1(_floor(pairs, name))
            for name in ("noise_floor", "clock_floor", "control_floor")
        },
        "detectable": np.expm1(_detectable(found, margins)),
        "blocks_older": found.older,
        "blocks_newer": found.newer,
        "p_faster": adjusted[0],
        "p_slower": adjusted[1],
        "p_same": same,
    }
    return pd.DataFrame(columns, index=pairs.index, columns=list(COLUMNS))


_LEFT_OUT = {"all": (), "clock": ("clock_floor",), "controls": ("clock_floor", "control_floor")}
"""Margins that are tried: the full one decides, those without a floor say what stood in the way."""


def _test(
    older: pd.DataFrame, newer: pd.DataFrame, pairs: pd.DataFrame, delta: float
) -> tuple[_Tested, dict[str, tuple[Floats, Floats, Floats]]]:
    count = len(pairs)
    found = _Tested(
        np.zeros(count, np.int64), np.zeros(count, np.int64), *np.full((4, count), np.nan)
    )
    p_values: dict[str, tuple[Floats, Floats, Floats]] = {
        name: (np.full(count, np.nan), np.full(count, np.nan), np.full(count, np.nan))
        for name in _LEFT_OUT
    }
    margins = {name: _margins(pairs, delta, out) for name, out in _LEFT_OUT.items()}
    for chosen, before, after in _samples(older, newer, pairs.index):
        n, m = after.shape[1], before.shape[1]
        found.newer[chosen], found.older[chosen] = n, m
        if not n or not m:
            continue
        found.shift[chosen], found.low[chosen], found.high[chosen] = shifts(after, before)
        if min(n, m) > 1:
            found.scatter[chosen] = np.sqrt(
                after.var(axis=1, ddof=1) / n + before.var(axis=1, ddof=1) / m
            )
        if min(n, m) < FEWEST_BLOCKS:
            continue
        for name, margin in margins.items():
            for column, values in zip(
                p_values[name], _margin_tests(after, before, margin[chosen]), strict=True
            ):
                column[chosen] = values
    return found, p_values


def _margin_tests(newer: Floats, older: Floats, margins: Floats) -> tuple[Floats, Floats, Floats]:
    """P values of "below -margin", "above +margin" and "between them" (the larger of two)."""
    faster, above_lower = rank_sum_tails(newer + margins[:, np.newaxis], older)
    below_upper, slower = rank_sum_tails(newer - margins[:, np.newaxis], older)
    return faster, slower, np.maximum(above_lower, below_upper)


def _samples(
    older: pd.DataFrame, newer: pd.DataFrame, cells: pd.Index[Any]
) -> Iterator[tuple[npt.NDArray[np.int64], Floats, Floats]]:
    """Cells with equal numbers of blocks on both sides: (which, older values, newer values)."""
    sides = [_by_cell(frame, cells) for frame in (older, newer)]
    sizes = pd.DataFrame({number: [len(row) for row in side] for number, side in enumerate(sides)})
    for _, rows in sizes.groupby([0, 1]):
        chosen = rows.index.to_numpy(dtype=np.int64)
        before, after = (np.array([side[place] for place in chosen]) for side in sides)
        yield chosen, before, after


def _by_cell(frame: pd.DataFrame, cells: pd.Index[Any]) -> list[Floats]:
    """Finite values of each cell, sorted: the order of blocks changes nothing."""
    known = frame[np.isfinite(frame["log_value"].to_numpy(dtype=np.float64))]
    values = {
        cell: np.sort(group.to_numpy(dtype=np.float64))
        for cell, group in known.groupby("cell", sort=False)["log_value"]
    }
    return [values.get(cell, np.empty(0)) for cell in cells]


def _margins(pairs: pd.DataFrame, delta: float, without: tuple[str, ...] = ()) -> Floats:
    floors = [
        _floor(pairs, name)
        for name in ("noise_floor", "clock_floor", "control_floor")
        if name not in without
    ]
    margin: Floats = np.fmax.reduce([np.full(len(pairs), np.log1p(delta)), *floors])
    return margin


def _detectable(found: _Tested, margins: Floats) -> Floats:
    """Smallest true shift that these blocks would find four times out of five."""
    freedom = np.maximum(found.older + found.newer - 2, 1)
    quantiles = stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)
    effects: Floats = margins + quantiles * found.scatter
    return effects


def _floor(pairs: pd.DataFrame, name: str) -> Floats:
    if name not in pairs:
        return np.full(len(pairs), np.nan)
    sizes: Floats = np.abs(pairs[name].to_numpy(dtype=np.float64))
    return sizes


def _texts(pairs: pd.DataFrame, name: str) -> Objects:
    if name not in pairs:
        return np.full(len(pairs), None, dtype=object)
    texts: Objects = pairs[name].to_numpy(dtype=object)
    return texts


def _says(faster: Floats, slower: Floats, same: Floats) -> Objects:
    """What p values say; NaN compares as false: not tested is UNCLEAR."""
    verdicts = _constant(Verdict.UNCLEAR, len(faster))
    verdicts[same < ALPHA] = Verdict.SAME
    verdicts[slower < ALPHA / 2] = Verdict.SLOWER
    verdicts[faster < ALPHA / 2] = Verdict.FASTER
    return verdicts


def _judge(
    verdicts: Objects, said: dict[str, Objects], found: _Tested, clock: Floats
) -> tuple[Objects, Objects]:
    """Verdict and reason of each cell; later rules overrule earlier ones."""
    stands = {name: _differs(rows) for name, rows in said.items()}
    verdicts = verdicts.copy()
    # A wide margin makes nothing SAME that a clock or the controls only keep from being decided.
    verdicts[(verdicts == Verdict.SAME) & (stands["clock"] | stands["controls"])] = Verdict.UNCLEAR
    differs, unclear = _differs(verdicts), verdicts == Verdict.UNCLEAR
    blocks = np.minimum(found.older, found.newer)
    rules = (
        (unclear & stands["controls"], Reason.CONTROLS_MOVED),
        (unclear & stands["clock"], Reason.CLOCK),
        (unclear & stands["all"], Reason.MANY_COMPARISONS),
        (differs, Reason.DECIDED),
        (differs & np.isnan(clock), Reason.DECIDED_BY_TIME),
        (verdicts == Verdict.SAME, Reason.WITHIN_MARGIN),
        (blocks < FEWEST_BLOCKS, Reason.FEW_BLOCKS),
        (blocks == 0, Reason.NOT_MEASURED),
    )
    reasons = _constant(Reason.MORE_BLOCKS_NEEDED, len(verdicts))
    for chosen, reason in rules:
        reasons[chosen] = reason
    verdicts[blocks == 0] = Verdict.NO_DATA
    return verdicts, reasons


def _differs(verdicts: Objects) -> npt.NDArray[np.bool_]:
    return np.isin(verdicts.astype(str), [Verdict.FASTER.value, Verdict.SLOWER.value])


def _withhold(verdicts: Objects, reasons: Objects, withheld: Objects) -> None:
    """Take back verdicts that may not be given; a cell that was not measured stays NO DATA."""
    for place, reason in enumerate(withheld):
        if reason is None or verdicts[place] == Verdict.NO_DATA:
            continue
        verdicts[place] = Verdict.UNCLEAR if reason == Reason.NO_CONTROL else None
        reasons[place] = reason


def _constant(value: StrEnum, count: int) -> Objects:
    """An array of one member; np.full would make plain strings of it."""
    array = np.empty(count, dtype=object)
    array.fill(value)
    return array
