"""The frame of summaries: one row per cell and metric, with interval, ratio and rank.

And slow visits: medians, intervals and rank tests stand on the middle of a cell's visits. A kernel
that takes 30 % longer in one visit of ten has the same middle as one that never does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.intervals import DEVIATION_OF_MAD, group_intervals
from profiler.analyse.samples import check_samples, metric_columns
from profiler.collect.registry import duration_metrics
from profiler.metrics.queries import better
from profiler.model import FEWEST_BLOCKS, Cell, SessionKind

SUMMARY_COLUMNS = (
    "cell",
    "variant",
    "problem",
    "metric",
    "n",
    "median",
    "mean",
    "min",
    "max",
    "low",
    "high",
    "baseline_median",
    "ratio",
    "ratio_low",
    "ratio_high",
    "rank",
)
"""`variant` and `problem` are ids; `n` is the number of blocks."""

_KEY = ["metric", "cell"]

LEAST_EXCESS = 0.10
"""Least excess of a slow visit over the median, relative."""
_DEVIATIONS = 8.0
"""Least excess of a slow visit, in standard deviations of the core. Of 3,961 recorded cells,
1 % have such a visit."""
_FEWEST_OF = 32
"""Visits of which at least one has to be slow to be reported: most cells have one in a hundred."""


def summarise(
    samples: pd.DataFrame,
    *,
    cells: Sequence[Cell],
    baseline: str | None = None,
    ranked: Collection[str] | None = None,
) -> pd.DataFrame:
    """One row per cell and metric, in columns `SUMMARY_COLUMNS`.

    A block counts once: the median of its repeats, and of the baseline only its first visit. Each
    metric is taken from one kind of session: timing before counters, the primary timer before
    others, finals never. Durations of other collectors are metrics of their own
    (`duration_metrics`). `baseline` is a variant id; `ranked` the ids of the cells that may have a
    rank, or be what ratios refer to, None for all. Rows are in the order of `cells`, then of the
    columns of `samples`; a cell has no row for a metric that it has no sample of.
    """
    check_samples(samples)
    plan = _plan_frame(cells)
    metrics, values = _by_metric(_first_arms(samples), plan)
    blocks = _block_values(values)
    if blocks.empty:
        return _empty_summary()
    summary = _statistics(blocks)
    baselines = plan[plan["variant"] == baseline]
    if ranked is not None:
        baselines = baselines[baselines["id"].isin(ranked)]
    summary = summary.join(_ratios(blocks, summary["median"], plan, baselines)).reset_index()
    summary = summary.merge(plan, left_on="cell", right_index=True)
    summary["rank"] = _ranks(summary, metrics, plan, ranked)
    summary = summary.sort_values(["cell", "metric"], ignore_index=True)
    summary["metric"] = summary["metric"].map(dict(enumerate(metrics)))
    summary["cell"] = summary["id"]
    return summary[list(SUMMARY_COLUMNS)]


def summarise_confirmation(
    samples: pd.DataFrame,
    *,
    cells: Sequence[Cell],
    baseline: str | None,
    ranked: Collection[str],
) -> pd.DataFrame:
    """One row per confirmed cell and metric, over the blocks of the confirmation.

    Columns as of `summarise`, ranks among the confirmed cells; empty without a confirmation.
    """
    finals = samples[samples["kind"] == SessionKind.FINAL.value]
    if finals.empty:
        return _empty_summary()
    # `summarise` leaves out the kind FINAL, so these blocks are passed as timing blocks.
    blocks = finals.assign(kind=SessionKind.TIMING.value)
    return summarise(blocks, cells=cells, baseline=baseline, ranked=ranked)


def _empty_summary() -> pd.DataFrame:
    texts = ("cell", "variant", "problem", "metric")
    types = {name: object if name in texts else np.float64 for name in SUMMARY_COLUMNS}
    return pd.DataFrame({name: np.empty(0, dtype) for name, dtype in types.items()})


def _plan_frame(cells: Sequence[Cell]) -> pd.DataFrame:
    """Cells by their number in the plan: numbers sort in plan order and group faster than ids."""
    rows = [(cell.id, cell.variant.id, cell.problem.id) for cell in cells]
    return pd.DataFrame(rows, columns=["id", "variant", "problem"])


# ---- one value per metric, cell and block --------------------------------------------------------


def _by_metric(samples: pd.DataFrame, plan: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """Names of metrics, and their samples as rows of (metric number, cell number, block, value).

    Without samples of cells that are not in the plan.
    """
    source = _source_rank(samples).to_numpy()
    metrics: list[str] = []
    parts: list[tuple[np.ndarray, ...]] = []
    numbers = pd.Series(plan.index, index=plan["id"], dtype="float64")
    cells = samples["cell"].map(numbers).to_numpy(dtype="float64")
    blocks = samples["block"].to_numpy()

    def add_metric(name: str, values: np.ndarray, rows: np.ndarray) -> None:
        rows = np.flatnonzero(rows & ~np.isnan(cells))
        number = np.full(len(rows), len(metrics))
        parts.append((number, cells[rows].astype("int64"), blocks[rows], values[rows]))
        metrics.append(name)

    for column in (*metric_columns(samples), "kernels"):
        values = samples[column].to_numpy(dtype="float64", na_value=np.nan)
        measured = ~np.isnan(values)
        if measured.any():
            add_metric(column, values, measured & (source == source[measured].min()))
    if "duration_ns" in metrics:
        values = samples["duration_ns"].to_numpy(dtype="float64", na_value=np.nan)
        timed = ~np.isnan(values)
        durations = tuple(duration_metrics().values())
        for rank in sorted(set(source[timed]) - {source[timed].min(), len(durations)}):
            add_metric(durations[rank], values, timed & (source == rank))
    columns = (*_KEY, "block", "value")
    if not parts:
        return metrics, pd.DataFrame(columns=columns, dtype="float64")
    joined = map(np.concatenate, zip(*parts, strict=True))
    return metrics, pd.DataFrame(dict(zip(columns, joined, strict=True)))


def block_values(samples: pd.DataFrame, cells: Sequence[Cell], metric: str) -> pd.DataFrame:
    """One value of a metric per cell and block, from the samples that the summary is made of.

    Columns `cell` (id), `block`, `value`; empty where the metric has no sample.
    """
    other_metrics = [name for name in metric_columns(samples) if name != metric]
    plan = _plan_frame(cells)
    metrics, values = _by_metric(_first_arms(samples).drop(columns=other_metrics), plan)
    if metric not in metrics:
        return pd.DataFrame(columns=["cell", "block", "value"])
    blocks = _block_values(values[values["metric"] == metrics.index(metric)])
    return blocks.assign(cell=blocks["cell"].map(plan["id"]))[["cell", "block", "value"]]


def _first_arms(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples without finals and the baseline's second visits, which only serve the noise floor."""
    return samples[(samples["arm"] == 0) & (samples["kind"] != SessionKind.FINAL.value)]


