"""Tests on paired blocks, many pairs at a time: signed ranks, noise floors, multiple comparisons.

A row holds the log ratios ln(candidate / baseline) of one pair, one value per block, all finite.
Every function answers each row as if it were alone: a row's neighbours never change its numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from profiler.analyse.intervals import RESAMPLES, SEED

Floats = npt.NDArray[np.float64]

FLOOR_PERCENTILE = 95.0
"""How far the bootstrapped median of two equal arms strays, all but one time in twenty."""
_SIGNIFICANCE, _POWER = 0.975, 0.8
"""Detectable: found four times out of five, by a two-sided test at 5 %."""
_MOST_FLIPPED = 100
"""Blocks up to which sign flips are counted; the work grows with the cube of their number."""
DIGITS = 8
"""Log ratios that differ by less are equal: dividing and taking logs costs last digits, and ties
have to be seen whatever the unit of the times. No tool tells times apart by one part in 10^8."""


@dataclass(frozen=True)
class MarginTests:
    """One-sided p values of each row against its margins, each (count,)."""

    faster: Floats
    """Against "the median is not below -margin"."""
    slower: Floats
    """Against "the median is not above +margin"."""
    same: Floats
    """Against "the median is outside the margins": the larger of two one-sided tests (TOST)."""


def margin_tests(rows: Floats, margins: Floats) -> MarginTests:
    """Wilcoxon signed-rank tests of the rows (count, n) against ±`margins` (count,)."""
    faster, above_lower = signed_rank_tails(rows + margins[:, np.newaxis])
    below_upper, slower = signed_rank_tails(rows - margins[:, np.newaxis])
    return MarginTests(faster, slower, np.maximum(above_lower, below_upper))


def signed_rank_tails(rows: Floats) -> tuple[Floats, Floats]:
    """P values (count,) of signed-rank tests that each row (count, n) is below, or above, zero.

    Without ties and zeros this is `scipy.stats.wilcoxon`. With them its exact table does not hold,
    and the distribution is that of all sign flips of the ranks at hand; in long rows it is close
    enough to the normal distribution that scipy then uses.
    """
    rows = rows.round(DIGITS)
    less, greater = np.ones(len(rows)), np.ones(len(rows))
    sizes = np.sort(np.abs(rows), axis=1)
    tied = (sizes[:, 0] == 0) | (np.diff(sizes, axis=1) == 0).any(axis=1)
    flipped = tied if rows.shape[1] <= _MOST_FLIPPED else np.zeros_like(tied)
    # A row of zeros decides nothing: both tails stay 1, where scipy would give NaN.
    for some in (~tied, tied & ~flipped & (sizes[:, -1] > 0)):
        indices = np.flatnonzero(some)
        if len(indices):
            less[indices] = _wilcoxon(rows[indices], "less")
            greater[indices] = _wilcoxon(rows[indices], "greater")
    for index in np.flatnonzero(flipped):
        less[index], greater[index] = _sign_flip_tails(rows[index])
    return less, greater


def _wilcoxon(rows: Floats, alternative: Literal["less", "greater"]) -> Floats:
    result = scipy.stats.wilcoxon(
        rows, zero_method="pratt", alternative=alternative, axis=1, keepdims=True
    )
    return result.pvalue[:, 0]


def _sign_flip_tails(row: Floats) -> tuple[float, float]:
    """Both tail probabilities of the sum of signed ranks over all 2^n sign flips, exactly.

    The same answer as `scipy.stats.permutation_test(permutation_type="samples")` that enumerates
    every flip. That takes 2^32 of them for 32 blocks; drawn at random instead, ten thousand flips
    of 3000 pairs take seconds, depend on the order of the blocks, and cannot give a p value small
    enough for the first of 80 comparisons. Doubled midranks are whole numbers, so that the counts
    of all sums follow from one addition per block. Zeros keep their rank and count for neither
    side (Pratt), which is the careful choice.
    """
    doubled = np.rint(2 * scipy.stats.rankdata(np.abs(row))).astype(np.int64)
    ranks, positive = doubled[row != 0], doubled[row > 0].sum()
    share = np.zeros(ranks.sum() + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] += share[:-rank].copy()
        share /= 2
    return float(min(1.0, share[: positive + 1].sum())), float(min(1.0, share[positive:].sum()))


def median_floors(rows: Floats) -> Floats:
    """Noise floor of each row of A/A' differences (count, n), in their unit.

    The 95th percentile of |bootstrapped median|; the value's own size where all are equal.
    """
    with warnings.catch_warnings():
        # The interval is not used, and says of constant rows that it does not exist.
        warnings.simplefilter("ignore", category=RuntimeWarning)
        drawn = scipy.stats.bootstrap(
            (np.sort(rows, axis=1),),
            np.median,
            axis=-1,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            random_state=np.random.default_rng(SEED),
        ).bootstrap_distribution
    floors: Floats = np.percentile(np.abs(drawn), FLOOR_PERCENTILE, axis=-1)
    return floors


def detectable_effects(rows: Floats, margins: Floats) -> Floats:
    """Smallest true log ratio that this many blocks with this scatter would likely find.

    m + (t(0.975, n-1) + t(0.8, n-1)) s / sqrt(n) for rows (count, n); NaN for a single block.
    """
    n = rows.shape[1]
    if n < 2:
        return np.full(len(rows), np.nan)
    quantiles = float(scipy.stats.t.ppf(_SIGNIFICANCE, n - 1) + scipy.stats.t.ppf(_POWER, n - 1))
    effects: Floats = margins + quantiles * rows.std(axis=1, ddof=1) / np.sqrt(n)
    return effects


def adjust_families(
    faster: Floats, slower: Floats, families: npt.NDArray[np.integer[Any]]
) -> tuple[Floats, Floats]:
    """One-sided p values after Benjamini and Hochberg within each family; alpha / 2 decides.

    Both sides of all pairs of a family are one set of hypotheses: of the claims FASTER and SLOWER
    together, an expected share of at most alpha is wrong. A pair on its own keeps its p values. NaN
    (not tested) stays NaN and is no member.
    """
    tested = np.flatnonzero(~np.isnan(faster) & ~np.isnan(slower))
    faster, slower = faster.copy(), slower.copy()
    order = tested[np.argsort(families[tested], kind="stable")]
    starts = np.flatnonzero(np.diff(families[order])) + 1
    for members in np.split(order, starts):
        if len(members) < 2:
            continue
        sides = np.concatenate([faster[members], slower[members]])
        # There are twice as many hypotheses as pairs: half of the result meets alpha / 2 as p
        # itself would. Never below p: the side that a pair is not on says nothing.
        adjusted = np.maximum(sides, scipy.stats.false_discovery_control(sides) / 2)
        faster[members], slower[members] = np.split(adjusted, 2)
    return faster, slower
