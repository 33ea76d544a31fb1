"""Queries of the metric catalogue and of ncu's lists of metric names.

`chips/<chip>.txt.gz` holds what `ncu --query-metrics --chips <chip>` printed (2025.3.1): the name
of each metric without its suffixes, and the first letter of its type. Names of `launch__`, of
single instructions and a few others are in no such list, so a name that resembles no listed name is
accepted.
"""

from __future__ import annotations

import difflib
import gzip
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from profiler.errors import UsageError
from profiler.metrics.catalogue import (
    CATALOGUE,
    DEFAULT,
    GROUPS,
    TENSOR_TYPES,
    TIME,
    Better,
    Combine,
    Metric,
    PassClass,
)

_RAW_NAME = re.compile(r"[a-z][a-z0-9]*__[A-Za-z0-9_]+(?:\.[a-z0-9_]+)*")
_STATIC_RAW_PREFIXES = ("launch__", "device__attribute_")

_NAME_OF_RAW = {
    raw: metric.name
    for metric in CATALOGUE.values()
    for raw in metric.ncu.values()
    if raw is not None
}


def is_raw_name(name: str) -> bool:
    """Whether a name has the form of an ncu metric (`unit__counter.rollup`)."""
    return _RAW_NAME.fullmatch(name) is not None


def is_metric_or_raw_name(name: str) -> bool:
    """Whether a name may stand in `collect.metrics`: a metric, a group or a raw ncu name."""
    return name in CATALOGUE or name in GROUPS or is_raw_name(name)