def _source_rank(samples: pd.DataFrame) -> pd.Series[int]:
    """Priority of each sample's session, 0 first: in order of the timers, counter passes last."""
    ranks = {name: rank for rank, name in enumerate(duration_metrics())}
    rank = samples["collector"].map(ranks)
    rank = rank.where(samples["kind"] != SessionKind.COUNTERS.value, len(ranks))
    return rank.fillna(len(ranks)).astype("int64")


def _block_values(values: pd.DataFrame) -> pd.DataFrame:
    """Rows of (metric, cell, block, value), sorted; the median where a block has repeats."""
    return values.groupby([*_KEY, "block"])["value"].median().reset_index()


# ---- statistics ----------------------------------------------------------------------------------


def _statistics(blocks: pd.DataFrame) -> pd.DataFrame:
    """Count, median, mean, extremes and interval, by metric and cell."""
    grouped = blocks.groupby(_KEY)["value"]
    table = grouped.agg(["count", "median", "mean", "min", "max"]).rename(columns={"count": "n"})
    low, high = group_intervals(blocks["value"].to_numpy(), table["n"].to_numpy())
    return table.assign(low=low, high=high)


# ---- ratio to the baseline -----------------------------------------------------------------------


def _ratios(
    blocks: pd.DataFrame, medians: pd.Series[float], plan: pd.DataFrame, baselines: pd.DataFrame
) -> pd.DataFrame:
    """Median ÷ median of the baseline of the problem, by metric and cell.

    In the blocks that both have, with the interval of the paired ratios; without an interval where
    there are none or values are not positive. `baseline_median` is what was divided by.
    """
    baselines = baselines.drop_duplicates("problem")
    baseline_cell = plan["problem"].map(pd.Series(baselines.index, index=baselines["problem"]))
    plain = _ratio_of_medians(medians, baseline_cell)
    return _paired_ratios(blocks, baseline_cell).reindex(medians.index).fillna(plain)


