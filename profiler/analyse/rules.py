"""The advice of ncu's own rules, by cell."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from profiler.analyse.samples import visit_of_ranges
from profiler.model import Visit

RULE_COLUMNS = (
    *("cell", "kernel", "section", "rule", "type", "text"),
    *("speedup_type", "speedup_pct"),
)
"""`type`: `INF`, `OPT` or `WRN`; `speedup_pct`: ncu's estimate in percent, NaN where it gives none;
`speedup_type`: `global`, of the launch, or `local`, of the part that the rule looks at."""


def empty_rules() -> pd.DataFrame:
    """A frame of rules without rows."""
    return _no_rules().copy(deep=False)


@cache
def _no_rules() -> pd.DataFrame:
    types = {"speedup_pct": "float64"}
    return pd.DataFrame({name: np.empty(0, types.get(name, object)) for name in RULE_COLUMNS})


def cell_rules(
    rules: pd.DataFrame, launches: pd.DataFrame, visit: Visit | None = None
) -> pd.DataFrame:
    """Every different advice on each kernel of each cell: `RULE_COLUMNS`.

    `rules` and `launches` are those of `parse.ncu_csv.NcuTable`. `visit`: the one that the whole
    file is of, where an external command was measured; else ranges say which launch is whose.
    """
    if rules.empty:
        return empty_rules()
    of_launch = launches.iloc[rules["launch"].to_numpy()].reset_index(drop=True)
    visits = [visit_of_ranges(ranges) for ranges in of_launch["nvtx"]]
    cells = [key[0] if key is not None else None for key in visits]
    if visit is not None:
        cells = [visit.cell] * len(visits)
    advice = rules.reset_index(drop=True).rename(columns={"description": "text"})
    cell = pd.Series(cells, dtype=object)
    advice = advice.assign(cell=cell, kernel=of_launch["kernel"]).dropna(subset=["cell"])
    return advice[list(RULE_COLUMNS)].drop_duplicates(ignore_index=True)
