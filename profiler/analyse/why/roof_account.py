"""The account of two cells under the same roof: amount, share of the roof, ceiling.

    duration = amount ÷ (share of the roof · ceiling)

is how the share is defined, so the logarithmic parts add up exactly, as in `account`. Of kernels
that one roof limits it says more than instructions and stalls: these only make room for each other
there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analyse.why.account import logarithmic_mean
from profiler.analyse.why.roofs import BYTES, Roof

SAME_ROOF = 0.6
"""From this share of a roof on, in both kernels, it is what their times are explained by."""


@dataclass(frozen=True)
class RoofAccount:
    """Difference of the durations of two kernels that are near the same roof, and its parts."""

    name: str
    first: Roof
    second: Roof
    amount_ns: float
    """For more bytes or operations."""
    share_ns: float
    """For a lower share of the roof."""
    ceiling_ns: float
    """For a lower ceiling: a lower clock of the unit."""


def roof_account(
    first: Sequence[Roof], second: Sequence[Roof], durations_ns: tuple[float, float]
) -> RoofAccount | None:
    """Account over the memory that limits both; None where none does, or another one."""
    if not first or not second or first[0].name != second[0].name:
        return None
    one, other = first[0], second[0]
    # Under a roof of arithmetic, instructions and idle cycles are the answer.
    if one.unit != BYTES or min(one.share, other.share) < SAME_ROOF:
        return None
    weight = logarithmic_mean(*durations_ns)
    return RoofAccount(
        name=one.name,
        first=one,
        second=other,
        amount_ns=weight * math.log(one.amount / other.amount),
        share_ns=weight * math.log(other.share / one.share),
        ceiling_ns=weight * math.log(other.ceiling / one.ceiling),
    )