def _ratio_of_medians(medians: pd.Series[float], baseline_cell: pd.Series[float]) -> pd.DataFrame:
    """Median of the baseline, and median ÷ that; no ratio where it is not above 0."""
    keys = medians.index.to_frame(index=False)
    of_baseline = pd.MultiIndex.from_arrays(
        [keys["metric"], keys["cell"].map(baseline_cell)], names=_KEY
    )
    reference = pd.Series(medians.reindex(of_baseline).to_numpy(), index=medians.index)
    ratio = (medians / reference).where((reference > 0) & (medians >= 0))
    return pd.DataFrame({"baseline_median": reference, "ratio": ratio})


def _paired_ratios(blocks: pd.DataFrame, baseline_cell: pd.Series[float]) -> pd.DataFrame:
    """Quotient of the medians over shared blocks, and the 95 % interval of the paired ratios."""
    rows = blocks.assign(baseline=blocks["cell"].map(baseline_cell))
    reference = blocks.rename(columns={"cell": "baseline", "value": "reference"})
    pairs = rows.merge(reference, on=["metric", "baseline", "block"])
    positive = (pairs["value"] > 0) & (pairs["reference"] > 0)
    usable = positive.groupby([pairs["metric"], pairs["cell"]]).transform("all")
    pairs = pairs[usable.astype(bool)].sort_values([*_KEY, "block"])
    pairs = pairs.assign(log=np.log(pairs["value"] / pairs["reference"]))
    grouped = pairs.groupby(_KEY)
    low, high = group_intervals(pairs["log"].to_numpy(), grouped["log"].count().to_numpy())
    medians = grouped[["value", "reference"]].median()
    ratio = medians["value"] / medians["reference"]
    return pd.DataFrame(
        {
            "baseline_median": medians["reference"],
            "ratio": ratio,
            "ratio_low": np.minimum(np.exp(low), ratio),
            "ratio_high": np.maximum(np.exp(high), ratio),
        }
    )


# ---- ranks ---------------------------------------------------------------------------------------


def _ranks(
    summary: pd.DataFrame,
    metrics: Sequence[str],
    plan: pd.DataFrame,
    ranked: Collection[str] | None,
) -> pd.Series[float]:
    """Rank within problem and metric, 1 the best; equal medians share the better rank."""
    signs = {"lower": 1.0, "higher": -1.0, None: np.nan}
    sign = summary["metric"].map({i: signs[better(name)] for i, name in enumerate(metrics)})
    allowed = summary["id"].isin(plan["id"] if ranked is None else list(ranked))
    score = (summary["median"] * sign).where(allowed)
    return score.groupby([summary["problem"], summary["metric"]]).rank(method="min")


# ---- slow visits ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowVisits:
    """Slow visits of a cell."""

    count: int
    visits: int
    """Number of all visits of the cell, slow or not."""
    factor: float
    """Median duration of the slow visits ÷ that of all visits."""
    median: float
    """Median of the durations of all visits, in ns."""
    p95: float
    """Their 95th percentile, in ns."""

    @property
    def share(self) -> float:
        """Slow visits ÷ all visits, 0 to 1."""
        return self.count / self.visits


def slow_visits(times: pd.DataFrame) -> dict[str, SlowVisits]:
    """Slow visits by cell id, from rows of `judge.visit_times`; cells without any are left out."""
    durations = times.dropna(subset="duration_ns").groupby("cell", sort=False)["duration_ns"]
    by_cell = {
        str(cell): slow_visits_of_cell(rows.to_numpy(dtype=np.float64)) for cell, rows in durations
    }
    return {cell: slow for cell, slow in by_cell.items() if slow is not None}


def slow_visits_of_cell(durations: npt.NDArray[np.float64]) -> SlowVisits | None:
    """Slow visits of one cell (visits,); None without any, or with too few visits to tell."""
    if len(durations) < FEWEST_BLOCKS:
        return None
    ordered = np.sort(durations)
    middle = len(ordered) // 2
    median = float((ordered[~middle] + ordered[middle]) / 2)
    if ordered[-1] <= median + LEAST_EXCESS * median:  # as of nearly every cell
        return None
    deviation = DEVIATION_OF_MAD * float(np.median(np.abs(durations - median)))
    slow = durations[durations > median + max(LEAST_EXCESS * median, _DEVIATIONS * deviation)]
    if len(slow) * _FEWEST_OF < len(durations) or not len(slow):
        return None
    return SlowVisits(
        len(slow),
        len(durations),
        float(np.median(slow)) / median,
        median,
        float(np.percentile(durations, 95)),
    )
