"""Practical roofs of a run, from its attempts: what was measured, what failed, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from profiler.analyse.why.practical_roofs import roofs_countable
from profiler.run_folder.load.attempts import Loaded
from profiler.runner import protocol

_MOST_TRIES = 2
"""A session that was killed meanwhile measures it again; what hangs twice is left alone."""


def missing_roofs(metrics: Sequence[str], earlier: Sequence[Loaded]) -> tuple[str, ...]:
    """Roofs that these metrics tell and that no earlier attempt has measured or given up.

    Without those of tensor cores whose operations were counted, and in no cell were any.
    """
    tries = Counter(
        str(record["roof"])
        for loaded in earlier
        for record in loaded.records
        if record.get("event") == protocol.ROOF_STARTED
    )
    settled = {
        roof for loaded in earlier for roof in (*loaded.practical_roofs, *loaded.roof_faults())
    }
    return tuple(
        roof
        for roof in roofs_countable(metrics)
        if roof not in settled and tries[roof] < _MOST_TRIES and not _is_unused(roof, earlier)
    )


def _is_unused(roof: str, earlier: Sequence[Loaded]) -> bool:
    """Whether operations under a roof were counted in cells, and were 0 in all of them."""
    operations = f"{roof}_ops"
    counts = [
        float(count)
        for loaded in earlier
        if operations in loaded.samples
        for count in loaded.samples[operations].dropna()
    ]
    return bool(counts) and max(counts) <= 0


def measured_roofs(attempts: Sequence[Loaded]) -> dict[str, float]:
    """Shares of the hardware's roofs that plain kernels reached, by roof; the latest."""
    return {roof: share for loaded in attempts for roof, share in loaded.practical_roofs.items()}


def roof_faults(attempts: Sequence[Loaded]) -> dict[str, str]:
    """Why a practical roof was not measured, by roof; of those that no attempt measured."""
    measured = measured_roofs(attempts)
    faults = {roof: why for loaded in attempts for roof, why in loaded.roof_faults().items()}
    return {roof: why for roof, why in faults.items() if roof not in measured}
