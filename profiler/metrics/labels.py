"""What a metric is called, in which unit it comes and which direction is better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from profiler.metrics.catalogue import CATALOGUE, Metric
from profiler.metrics.queries import ncu_name

_UNITS_BY_SUFFIX = (  # of raw ncu names
    (".pct", "%"),
    (".pct_of_peak_sustained_elapsed", "%"),
    (".pct_of_peak_sustained_active", "%"),
)


@dataclass(frozen=True)
class Label:
    """A metric in words; made for every name, also for raw ncu names that no catalogue knows."""

    name: str
    label: str
    unit: str
    better: str | None
    """`lower`, `higher`, or None where the metric has no direction."""
    definition: str
    source: str

    @property
    def hint(self) -> str:
        """Its definition, and which direction is better."""
        return f"{self.definition} ({self.better} is better)" if self.better else self.definition


@cache
def label(name: str) -> Label:
    """Find the label of a metric by its name in the catalogue, or of a raw ncu name."""
    metric = CATALOGUE.get(name)
    if metric is None:
        return Label(
            name=name,
            label=name,
            unit=next((unit for suffix, unit in _UNITS_BY_SUFFIX if name.endswith(suffix)), ""),
            better=None,
            definition="As ncu defines it.",
            source=name,
        )
    raw = ncu_name(name)
    return label_of(metric, f"{metric.source}: {raw}" if raw else metric.source)


def label_of(metric: Metric, source: str) -> Label:
    """Label of a metric of the catalogue or of an experiment file."""
    return Label(metric.name, metric.label, metric.unit, metric.better, metric.definition, source)


def labels(names: Iterable[str]) -> tuple[Label, ...]:
    """Find the labels of several metrics."""
    return tuple(label(name) for name in names)
