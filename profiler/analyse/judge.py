"""Durations of a run, and the verdict on any pair of its cells.

What a comparison means stands in `verdicts`; here the samples of a run are brought into its form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from profiler.analyse.intervals import (
    DEVIATION_OF_MAD,
    PRIOR_SDS,
    Floats,
    estimated_sds,
    selection_bias,
    session_sds,
)
from profiler.analyse.samples import LONGEST_KERNEL, check_samples
from profiler.analyse.verdicts import (
    COLUMNS,
    DELTA,
    Reason,
    compare,
    find_contenders,
    make_unclear,
    noise_floors,
    overturned_by_launches,
    untimed_by_cell,
)
from profiler.collect.registry import primary_timer
from profiler.model import FEWEST_BLOCKS, Cell, Environment, SessionKind, Verdict

_TIMED = ("duration_ns", "cycles", "kernels", LONGEST_KERNEL)
TIME_COLUMNS = ("cell", "variant", "problem", "block", "arm", *_TIMED, "spread")

LEAST_MIXED_SPREAD = 1.1
"""Slow launches of one visit ÷ quick ones, from which on they may be of several kinds."""
LEAST_NOISE_FACTOR = 5.0
"""Their difference ÷ the noise between visits, from which on they are of several kinds."""

MEDIANS = ("median", "against_median")
"""Median durations of both cells of a pair, in the blocks that they share."""

Pair = tuple[str, str]
"""Ids of a cell and of the cell that it is compared with, of one problem."""


@dataclass(frozen=True)
class Rules:
    """Settings of verdicts, fixed before a run began."""

    looks: int = 1
    """Number of looks at the data before they are complete."""
    delta: float = DELTA
    """Smaller relative differences are SAME."""


def visit_times(
    samples: pd.DataFrame,
    cells: Sequence[Cell],
    kind: SessionKind,
    blocks: int | None = None,
    *,
    collector: str | None = None,
) -> pd.DataFrame:
    """Duration, cycles and kernels by cell, block and arm; columns `TIME_COLUMNS`.

    Of sessions of one kind and of one collector; None: the primary timer of those that measured.
    Repeats of a visit count as their median; `spread` is the 90th by the 10th percentile of
    launches that a tool timed one by one. `blocks`: only those before this number. Cycles are NaN
    where a visit did not count them: those of another launch would repeat the duration. `kernels`:
    those whose durations were added; NaN where the timer counts none. `longest_kernel_ns`:
    the duration of the longest; NaN where it is not known.
    """
    check_samples(samples)
    rows = samples[samples["kind"] == kind.value].reindex(
        columns=["collector", "cell", "block", "arm", *_TIMED]
    )
    rows = rows[rows["duration_ns"].notna()]
    collector = collector or primary_timer(rows["collector"].unique())
    rows = rows[rows["collector"] == collector]
    if blocks is not None:
        rows = rows[rows["block"] < blocks]
    if rows.empty:  # as in every run without a confirmation
        texts = dict.fromkeys(("cell", "variant", "problem"), object)
        return rows.reindex(columns=list(TIME_COLUMNS)).astype(texts)
    visits = rows.drop(columns="collector").groupby(["cell", "block", "arm"], sort=False)
    times = visits.median().assign(spread=_spreads(visits, collector)).reset_index()
    times = times[times["cell"].isin([cell.id for cell in cells])]
    times["cell"] = times["cell"].astype(object)
    for name in ("variant", "problem"):
        times[name] = times["cell"].map({cell.id: getattr(cell, name).id for cell in cells})
    return times[list(TIME_COLUMNS)].reset_index(drop=True)


def kernels_by_cell(times: pd.DataFrame) -> pd.DataFrame:
    """Medians of `kernels` and `longest_kernel_ns` by cell, of times of `visit_times`."""
    medians: pd.DataFrame = times.groupby("cell")[["kernels", LONGEST_KERNEL]].median()
    return medians


def _spreads(visits: Any, collector: str | None) -> pd.Series[Any] | float:
    """Spread of the launches of each visit; 1 where a visit is one launch, or a timer made it."""
    if collector != "ncu" or not (visits.size() > 1).any():
        return 1.0
    durations = visits["duration_ns"]
    spreads: pd.Series[Any] = durations.quantile(0.9) / durations.quantile(0.1)
    return spreads


def mixed_launches(times: pd.DataFrame) -> dict[str, float]:
    """Spread of the launches of a visit, by cell whose launches are not all of one kind.

    Their durations differ by more than the noise between visits, as in a program that
    tries configurations.
    """
    mixed: dict[str, float] = {}
    wide = times.loc[times["spread"] > LEAST_MIXED_SPREAD, "cell"].unique() if len(times) else ()
    for cell, rows in times[times["cell"].isin(list(wide))].groupby("cell", sort=False):
        durations, spread = rows["duration_ns"], float(rows["spread"].median())
        median = float(durations.median())
        noise = DEVIATION_OF_MAD * float((durations - median).abs().median()) / median
        if spread > max(LEAST_MIXED_SPREAD, 1 + LEAST_NOISE_FACTOR * noise):
            mixed[str(cell)] = spread
    return mixed


class _Visits(NamedTuple):
    """Matrices (cells + 1, blocks + 1) of first visits; NaN where nothing was timed.

    The last row and the last column are NaN: pandas' indexer of a missing cell or block is -1.
    """

    cells: pd.Index[Any]
    blocks: pd.Index[Any]
    durations: Floats
    cycles: Floats


@dataclass(frozen=True, eq=False)
class Judge:
    """Durations of one kind of session, and the comparison of any two cells by them."""

    times: pd.DataFrame
    """Times of visits by `visit_times`."""
    baseline: str | None
    """Id of the variant that every block visits twice."""
    rules: Rules = field(default_factory=Rules)
    session_sds: tuple[float, ...] = PRIOR_SDS
    """Standard deviations between sessions by `intervals.estimated_sds`."""
    launches: pd.DataFrame = field(default_factory=lambda: untimed_by_cell({}, Environment()))
    """Table by cell of what sums of kernels leave out, by `untimed_by_cell`."""
    detectable: bool = True
    """Whether verdicts come with detectable effects, which take half of the time."""

    @cached_property
    def _mixed_cells(self) -> frozenset[str]:
        """Cells whose launches are not all of one kind: their verdicts are UNCLEAR."""
        return frozenset(mixed_launches(self.times))

    @cached_property
    def floors(self) -> pd.DataFrame:
        """Noise floors of `duration_ns` and `cycles` by problem, from the baseline's two arms."""
        second_visits = self.times[
            (self.times["variant"] == self.baseline) & (self.times["arm"] == 1)
        ]
        visits = self._first_visits
        cell = visits.cells.get_indexer(pd.Index(second_visits["cell"]))
        block = visits.blocks.get_indexer(pd.Index(second_visits["block"]))
        floors = {}
        for name, first in (("duration_ns", visits.durations), ("cycles", visits.cycles)):
            logs = _log_ratio(first[cell, block], second_visits[name].to_numpy(dtype=np.float64))
            floors[name] = noise_floors(pd.Series(logs), second_visits["problem"])
        return pd.DataFrame(floors)

    @cached_property
    def session_sds_of_problems(self) -> pd.Series[Any]:
        """Standard deviation of a ratio between sessions, by the shortest cell of each problem."""
        medians = self.times.groupby(["problem", "cell"])["duration_ns"].median()
        shortest = medians.groupby("problem").min()
        sds = session_sds(shortest.to_numpy(dtype=np.float64), self.session_sds)
        return pd.Series(sds, index=shortest.index)

    def compare(
        self, pairs: Iterable[Pair], questions: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Verdict of each pair: `cell`, `against`, `problem`, then `verdicts.COLUMNS`, `MEDIANS`.

        `ratio` is the quotient of these medians. Its interval is that of the paired ratios.

        The pairs of a problem are one family of comparisons; with `questions`, one for each pair,
        those of a problem and a question. A pair that later looks left out has the verdict of its
        last look, with its family after as many blocks. Without blocks in common: NO DATA.
        """
        table = pd.DataFrame(list(pairs), columns=["cell", "against"]).astype(object)
        problem_of = self.times.drop_duplicates("cell").set_index("cell")["problem"]
        table["problem"] = table["cell"].map(problem_of)
        table["noise_floor"] = table["problem"].map(self.floors["duration_ns"])
        table["cycles_noise_floor"] = table["problem"].map(self.floors["cycles"])
        table["family"] = table["problem"]
        if questions is not None:
            table["family"] = [*zip(questions, table["problem"], strict=True)]
        blocks = self.paired_ratios(table)
        shorter = blocks.groupby("pair")["shorter_ns"].median().reindex(table.index)
        table["session_sd"] = session_sds(shorter.to_numpy(dtype=np.float64), self.session_sds)
        verdicts = _with_quotients(self._at_last_looks(blocks, table), blocks)
        if self._mixed_cells:
            mixed = table["cell"].isin(self._mixed_cells) | table["against"].isin(self._mixed_cells)
            verdicts.loc[mixed, "verdict"] = Verdict.UNCLEAR
            verdicts.loc[mixed, "reason"] = Reason.MIXED_LAUNCHES
        launches = self.launch_facts(table[["cell", "against"]])
        make_unclear(verdicts, overturned_by_launches(verdicts.join(launches)))
        return table[["cell", "against", "problem"]].join(verdicts[[*COLUMNS, *MEDIANS]])

    def launch_facts(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Pairs (`cell against`) with what `overturned_by_launches` asks of the kernels of both."""
        facts = kernels_by_cell(self.times).join(self.launches)
        return pairs.join(facts, on="cell").join(facts.add_prefix("against_"), on="against")

    def _at_last_looks(self, blocks: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
        """Verdict of each pair by the blocks up to its last one, in columns `verdicts.COLUMNS`.

        Pairs are compared once for each last block: later blocks of other pairs undo no verdict.
        """
        last_blocks = blocks.groupby("pair")["block"].max()
        latest = last_blocks.max() if len(last_blocks) else 0
        last_blocks = last_blocks.reindex(pairs.index, fill_value=latest)
        verdicts = []
        for end in list(last_blocks.unique()) or [latest]:
            ending = last_blocks.index[last_blocks == end]
            verdicts_at_end = compare(
                blocks[blocks["block"] <= end],
                pairs,
                delta=self.rules.delta,
                looks=self.rules.looks,
                described=ending,
                detectable=self.detectable,
            )
            verdicts.append(verdicts_at_end.loc[ending])
        all_verdicts: pd.DataFrame = pd.concat(verdicts).reindex(pairs.index)
        return all_verdicts

    def paired_ratios(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Log ratios and durations: `pair block log_ratio log_cycles`, `MEDIANS`, `shorter_ns`."""
        visits = self._first_visits
        durations, cycles = visits.durations, visits.cycles
        above, below = (visits.cells.get_indexer(pd.Index(pairs[n])) for n in ("cell", "against"))
        pair, block = np.nonzero(~np.isnan(durations[above]) & ~np.isnan(durations[below]))
        first, second = (above[pair], block), (below[pair], block)
        return pd.DataFrame(
            {
                "pair": pairs.index[pair],
                "block": visits.blocks[block],
                "log_ratio": _log_ratio(durations[first], durations[second]),
                "log_cycles": _log_ratio(cycles[first], cycles[second]),
                "median": durations[first],
                "against_median": durations[second],
                "shorter_ns": np.minimum(durations[first], durations[second]),
            }
        )

    def with_baseline(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """Verdict of every cell against the baseline of its problem; columns as of `compare`."""
        return self.compare(self.pairs_with_baseline(cells))

    def pairs_with_baseline(self, cells: Sequence[Cell]) -> list[Pair]:
        """Each of these cells with that of the baseline, where that is one of them."""
        baselines = {cell.problem.id: cell.id for cell in cells if cell.variant.id == self.baseline}
        return [
            (cell.id, baselines[cell.problem.id])
            for cell in cells
            if cell.variant.id != self.baseline and cell.problem.id in baselines
        ]

    def contenders(self, variants: Collection[str]) -> pd.DataFrame:
        """Variants (ids) that may be the best of a problem.

        One row per problem and variant that was timed there: `problem variant best contender`.
        """
        rows = self.times[(self.times["arm"] == 0) & self.times["variant"].isin(list(variants))]
        return find_contenders(
            rows,
            self.floors["duration_ns"],
            delta=self.rules.delta,
            looks=self.rules.looks,
            sds=self.session_sds,
        )

    @cached_property
    def _first_visits(self) -> _Visits:
        """Durations and cycles without the baseline's second visits."""
        rows = self.times[self.times["arm"] == 0]
        cell, cells = pd.factorize(rows["cell"], sort=True)
        block, blocks = pd.factorize(rows["block"], sort=True)
        durations, cycles = np.full((2, len(cells) + 1, len(blocks) + 1), np.nan)
        durations[cell, block], cycles[cell, block] = rows["duration_ns"], rows["cycles"]
        return _Visits(pd.Index(cells), pd.Index(blocks), durations, cycles)

    def selection_bias(self, cells: Collection[str]) -> float:
        """Relative bias (>= 0) of the shortest median of these cells (ids), were all equal.

        NaN without two cells, or with fewer than `FEWEST_BLOCKS` blocks in common.
        """
        visits = self._first_visits
        places = np.unique(visits.cells.get_indexer(pd.Index(list(cells))))
        timed = visits.durations[places[places >= 0]]
        logs = np.log(timed[:, (timed > 0).all(axis=0)])
        if len(logs) < 2 or logs.shape[1] < FEWEST_BLOCKS:
            return float("nan")
        shortest = np.array([np.exp(np.median(logs, axis=1).min())])
        # A ratio has the offsets of two cells.
        cell_sd = float(session_sds(shortest, self.session_sds)[0]) / np.sqrt(2)
        return float(-np.expm1(selection_bias(logs, cell_sd)))


def with_session_sds(
    timing: Judge, final: Judge, cells: Sequence[Cell], *, one_process: bool
) -> tuple[Judge, Judge]:
    """Both judges with offsets between sessions as estimated from the cells that both measured.

    `one_process`: whether one process made both sessions, which then may share an offset: their
    estimate may raise the prior deviations, not lower them.
    """
    if final.times.empty:
        return timing, final
    sds = estimated_sds(*ratios_measured_twice(timing, final, cells))
    if one_process:
        sds = tuple(map(max, sds, PRIOR_SDS))
    return replace(timing, session_sds=sds), replace(final, session_sds=sds)


def ratios_measured_twice(
    timing: Judge, final: Judge, cells: Sequence[Cell]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratios to the baseline by block of the cells that both measured: timing, confirmation.

    Columns as of `Judge.paired_ratios`.
    """
    in_final = frozenset(final.times["cell"].unique())
    pairs = pd.DataFrame(
        [pair for pair in timing.pairs_with_baseline(cells) if pair[0] in in_final],
        columns=["cell", "against"],
        dtype=object,
    )
    return timing.paired_ratios(pairs), final.paired_ratios(pairs)


def _with_quotients(verdicts: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Verdicts with the medians of both cells, and with the quotient of these medians as ratio.

    So that dividing the medians on a page gives the ratio on it. The median of the paired ratios,
    which is tested, differs from that ratio by more than 0.1 % in some pairs of the recordings; in
    3 % of these by more than its interval, which is widened there.
    """
    timed = blocks[np.isfinite(blocks["log_ratio"])]
    medians = timed.groupby("pair")[[*MEDIANS]].median().reindex(verdicts.index)
    quotient = medians["median"] / medians["against_median"]
    return verdicts.assign(
        ratio=quotient,
        ratio_low=verdicts["ratio_low"].clip(upper=quotient),
        ratio_high=verdicts["ratio_high"].clip(lower=quotient),
        **medians,
    )


def _log_ratio(above: Floats, below: Floats) -> Floats:
    """Log of `above` ÷ `below`; NaN where either is missing or not positive."""
    logs: Floats = np.log(np.where(above > 0, above, np.nan) / np.where(below > 0, below, np.nan))
    return logs
