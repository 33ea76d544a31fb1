"""Tests on paired blocks, many pairs at a time: signed ranks, noise floors, multiple comparisons.

A row holds the log ratios ln(candidate / baseline) of one pair, one value per block, all finite.
Every function answers each row as if it were alone: a row's neighbours never change its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from profiler.analyse.intervals import SEED, Floats, drawn_medians

FLOOR_PERCENTILE = 95.0
"""Percentile of the bootstrapped median of two equal arms that is a noise floor."""
_POWER = 0.8
"""Detectable: found four times out of five."""
_DRAWS = 400
"""Simulated runs: they know a power of 0.8 to 0.02."""
_ROWS_AT_ONCE = 256
_ONE_SHAPE = ((0.1, 4.5),)
"""Share of wide values of the noise, and their deviation ÷ that of the others, where the blocks are
too few to tell, or very many."""
_SHAPES = tuple((share, width) for share in (0.0, 0.05, 0.1, 0.2) for width in (2, 4, 9, 19, 40))
"""Shares and deviations of noise with `_SHAPED` blocks: spikes of kernels are up to 35 times as
wide."""
_SHAPED = range(12, 51)
"""Numbers of blocks that tell how wide the tails are, and whose simulation is short."""
_DRAWS_OF_SHAPE = 100
_MOST_SIMULATED = 200
"""Blocks of a simulated run. One of more scatters less by the root of their number, as all means of
many blocks do; simulating it would take memory and time by the square."""
_GOLDEN = (5**0.5 - 1) / 2
_MOST_FLIPPED = 100
"""Blocks up to which sign flips are counted; the work grows with the cube of their number."""
_MOST_UNROUNDED = 53
"""Blocks up to which shares of flips are exact: sums of powers of two that floats can hold."""
_PARTS = 16
"""Parts of the simulated runs whose means are in memory one after the other."""
_MOST_EXACT = 50
"""Blocks up to which `scipy.stats.wilcoxon` takes the exact distribution."""
_STRONG = 3.0
"""Margins beyond which every block of an overwhelming effect lies."""
_LEAST_SCATTER = 0.1
"""Least standard deviation of an overwhelming effect, in margins: ticks of a timer hide smaller."""
DIGITS = 8
"""Log ratios that differ by less are equal: dividing and taking logs costs last digits, and ties
have to be seen whatever the unit of the times. No tool tells times apart by one part in 10^8."""


def margin_tests(rows: Floats, margins: Floats) -> tuple[Floats, Floats, Floats]:
    """P values of FASTER, SLOWER and SAME, each (count,), by signed ranks (Wilcoxon).

    One-sided, of rows (count, n): against "the median is not below -margin", "not above
    +margin", and "outside the `margins` (count,)", the larger of two tests (TOST).

    An overwhelming effect has the p values of its t test, where they are smaller: that of signed
    ranks is at least 2^-n, however far from the margin n blocks are.
    """
    faster, above_lower = signed_rank_tails(rows + margins[:, np.newaxis])
    below_upper, slower = signed_rank_tails(rows - margins[:, np.newaxis])
    return (
        np.minimum(faster, overwhelming_tails(-rows, margins)),
        np.minimum(slower, overwhelming_tails(rows, margins)),
        np.maximum(above_lower, below_upper),
    )


def overwhelming_tails(rows: Floats, margins: Floats) -> Floats:
    """P value (count,) that each row (count, n) is above three margins by an overwhelming effect.

    By a one-sided t test against three margins where every block lies beyond them, else 1. It
    assumes that blocks are independent and their mean is close to normal. If they are not, a
    row without an effect has all blocks beyond one side in 2^-n of the cases at most.
    `benchmarks/verdicts/claims.py` counts false verdicts under noise that is skewed, has spikes
    and has two modes.
    """
    n = rows.shape[1]
    strong = _STRONG * margins
    scatter = np.maximum(rows.std(axis=1, ddof=1), _LEAST_SCATTER * margins)
    distance = (rows.mean(axis=1) - strong) * np.sqrt(n) / scatter
    tails: Floats = np.where(rows.min(axis=1) > strong, stdtr(n - 1, -distance), 1.0)
    return tails


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
    for testable in (~tied, tied & ~flipped & (sizes[:, -1] > 0)):
        indices = np.flatnonzero(testable)
        if len(indices):
            less[indices] = _wilcoxon(rows[indices], "less")
            greater[indices] = _wilcoxon(rows[indices], "greater")
    for index in np.flatnonzero(flipped):
        less[index], greater[index] = _sign_flip_tails(rows[index])
    return less, greater


def _wilcoxon(rows: Floats, alternative: Literal["less", "greater"]) -> Floats:
    """P values of rows without ties and zeros, those of `scipy.stats.wilcoxon` to the last digit.

    Without the import of `scipy.stats`, which takes half a second.
    """
    n = rows.shape[1]
    if n > _MOST_EXACT:
        return np.array([_normal_tails(row)[alternative] for row in rows])
    ranks = np.abs(rows).argsort(axis=1).argsort(axis=1) + 1
    positive = np.where(rows > 0, ranks, 0).sum(axis=1)
    tails: Floats = _rank_sum_tails(n)[alternative][positive]
    return tails


def _normal_tails(row: Floats) -> dict[str, float]:
    """Tails of the sum of positive ranks, by the normal distribution that scipy takes for it.

    Zeros have ranks and count for neither side (Pratt); ties narrow the distribution.
    """
    _, places, counts = np.unique(np.abs(row), return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[places]
    n, zeros = len(row), np.count_nonzero(row == 0)
    of_ties = (counts**3 - counts)[int(zeros > 0) :].sum() / 2
    variance = n * (n + 1) * (2 * n + 1) - zeros * (zeros + 1) * (2 * zeros + 1) - of_ties
    middle = (n * (n + 1) - zeros * (zeros + 1)) / 4
    distance = (ranks[row > 0].sum() - middle) / np.sqrt(variance / 24)
    return {"less": ndtr(distance), "greater": ndtr(-distance)}


@cache
def _rank_sum_tails(n: int) -> dict[str, Floats]:
    """Probabilities that the sum of positive ranks is at most (`less`), at least each number."""
    share = _flip_shares(tuple(range(1, n + 1)))  # exact, and so are its sums
    return {"less": share.cumsum(), "greater": share[::-1].cumsum()[::-1]}


def _sign_flip_tails(row: Floats) -> tuple[float, float]:
    """Both tail probabilities of the sum of signed ranks over all 2^n sign flips, exactly.

    The same answer as `scipy.stats.permutation_test(permutation_type="samples")` that enumerates
    every flip. That takes 2^32 of them for 32 blocks; drawn at random instead, ten thousand flips
    of 3000 pairs take seconds, depend on the order of the blocks, and cannot give a p value small
    enough for the first of 80 comparisons. Doubled midranks are whole numbers, so that the counts
    of all sums follow from one addition per block. Zeros keep their rank and count for neither
    side (Pratt), which is the careful choice.
    """
    _, places, counts = np.unique(np.abs(row), return_inverse=True, return_counts=True)
    doubled = (2 * counts.cumsum() - counts + 1)[places]
    ranks, positive = doubled[row != 0].tolist(), int(doubled[row > 0].sum())
    # What is exact is the same in any order of the ranks.
    share = _flip_shares(tuple(ranks if len(ranks) > _MOST_UNROUNDED else sorted(ranks)))
    return float(min(1.0, share[: positive + 1].sum())), float(min(1.0, share[positive:].sum()))


@lru_cache(maxsize=512)  # few rows have ties, and these often at the same ranks
def _flip_shares(doubled_ranks: tuple[int, ...]) -> Floats:
    """Share of all sign flips that have each sum of positive ranks, from 0 on."""
    share = np.zeros(sum(doubled_ranks) + 1)
    share[0] = 1.0
    for rank in doubled_ranks:
        share[rank:] += share[:-rank].copy()
        share /= 2
    return share


def median_floors(rows: Floats) -> Floats:
    """Noise floor of each row of A/A' differences (count, n), in the unit of the differences.

    The 95th percentile of |bootstrapped median|; the value's own size where all are equal.
    """
    drawn = drawn_medians(np.sort(rows, axis=1))
    floors: Floats = np.percentile(np.abs(drawn), FLOOR_PERCENTILE, axis=-1)
    return floors


def detectable_effects(
    rows: Floats, floors: Floats, least: Floats, levels: Floats, session_sds: Floats
) -> Floats:
    """Smallest true log ratio that another run like this one would find four times out of five.

    By simulation of `margin_tests` at the `levels` (count,) that p values have to meet, for rows
    (count, n) with their scatter. The margins are those of the other run, whose noise floor is
    another draw: at least `least` (count,), else around `floors` (count,), NaN where these are not
    known. That run has an offset of its own, with the deviations `session_sds` (count,).
    """
    count, n = rows.shape
    effects = np.empty(count)
    simulated_blocks = min(n, _MOST_SIMULATED)
    noise, scale = _simulated_noise(simulated_blocks), np.sqrt(simulated_blocks / n)
    for start in range(0, count, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        similar_draws, scatter = noise.similar_draws(rows[part])
        margins = np.fmax(
            least[part, np.newaxis], floors[part, np.newaxis] * noise.floor_ratios[similar_draws]
        )
        level = levels[part, np.newaxis]
        overwhelming = _overwhelming_shifts(noise, similar_draws, scatter, margins, level)
        shifts = scale * np.take_along_axis(
            _rank_shifts(simulated_blocks, level[:, 0]), similar_draws, axis=1
        )
        with np.errstate(invalid="ignore"):
            by_ranks = np.where(np.isinf(shifts), np.inf, margins + scatter * shifts)
        offsets = session_sds[part, np.newaxis] * noise.offsets[similar_draws]
        effects[part] = np.quantile(np.minimum(by_ranks, overwhelming) + offsets, _POWER, axis=1)
    return effects


@dataclass(frozen=True)
class _SimulatedNoise:
    """Rows of noise without an effect, of many shapes, with estimates from other rows.

    Normal noise of which a share of the values has a larger deviation, as visits that take longer
    make it. Of few blocks one shape stands for all (`benchmarks/verdicts/claims.py` has the power
    under several kinds of noise). Of more, rows are of many, in the order of the `tails` of other
    rows of the same noise: what is known of a run's noise is how its values scatter, and rows
    that were simulated beside others like it are what it may have come from.
    """

    rows: Floats
    """(draws, n)"""
    other_scatter: Floats
    """Estimated scatter of as many other rows, (draws,)."""
    tails: Floats | None
    """Widths of the tails of the rows, ascending, (draws,); None where all have one shape."""
    floor_ratios: Floats
    """Noise floor of one run ÷ that of another, (draws,)."""
    offsets: Floats
    """Standard normal values, (draws,)."""

    def similar_draws(self, rows: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
        """Draws whose other rows resemble each of `rows` (count, n), and factors for their scale.

        Both are (count, `_DRAWS`).
        """
        if self.tails is None:
            scatter = rows.std(axis=1, ddof=1)
            draws = np.broadcast_to(np.arange(_DRAWS), (len(rows), _DRAWS))
        else:
            scatter, tails = _core_and_tails(rows)
            first_draw = np.searchsorted(self.tails, tails) - _DRAWS // 2
            first_draw = np.clip(first_draw, 0, len(self.tails) - _DRAWS)
            draws = first_draw[:, np.newaxis] + np.arange(_DRAWS)
        return draws, scatter[:, np.newaxis] / self.other_scatter[draws]


def _core_and_tails(rows: Floats) -> tuple[Floats, Floats]:
    """Standard deviation of the core of each row, by its quartile distances, and of all ÷ core.

    The core is taken to be no narrower than a twentieth of all: ticks of a timer make values equal.
    """
    distances = np.abs(rows - np.median(rows, axis=1, keepdims=True))
    spread = rows.std(axis=1, ddof=1)
    core = np.maximum(np.median(distances, axis=1) / ndtri(0.75), spread / 20)
    return core, spread / np.where(core > 0, core, 1.0)


@cache
def _simulated_noise(n: int) -> _SimulatedNoise:
    generator = np.random.default_rng(SEED)
    shapes, draws = (_SHAPES, _DRAWS_OF_SHAPE) if n in _SHAPED else (_ONE_SHAPE, _DRAWS)
    values = generator.normal(size=(3, len(shapes), draws, n))
    share, width = (np.array(column).reshape(-1, 1, 1) for column in zip(*shapes, strict=True))
    values *= np.where(generator.random(values.shape) < share, width, 1.0)
    rows, other_rows, floor_rows = values.reshape(3, -1, n)
    # Floors take longest: a quarter of the rows of a shape, each beside four others.
    floor_sample = floor_rows.reshape(len(shapes), draws, n)[:, : draws // 4].reshape(-1, n)
    floors = median_floors(floor_sample).reshape(len(shapes), -1)
    ratios = np.hstack([floors / np.roll(floors, offset, axis=1) for offset in range(1, 5)]).ravel()
    if n not in _SHAPED:
        offsets = generator.normal(size=draws)
        return _SimulatedNoise(rows, other_rows.std(axis=1, ddof=1), None, ratios, offsets)
    # Multiples of the golden ratio: those of any neighbours are spread as evenly as all.
    offsets = ndtri((np.arange(len(rows)) * _GOLDEN + 0.5) % 1)
    core, tails = _core_and_tails(other_rows)
    order = np.argsort(tails)
    return _SimulatedNoise(rows[order], core[order], tails[order], ratios[order], offsets)


def _rank_shifts(n: int, levels: Floats) -> Floats:
    """Shift of each draw of noise at which signed ranks meet each level: (levels, draws).

    Infinite where they never do.
    """
    distinct, places = np.unique(levels, return_inverse=True)
    return np.array([_rank_shift(n, float(level)) for level in distinct])[places]


@cache
def _rank_shift(n: int, level: float) -> Floats:
    """Shift of the ranks at one level, (draws,).

    A row shifted by x is above 0 by its ranks where at most so many means of two of its values
    (Walsh averages) are below -x.
    """
    rows = _simulated_noise(n).rows
    if n > _MOST_EXACT:
        sum_deviation = np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        allowed = int(n * (n + 1) / 4 + ndtri(level) * sum_deviation)
    else:
        allowed = int((_rank_sum_tails(n)["less"] < level).sum()) - 1
    if allowed < 0:
        return np.full(len(rows), np.inf)
    if n in _SHAPED:
        return -_ordered_means(n)[:, allowed].astype(np.float64)
    first, second = np.triu_indices(n)
    averages = (
        (some_rows[:, first] + some_rows[:, second]) / 2
        for some_rows in np.array_split(rows, _PARTS)
    )
    return -np.concatenate([np.partition(part, allowed)[:, allowed] for part in averages])


@cache
def _ordered_means(n: int) -> npt.NDArray[np.float32]:
    """Lower half of the means of all pairs of values of each row of noise, ascending."""
    first, second = np.triu_indices(n)
    rows = _simulated_noise(n).rows.astype(np.float32)
    means: npt.NDArray[np.float32] = np.sort((rows[:, first] + rows[:, second]) * np.float32(0.5))
    return means[:, : len(first) // 2 + 1].copy()


def _overwhelming_shifts(
    noise: _SimulatedNoise,
    draws: npt.NDArray[np.intp],
    scatter: Floats,
    margins: Floats,
    levels: Floats,
) -> Floats:
    """Shift of the `draws` of each pair at which its effect is overwhelming at its level.

    Scaled by `scatter`; all but the levels (count, 1) are (count, draws).
    """
    rows = noise.rows
    n = rows.shape[1]
    deviations, means, lowest = (
        of_rows[draws]
        for of_rows in (rows.std(axis=1, ddof=1), rows.mean(axis=1), rows.min(axis=1))
    )
    strong = _STRONG * margins
    error = np.maximum(scatter * deviations, _LEAST_SCATTER * margins) / np.sqrt(n)
    by_mean = strong + stdtrit(n - 1, 1 - levels) * error - scatter * means
    shifts: Floats = np.maximum(by_mean, strong - scatter * lowest)
    return shifts


def family_levels(
    faster: Floats, slower: Floats, families: npt.NDArray[np.integer[Any]], alpha: float
) -> Floats:
    """One-sided p value that each pair has to meet, given the other pairs of its family.

    From the p values that `adjust_families` gives: of f pairs that are tested together, of which r
    others differ, the next one needs p below alpha / 2 · (r + 1) / f.
    """
    tested = ~np.isnan(faster) & ~np.isnan(slower)
    differs = tested & (np.fmin(faster, slower) < alpha / 2)
    _, places = np.unique(families, return_inverse=True)
    members = np.bincount(places, tested)[places]
    other_differing = np.bincount(places, differs)[places] - differs
    levels: Floats = alpha / 2 * np.minimum(1.0, (other_differing + 1) / np.maximum(members, 1))
    return levels


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
        adjusted = np.maximum(sides, _false_discovery_rates(sides) / 2)
        faster[members], slower[members] = np.split(adjusted, 2)
    return faster, slower


def _false_discovery_rates(p_values: Floats) -> Floats:
    """P values after Benjamini and Hochberg, as `scipy.stats.false_discovery_control` has them."""
    order = np.argsort(p_values)
    count = len(p_values)
    rates = p_values[order] * (count / np.arange(1, count + 1))
    adjusted = np.empty_like(rates)
    adjusted[order] = np.minimum.accumulate(rates[::-1])[::-1]
    return np.clip(adjusted, 0.0, 1.0)
