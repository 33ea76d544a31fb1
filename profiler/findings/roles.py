"""Which variants stand out in figures and tables: the best, the baseline, the runners-up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from profiler.findings.ranking import VariantRank
from profiler.model import Variant

_RUNNERS_UP, _MOST_RUNNERS_UP = 3, 4
"""The second is how many have a colour: one more where references need it."""


def figure_roles(  # noqa: PLR0913 - one by keyword
    ranks: Sequence[VariantRank],
    best: VariantRank | None,
    baseline: Variant | None,
    groups: Sequence[Sequence[VariantRank]],
    references: Collection[str],
    *,
    tunes: bool,
) -> dict[str, str]:
    """Role in figures by variant id; whoever is not named plays `other`."""
    roles = {best.variant.id: "best"} if best else {}
    if baseline:
        roles[baseline.id] = "baseline"
    runners = [row.variant for row in ranks if row.variant.id not in roles]
    count = _RUNNERS_UP
    if tunes:  # other references are of more interest than near equals of the best
        first = {*references, *(rows[0].variant.id for rows in groups)}
        runners.sort(key=lambda variant: variant.id not in first)
        named = sum(variant.id in first for variant in runners)
        count = min(max(named, _RUNNERS_UP), _MOST_RUNNERS_UP)
    for number, variant in enumerate(runners[:count], start=1):
        roles[variant.id] = f"series-{number}"
    return roles
