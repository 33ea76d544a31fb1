"""Practical roofs: shares of the hardware's roofs that plain kernels reached in a session.

A copy for device memory, a matrix product of torch for each type of arithmetic (the runner launches
them in ranges of their own). What is kept is their share of the hardware's roof at the clock of the
same launch: so it is compared with cells whose clock was another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.combine import Ranges, combine_metric
from profiler.analyse.derived import evaluate
from profiler.metrics.catalogue import ROOF_PREFIX
from profiler.metrics.formulas import Formula, Quantity, needed_metrics
from profiler.metrics.queries import CATALOGUE
from profiler.parse.nvtx_cells import NvtxRange
from profiler.runner import protocol

_STANDS_FOR = {entry.parts[0]: entry.name for entry in CATALOGUE.values() if entry.parts}
"""First parts of metrics, and these: the products of torch work by them alone where they exist (on
an H200 HGMMA counted all of their operations)."""
_FIRST_PARTS = {whole: part for part, whole in _STANDS_FOR.items()}


def roofs_countable(metrics: Collection[str]) -> tuple[str, ...]:
    """Practical roofs of which a session collects every counter that their share needs."""
    collected = {_STANDS_FOR.get(name, name) for name in metrics}
    return tuple(
        roof
        for roof in protocol.PRACTICAL_ROOFS
        if collected.issuperset(needed_metrics(_share_formula(roof)))
    )


def practical_shares(
    launches: pd.DataFrame, finished: Collection[str], compute_capability: str | None
) -> dict[str, float]:
    """Best share of the hardware's roof over the launches for it, by roof of those `finished`.

    `launches` is a table of ncu; a roof without all of its counters is left out.
    """
    if launches.empty or not finished:
        return {}
    ranges = [_roof_range(nvtx) for nvtx in launches["nvtx"]]
    shares: dict[str, float] = {}
    for roof in finished:
        of_this = [launch if name == roof else None for name, launch in ranges]
        rows = np.array([launch is not None for launch in of_this], dtype=bool)
        numbers = [launch for launch in of_this if launch is not None]
        codes, distinct = pd.factorize(np.array(numbers, dtype=np.intp))
        of_roof = Ranges(launches[rows].reset_index(drop=True), codes, len(distinct))
        best = _best(_values(_share_formula(roof), of_roof, compute_capability))
        if best > 0:
            shares[roof] = best
    return shares


def _share_formula(roof: str) -> Formula:
    formula = CATALOGUE[f"{ROOF_PREFIX}{roof}_pct"].formula
    if formula is None:
        raise TypeError(f"the metric of the roof {roof} has no formula")
    return formula


def _values(formula: Formula, ranges: Ranges, compute_capability: str | None) -> pd.Series[Any]:
    """Percent of the hardware's roof that each range reached."""

    def lookup(quantity: Quantity) -> pd.Series[Any]:
        values = pd.Series(combine_metric(ranges, quantity.name, compute_capability))
        part = _FIRST_PARTS.get(quantity.name)
        if part is None:
            return values
        return values.fillna(pd.Series(combine_metric(ranges, part, compute_capability)))

    return evaluate(formula, lookup)


def _best(percents: Sequence[float] | pd.Series[Any]) -> float:
    """Largest as a share; NaN without any."""
    return max((float(value) / 100 for value in percents if math.isfinite(value)), default=math.nan)


def _roof_range(ranges: Iterable[NvtxRange] | None) -> tuple[str, int]:
    """Roof and launch of the innermost range of the runner that is a roof's; no name without."""
    for nvtx_range in reversed(tuple(ranges or ())):
        if nvtx_range.domain == protocol.NVTX_DOMAIN:
            roof_and_launch = protocol.parse_roof_range_name(nvtx_range.name)
            if roof_and_launch is not None:
                return roof_and_launch
    return "", 0
