"""The same cells by several timers: what each gives, and how far each is from the primary one."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.timers import (
    compare_timers,
    overall,
    reference_collector,
    split_plain,
)

_NCU, _PLAIN = "ncu", "plain_timer"


@dataclass(frozen=True)
class TimerError:
    """Where a timer is furthest from the primary one; times in ns."""

    collector: str
    cell: str
    median: float
    reference: float
    ratio: float
    host: float | None
    """Of the plain timer: what is no kernel time but the host's; None where it is not known."""
    caches: float | None
    """Of the plain timer: what other caches and clocks, and the recording, have in it."""


@dataclass(frozen=True, eq=False)
class TimerComparison:
    """What the timers of a run gave."""

    reference: str
    """Collector of the primary timer."""
    collectors: tuple[str, ...]
    """The others."""
    medians: pd.DataFrame
    """`profiler.analyse.timers.TIMER_COLUMNS`: one row per correct cell and other timer."""
    overall: pd.DataFrame
    """`profiler.analyse.timers.OVERALL_COLUMNS`: one row per other timer."""
    plain: pd.DataFrame
    """`profiler.analyse.timers.PLAIN_COLUMNS`: the error of the plain timer against ncu and its
    parts, of cells where these are known."""
    furthest: TimerError | None
    """Where any timer is off by the largest factor from ncu; None without ncu."""


def find_timers(
    samples: pd.DataFrame, summary: pd.DataFrame, correct: Collection[str]
) -> TimerComparison | None:
    """Compare the timers of a run over its correct cells (ids); None where there are not two."""
    reference = reference_collector(samples)
    compared = compare_timers(summary)
    compared = compared[compared["cell"].isin(list(correct))]
    if reference is None or compared.empty:
        return None
    plain = split_plain(summary)
    plain = plain[plain["cell"].isin(list(correct))] if reference == _NCU else plain.iloc[:0]
    return TimerComparison(
        reference=reference,
        collectors=tuple(dict.fromkeys(compared["collector"])),
        medians=compared,
        overall=overall(compared),
        plain=plain[plain["traced"].notna()],
        furthest=_furthest(compared, plain) if reference == _NCU else None,
    )


def _furthest(compared: pd.DataFrame, plain: pd.DataFrame) -> TimerError | None:
    """The largest factor of any timer, in whichever direction."""
    with_ratio = compared[compared["ratio"] > 0]
    if with_ratio.empty:
        return None
    row = max(with_ratio.to_dict("records"), key=lambda row: abs(math.log(row["ratio"])))
    parts = plain[(plain["cell"] == row["cell"]) & plain["traced"].notna()]
    of_plain = row["collector"] == _PLAIN and len(parts) > 0
    return TimerError(
        collector=row["collector"],
        cell=row["cell"],
        median=row["median"],
        reference=row["reference"],
        ratio=row["ratio"],
        host=float(parts["host"].iloc[0]) if of_plain else None,
        caches=float(parts["caches"].iloc[0]) if of_plain else None,
    )
