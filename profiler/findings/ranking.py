"""Which variant is best: per problem, over all problems, and as the one variant for everything.

All functions read a summary and judge only cells that have a rank. Where verdicts are given, they
say which cell is the best of a problem and which ones tie with it; else ranks and intervals do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import scipy

from profiler.metrics.queries import better
from profiler.model import Verdict


@dataclass(frozen=True)
class Decided:
    """What verdicts say of the best of each problem."""

    best: Mapping[str, str] = field(default_factory=dict)
    """Cell id of the best by problem id; of a problem that is not in it, rank 1 is the best."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """By cell id, against the best of its problem. Only those that a test gave: of a cell that is
    not in it, intervals have to say whether it ties."""


UNDECIDED = Decided()


@dataclass(frozen=True)
class Contender:
    """One variant on one problem, seen from the best one there."""

    variant: str
    cell: str
    median: float
    behind_pct: float
    """How much worse than the best, in percent of the best; 0 for the best itself."""


@dataclass(frozen=True)
class Place:
    """Where one variant stands at one problem."""

    behind_pct: float
    """How much worse than the best, in percent of the best; negative where it is better."""
    tied: bool
    """Whether it is not shown to be worse than the best; true of the best itself."""
    best: bool
    verdict: Verdict | None = None
    """Against the best; None where no test gave one, and for the best itself."""


@dataclass(frozen=True)
class ProblemBest:
    """The best variant of one problem."""

    problem: str
    metric: str
    variant: str
    cell: str
    median: float
    low: float | None
    high: float | None
    """Interval of the median; None below three blocks."""
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    """To the baseline; None without one."""
    tied: tuple[Contender, ...]
    """Runners-up that are not shown to be worse than the best."""
    runner_up: Contender | None
    """The best that is not tied, or None where all are."""
    ranked: int
    """How many variants were compared."""


@dataclass(frozen=True)
class VariantOverall:
    """One variant over all problems that it and the baseline both have."""

    variant: str
    problems: int
    geomean_ratio: float
    worst_ratio: float
    worst_problem: str
    best_at: int
    """On how many problems it has rank 1."""


@dataclass(frozen=True)
class Regret:
    """What it costs to use one variant everywhere, against the best of each problem."""

    variant: str
    problems: int
    missing: tuple[str, ...]
    """Problems where the variant has no rank; the costs say nothing about them."""
    mean_pct: float
    worst_pct: float
    worst_problem: str


def best_per_problem(
    summary: pd.DataFrame, metric: str, decided: Decided = UNDECIDED
) -> tuple[ProblemBest, ...]:
    """The best ranked cell of each problem, in the order of the summary."""
    rows = _ranked(summary, metric)
    return tuple(_best(group, metric, decided) for _, group in rows.groupby("problem", sort=False))


def _ranked(summary: pd.DataFrame, metric: str) -> pd.DataFrame:
    return summary[(summary["metric"] == metric) & summary["rank"].notna()]


def _best_first(group: pd.DataFrame, decided: Decided) -> pd.DataFrame:
    """Rows of one problem by rank, the decided best before all."""
    ordered = group.sort_values("rank", kind="stable")
    is_best = ordered["cell"] == decided.best.get(str(ordered["problem"].iloc[0]))
    return pd.concat([ordered[is_best], ordered[~is_best]]) if is_best.any() else ordered


def _best(group: pd.DataFrame, metric: str, decided: Decided) -> ProblemBest:
    ordered = _best_first(group, decided)
    best, rest = ordered.iloc[0], ordered.iloc[1:]
    tied = np.array([_tied(best, row, decided) for _, row in rest.iterrows()], dtype=bool)
    contenders = [
        Contender(row["variant"], row["cell"], float(row["median"]), cost)
        for (_, row), cost in zip(rest.iterrows(), _behind_pct(ordered, metric)[1:], strict=True)
    ]
    apart = [one for one, is_tied in zip(contenders, tied, strict=True) if not is_tied]
    return ProblemBest(
        problem=best["problem"],
        metric=metric,
        variant=best["variant"],
        cell=best["cell"],
        median=float(best["median"]),
        low=_known(best["low"]),
        high=_known(best["high"]),
        ratio=_known(best["ratio"]),
        ratio_low=_known(best["ratio_low"]),
        ratio_high=_known(best["ratio_high"]),
        tied=tuple(one for one, is_tied in zip(contenders, tied, strict=True) if is_tied),
        runner_up=apart[0] if apart else None,
        ranked=len(ordered),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _tied(best: pd.Series[Any], row: pd.Series[Any], decided: Decided) -> bool:
    verdict = decided.verdicts.get(str(row["cell"]))
    return _overlap(best, row) if verdict is None else verdict is not Verdict.SLOWER


def _overlap(one: pd.Series[Any], other: pd.Series[Any]) -> bool:
    """Whether two intervals overlap: those of the ratios, which are paired, else of the medians.

    Without intervals only equal medians are tied.
    """
    for low, high in (("ratio_low", "ratio_high"), ("low", "high")):
        ends = [one[low], one[high], other[low], other[high]]
        if not np.isnan(ends).any():
            return bool(one[low] <= other[high] and other[low] <= one[high])
    return bool(one["median"] == other["median"])


def _behind_pct(ordered: pd.DataFrame, metric: str) -> list[float]:
    """How much worse than the first row each row is, in percent of it; negative: better."""
    medians = ordered["median"].to_numpy(dtype=np.float64)
    sign = -1.0 if better(metric) == "higher" else 1.0
    best = medians[0]
    costs = sign * 100 * (medians - best) / best if best > 0 else np.full(len(medians), np.nan)
    return [float(cost) for cost in costs]


def places(
    summary: pd.DataFrame,
    metric: str,
    *,
    apart: Collection[str] = (),
    decided: Decided = UNDECIDED,
) -> Mapping[tuple[str, str], Place]:
    """Every ranked cell, by (variant id, problem id), seen from the best of its problem.

    Variants that stand `apart` are never the best, and may be better than it. A problem that only
    has such variants is left out. A rival whose median is below that of the decided best is nothing
    behind it.
    """
    found: dict[tuple[str, str], Place] = {}
    for problem, group in _ranked(summary, metric).groupby("problem", sort=False):
        aside = group["variant"].isin(list(apart))
        if aside.all():
            continue
        rivals = _best_first(group[~aside], decided)
        best = rivals.iloc[0]
        ordered = pd.concat([rivals, group[aside]])
        for (_, row), cost in zip(ordered.iterrows(), _behind_pct(ordered, metric), strict=True):
            variant, is_best = str(row["variant"]), row["cell"] == best["cell"]
            place = Place(
                cost if variant in apart else _cost(cost),
                is_best or _tied(best, row, decided),
                best=is_best,
                verdict=None if is_best else decided.verdicts.get(str(row["cell"])),
            )
            found[variant, str(problem)] = place
    return found


def _cost(behind: float) -> float:
    """What using a rival costs against the best: nothing where its median was lower by chance."""
    return behind if np.isnan(behind) else max(0.0, behind)


def overall(summary: pd.DataFrame, metric: str) -> tuple[VariantOverall, ...]:
    """Ratio to the baseline over all problems, best geometric mean first.

    Only problems that both have, with a positive ratio. Variants without one are left out.
    """
    rows = _ranked(summary, metric)
    rows = rows[rows["ratio"] > 0]
    higher = better(metric) == "higher"
    found = [
        _overall(str(variant), group, higher=higher)
        for variant, group in rows.groupby("variant", sort=False)
    ]
    return tuple(sorted(found, key=lambda one: one.geomean_ratio, reverse=higher))


def _overall(variant: str, group: pd.DataFrame, *, higher: bool) -> VariantOverall:
    ratios = group["ratio"].to_numpy(dtype=np.float64)
    worst = int(ratios.argmin() if higher else ratios.argmax())
    return VariantOverall(
        variant=variant,
        problems=len(group),
        geomean_ratio=float(scipy.stats.gmean(ratios)),
        worst_ratio=float(ratios[worst]),
        worst_problem=str(group["problem"].iloc[worst]),
        best_at=int((group["rank"] == 1).sum()),
    )


def one_for_all(
    summary: pd.DataFrame, metric: str, decided: Decided = UNDECIDED
) -> tuple[Regret, ...]:
    """Cost of each variant as the only one.

    Variants that have most problems come first, among them those with the smallest worst cost.
    """
    rows = _ranked(summary, metric)
    problems = list(dict.fromkeys(rows["problem"]))
    groups = [
        (first := _best_first(group, decided)).assign(behind=_costs(first, metric))
        for _, group in rows.groupby("problem", sort=False)
    ]
    if not groups:
        return ()
    rows = pd.concat(groups).dropna(subset=["behind"])
    found = [
        _regret(str(variant), group, problems)
        for variant, group in rows.groupby("variant", sort=False)
    ]
    return tuple(sorted(found, key=lambda one: (len(one.missing), one.worst_pct)))


def _costs(ordered: pd.DataFrame, metric: str) -> list[float]:
    return [_cost(behind) for behind in _behind_pct(ordered, metric)]


def _regret(variant: str, group: pd.DataFrame, problems: list[str]) -> Regret:
    behind = group["behind"].to_numpy(dtype=np.float64)
    worst = int(behind.argmax())
    own = set(group["problem"])
    return Regret(
        variant=variant,
        problems=len(group),
        missing=tuple(problem for problem in problems if problem not in own),
        mean_pct=float(behind.mean()),
        worst_pct=float(behind[worst]),
        worst_problem=str(group["problem"].iloc[worst]),
    )