def suggest(name: str) -> str | None:
    """Metric or group closest to a mistyped name; None without a close name."""
    close = difflib.get_close_matches(name, [*CATALOGUE, *GROUPS], n=1)
    return close[0] if close else None


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Names with groups replaced by their metrics, in order, each name once.

    Raw ncu names pass through. Raises `UsageError` on a name that is neither.
    """
    expanded: dict[str, None] = {}
    for name in names:
        if not is_metric_or_raw_name(name):
            raise UsageError(f"Unknown metric {name!r}.", remedy=_remedy(name))
        expanded.update(dict.fromkeys(GROUPS.get(name, (name,))))
    return tuple(expanded)


def _remedy(name: str) -> str:
    close = suggest(name)
    question = f"Did you mean {close!r}? " if close else ""
    return f"{question}docs/metrics.md lists the names; raw ncu names contain '__'."


def ncu_name(name: str, compute_capability: str | None = None) -> str | None:
    """Raw ncu name of a metric on an architecture (`9.0`), or None if it does not exist there.

    A raw name is returned as it is. Without a compute capability, the most common name.
    """
    metric = CATALOGUE.get(name)
    if metric is None:
        return name
    exact = compute_capability or DEFAULT
    for key in (exact, exact.partition(".")[0], DEFAULT):
        if key in metric.ncu:
            return metric.ncu[key]
    return None


def absent_on(names: Iterable[str], compute_capability: str | None) -> tuple[str, ...]:
    """Names of metrics that ncu measures on other architectures, but not on this one."""
    return tuple(
        name
        for name in names
        if name in CATALOGUE and CATALOGUE[name].ncu and ncu_name(name, compute_capability) is None
    )


def ncu_names(names: Iterable[str], compute_capability: str | None = None) -> tuple[str, ...]:
    """Raw names to pass to `ncu --metrics` for these metrics, each once.

    These are the raw names on this architecture, the parts and weights that are needed to combine
    several kernels, and the metrics of the formulas of derived metrics. Metrics that do not exist
    on the architecture, and metrics of the build, have none.
    """
    raw: dict[str, None] = {}
    for name in with_needed_metrics(names):
        raw_name = ncu_name(name, compute_capability)
        if raw_name is not None:
            raw.update(dict.fromkeys((raw_name, *_metrics_beside(name))))
    return tuple(raw)


def _metrics_beside(name: str) -> tuple[str, ...]:
    """Raw names to request beside a metric so that several kernels can be combined.

    Not for metrics of one pass: more counters could cost them a second.
    """
    metric = CATALOGUE.get(name)
    if metric is None or metric.pass_class is not PassClass.MULTI:
        return ()
    weight = metric.weight if metric.combine is Combine.WEIGHTED else None
    parts = (metric.numerator, metric.denominator, weight if weight != TIME else None)
    return tuple(part for part in parts if part is not None)


_TYPE_WORDS = {
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16", "half"),
    "tf32": ("tf32", "fp32", "float32", "float"),
    "fp8": ("fp8", "float8", "float8_e4m3fn", "float8_e5m2"),
    "int8": ("int8", "uint8"),
    "fp64": ("fp64", "float64", "double"),
}
"""Words by which parameters name the type of the inputs of tensor cores."""
USUAL_TYPES = ("bf16", "fp16", "tf32")
"""Types of tensor operations that are counted where no parameter names one."""


def tensor_types(values: Iterable[object]) -> tuple[str, ...]:
    """Types of tensor operations that occur among parameter values."""
    words = {str(value).lower() for value in values}
    return tuple(kind for kind, spellings in _TYPE_WORDS.items() if words & set(spellings))


def without_other_types(names: Iterable[str], kinds: Collection[str]) -> tuple[str, ...]:
    """Metrics without tensor operations on types outside `kinds`, each of which may cost a pass."""
    other_prefixes = [f"tensor_{kind}_" for kind in TENSOR_TYPES if kind not in kinds]
    return tuple(name for name in names if not any(prefix in name for prefix in other_prefixes))


def without_other_operations(names: Iterable[str], kinds: Collection[str]) -> tuple[str, ...]:
    """Metrics without counters of tensor operations on types outside `kinds`; ceilings are free."""
    other_prefixes = tuple(f"tensor_{kind}_" for kind in TENSOR_TYPES if kind not in kinds)
    return tuple(n for n in names if not (n.startswith(other_prefixes) and n.endswith("_ops")))


def replaced_by_parts(names: Iterable[str], compute_capability: str | None) -> tuple[str, ...]:
    """Metrics, each replaced by its parts where it has parts on an architecture."""
    replaced: dict[str, None] = {}
    for name in names:
        parts = CATALOGUE[name].parts if name in CATALOGUE else ()
        has_parts = compute_capability is not None and not absent_on(parts, compute_capability)
        replaced.update(dict.fromkeys(parts if parts and has_parts else (name,)))
    return tuple(replaced)


def with_needed_metrics(names: Iterable[str]) -> tuple[str, ...]:
    """Metrics in their order, each after the metrics that its formula reads, at any depth."""
    ordered: dict[str, None] = {}
    for name in names:
        needs = CATALOGUE[name].needs if name in CATALOGUE else ()
        ordered.update(dict.fromkeys((*with_needed_metrics(needs), name)))
    return tuple(ordered)


def pass_class(name: str) -> PassClass:
    """Cost of a metric in passes; unknown raw names are taken to need several."""
    metric = CATALOGUE.get(catalogue_name(name))
    if metric is not None:
        return metric.pass_class
    return PassClass.STATIC if name.startswith(_STATIC_RAW_PREFIXES) else PassClass.MULTI


def catalogue_name(name: str) -> str:
    """Name in the catalogue of a metric or raw ncu name; the name itself where it has none."""
    return _NAME_OF_RAW.get(name, name)


def raw_sources(name: str) -> tuple[str, ...]:
    """Raw ncu names under which a file may hold a metric, best first; for files of any GPU."""
    metric = CATALOGUE[name]
    raw_names = [raw for raw in metric.ncu.values() if raw is not None]
    return tuple(dict.fromkeys((*raw_names, *metric.aliases)))


def raw_combine(raw: str) -> Combine:
    """Rule to combine several kernels for a raw ncu name, by its last roll-up.

    Counts add up, maxima and launch facts take the largest, minima the smallest, and all that
    is relative (percentages, ratios, rates, averages) is weighted by time.
    """
    if raw.startswith(_STATIC_RAW_PREFIXES):
        return Combine.MAX
    by_suffix = {"sum": Combine.SUM, "max": Combine.MAX, "min": Combine.MIN}
    return by_suffix.get(raw.rpartition(".")[2], Combine.WEIGHTED)


def better(name: str) -> Better | None:
    """Direction that is better for a metric; None where neither is, or the metric is unknown."""
    return CATALOGUE[name].better if name in CATALOGUE else None


# ---- metrics in words ----------------------------------------------------------------------------

_UNITS_BY_SUFFIX = (  # of raw ncu names
    (".pct", "%"),
    (".pct_of_peak_sustained_elapsed", "%"),
    (".pct_of_peak_sustained_active", "%"),
)


@dataclass(frozen=True)
class Label:
    """Label, unit and definition of a metric, also of a raw ncu name outside the catalogue."""

    name: str
    label: str
    unit: str
    better: str | None
    """`lower`, `higher`, or None where the metric has no direction."""
    definition: str
    source: str

    @property
    def hint(self) -> str:
        """Definition of the metric, and the direction that is better."""
        return f"{self.definition} ({self.better} is better)" if self.better else self.definition


@cache
def label(name: str) -> Label:
    """Label of a metric by its name in the catalogue, or of a raw ncu name."""
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
    """Labels of several metrics."""
    return tuple(label(name) for name in names)


# ---- raw names against ncu's own lists -----------------------------------------------------------

CHIPS: Mapping[str, str] = {
    "7.5": "tu102",
    "8.0": "ga100",
    "8.6": "ga102",
    "8.9": "ad102",
    "9.0": "gh100",
    "10.0": "gb100",
    "12.0": "gb202",
}
"""Chips with lists in this package, by compute capability."""
COMMONEST_CAPABILITY = "9.0"

_ROLLUPS = ("sum", "avg", "min", "max")
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "C": _ROLLUPS,
    "T": _ROLLUPS,
    "R": ("pct", "ratio", "max_rate"),
}
"""First suffixes by the type: counters, throughputs and ratios (Nsight Compute's profiling guide,
metrics decoder)."""
_OF_PEAK = "pct_of_peak_sustained_elapsed"
_LEAST_SIMILARITY = 0.9
"""Least similarity (difflib) of a mistyped name and the name it stands for."""


@cache
def metric_types_of_chip(capability: str) -> Mapping[str, str]:
    """Type of each metric of a chip, by name without suffixes; empty for unlisted chips."""
    chip = CHIPS.get(capability)
    if chip is None:
        return {}
    packed = (files("profiler.metrics") / "chips" / f"{chip}.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    pairs = (line.partition(" ") for line in lines)
    return {name: kind for name, _, kind in pairs}


def correction_of_name(name: str, capability: str) -> str | None:
    """Text on a mistake in a raw name (`smsp__inst_executed.sum`) on a chip; None without one.

    Names that the catalogue has are right.
    """
    base, *suffixes = name.split(".")
    metrics = metric_types_of_chip(capability)
    if not metrics or name in _NAME_OF_RAW:
        return None
    if base not in metrics:
        close = difflib.get_close_matches(base, metrics, n=1, cutoff=_LEAST_SIMILARITY)
        return f"; did you mean '{'.'.join([close[0], *suffixes])}'?" if close else None
    first_suffixes = _SUFFIXES[metrics[base]]
    if not suffixes or suffixes[0] not in first_suffixes:
        peak_suffix = f".{_OF_PEAK}" if metrics[base] == "T" else ""
        endings = (f".{suffix}{peak_suffix}" for suffix in first_suffixes)
        return f"; it is followed by {' or '.join(endings)}"
    return None
