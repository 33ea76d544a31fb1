"""Which of an experiment's variants form a search space: those with the same parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from profiler.model import Variant


def largest_group(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants that have the most frequent set of parameter names, in their order.

    References of another library have other parameters than the kernel that is tuned.
    """
    counts = Counter(frozenset(variant.params) for variant in variants)
    most = max(counts, key=lambda names: (counts[names], sorted(names)))
    return tuple(variant for variant in variants if frozenset(variant.params) == most)
