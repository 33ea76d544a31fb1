"""What the launches of two imported files differ by: an account, as of two explained cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from profiler.analyse.why.kernel_profiles import (
    ACTIVE_SUM,
    WARPS_ACTIVE,
    CellProfile,
    KernelProfile,
)
from profiler.findings.verdicts import PairVerdict
from profiler.findings.why.cells import CellWhy, cell_why
from profiler.findings.why.pairs import PairWhy
from profiler.model import Cell, Problem, Variant, Verdict

_KIND = ("kernel", "grid_size", "block_size", "range")
_WARPS_PER_CYCLE = "smsp__warps_active.avg.per_cycle_active"
"""What `ncu --set full` has in place of the sum: it is that sum by active cycles."""
_ALL_LAUNCHES = Problem("launches", "launches")


def files_why(names: Sequence[str], launches: Sequence[pd.DataFrame]) -> PairWhy:
    """The why of two files, the first against the second.

    Of each kernel with its grid, block and NVTX ranges stands one launch, the medians of all. Which
    is the slower one is by these alone: nothing says how sure that is.
    """
    first, second = (_why(name, frame) for name, frame in zip(names, launches, strict=True))
    slower = first.duration_ns >= second.duration_ns
    return PairWhy(
        cell=_cell(names[0]),
        against=_cell(names[1]),
        verdict=PairVerdict(Verdict.SLOWER if slower else Verdict.FASTER),
        first=first,
        second=second,
        timed_ns=(first.duration_ns, second.duration_ns),
    )


def files_document(pair: PairWhy) -> dict[str, Any]:
    """The difference of two files as JSON; what is not known is null."""
    account = pair.account
    return {
        "first": pair.cell.variant.name,
        "second": pair.against.variant.name,
        "first_ns": _known(pair.first.duration_ns),
        "second_ns": _known(pair.second.duration_ns),
        "parts": account and [{"name": part.name, "ns": part.ns} for part in account.parts],
        "residuals": account and list(account.residuals),
        "counters": [
            {
                "name": counter.name,
                "unit": counter.unit,
                "first": counter.first.text or _known(counter.first.value),
                "second": counter.second.text or _known(counter.second.value),
            }
            for counter in pair.counters
            if counter.moved
        ],
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cell(name: str) -> Cell:
    return Cell(name, Variant(name, name, label=name), _ALL_LAUNCHES)


def _why(name: str, launches: pd.DataFrame) -> CellWhy:
    capabilities = launches["cc"].dropna().unique()
    return cell_why(
        CellProfile(name, _profiles(launches)),
        compute_capability=str(capabilities[0]) if len(capabilities) else None,
        least_bytes=None,
    )


def _profiles(launches: pd.DataFrame) -> tuple[KernelProfile, ...]:
    kinds = [launches[name].astype(object).map(str) for name in _KIND]
    medians = launches.select_dtypes("number").groupby(kinds, sort=False).median()
    if WARPS_ACTIVE not in medians and {_WARPS_PER_CYCLE, ACTIVE_SUM} <= set(medians):
        medians[WARPS_ACTIVE] = medians[_WARPS_PER_CYCLE] * medians[ACTIVE_SUM]
    kernels = medians.index.get_level_values(0)
    return tuple(
        KernelProfile(str(name), {str(k): float(v) for k, v in row.items() if not math.isnan(v)})
        for name, row in zip(kernels, medians.astype(float).to_dict("records"), strict=True)
    )
