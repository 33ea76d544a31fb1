"""Every cell in full: all metrics, all samples, what happened, and how to measure it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.model import Cell
from profiler.render import numbers
from profiler.render.labels import Label
from profiler.render.lookup import OUTCOME_WORDS, Lookup, Value
from profiler.render.tables import outcome_css

MOST_SAMPLES = 250_000
"""Above this many numbers the page would grow past some megabytes: only those of the shown metrics
are written out, and the page says so."""


@dataclass(frozen=True)
class MetricLine:
    """One metric of one cell."""

    label: Label
    value: Value
    median: str
    interval: str
    span: str
    samples: str


@dataclass(frozen=True)
class Detail:
    """One cell in full."""

    anchor: str
    cell: Cell
    mark: int
    outcome: str
    outcome_css: str
    cause: str
    facts: tuple[str, ...]
    kernels: tuple[str, ...]
    command: str
    lines: tuple[MetricLine, ...]


@dataclass(frozen=True)
class ProblemDetails:
    """All cells of one problem."""

    name: str
    cells: tuple[Detail, ...]


def anchor(cell: Cell) -> str:
    """Id of a cell's block in the page."""
    return f"cell-{cell.id}"


def details(lookup: Lookup) -> tuple[tuple[ProblemDetails, ...], bool]:
    """Every cell by problem, and whether all samples are written out."""
    metrics = lookup.measured_metrics
    complete = len(lookup.report.samples) * len(metrics) <= MOST_SAMPLES
    written = metrics if complete else lookup.shown_metrics
    samples = dict(_samples(lookup.report.samples, [metric.name for metric in written]))
    kernels = _kernel_names(lookup.report.samples)
    groups = tuple(
        ProblemDetails(
            problem.name,
            tuple(
                _detail(lookup, lookup.cells[variant.id, problem.id], samples, kernels)
                for variant in lookup.variants
                if (variant.id, problem.id) in lookup.cells
            ),
        )
        for problem in lookup.problems
    )
    return groups, complete


def _detail(
    lookup: Lookup,
    cell: Cell,
    samples: Mapping[tuple[str, str], str],
    kernels: Mapping[str, tuple[str, ...]],
) -> Detail:
    status = lookup.status(cell)
    source = status.duplicate_of or cell.id
    lines = tuple(
        _line(metric, value, samples.get((source, metric.name), ""))
        for metric in lookup.measured_metrics
        if (value := lookup.value(cell, metric.name)).known
    )
    return Detail(
        anchor=anchor(cell),
        cell=cell,
        mark=lookup.marks[cell.variant.id],
        outcome=OUTCOME_WORDS[status.outcome],
        outcome_css=outcome_css(status.outcome),
        cause=status.cause,
        facts=tuple(_facts(lookup, cell)),
        kernels=kernels.get(source, ()),
        command=again(lookup.report.spec_path, cell),
        lines=lines,
    )


def again(spec_path: str, cell: Cell) -> str:
    """Write the command that measures one cell again; ids are safe in every shell."""
    only = f"cell={cell.id}"
    return f"python -m profiler {shlex.quote(spec_path)} --fresh --only {shlex.quote(only)}"


def _facts(lookup: Lookup, cell: Cell) -> Iterator[str]:
    status = lookup.status(cell)
    if status.duplicate_of:
        yield f"Same machine code as {status.duplicate_of}: its samples are shown."
    if status.missing_metrics:
        yield f"Asked for, but not delivered: {', '.join(status.missing_metrics)}."
    if status.max_abs_error is not None:
        yield f"Largest absolute error against the reference: {status.max_abs_error:.3g}."
    if status.max_rel_error is not None:
        yield f"Largest relative error against the reference: {status.max_rel_error:.3g}."
    if status.flops is not None:
        yield f"Operations stated by the workload: {numbers.show(status.flops, 'FLOP')}."
    if status.bytes is not None:
        yield f"Least traffic stated by the workload: {numbers.show(status.bytes, 'byte')}."


def _line(metric: Label, value: Value, samples: str) -> MetricLine:
    unit = metric.unit
    return MetricLine(
        label=metric,
        value=value,
        median=numbers.show(value.median, unit),
        interval=numbers.interval(value.low, value.high, unit) if value.low != value.high else "",
        span=f"{numbers.show(value.min, unit)} to {numbers.show(value.max, unit)}"
        if value.min != value.max
        else "",
        samples=samples,
    )


def _samples(frame: pd.DataFrame, metrics: Sequence[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Samples by cell and metric, told apart by what they were measured under."""
    present = [name for name in metrics if name in frame.columns]
    if not present or frame.empty:
        return
    found: dict[tuple[str, str], list[str]] = {}
    for key, rows in frame.groupby(["cell", "collector", "kind"], sort=False):
        cell, source = str(key[0]), f"{key[1]} {key[2]}"
        values = rows[present].to_numpy(dtype=float, na_value=np.nan)
        for name, column in zip(present, values.T, strict=True):
            known = column[~np.isnan(column)]
            if len(known):
                found.setdefault((cell, name), []).append(f"{source}: {_written(known)}")
    for where, texts in found.items():
        yield where, "; ".join(texts)


def _written(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Write samples in the order of measurement; equal ones once, with their number."""
    if len(values) > 1 and (values == values[0]).all():
        return f"{numbers.raw(float(values[0]))} (all {len(values)})"
    return " ".join(
        f"{value:.6g}" if value < 1e6 else numbers.raw(value) for value in values.tolist()
    )


def _kernel_names(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Kernel names by cell, each once."""
    if "kernel_names" not in frame.columns:
        return {}
    pairs = frame[["cell", "kernel_names"]].astype({"kernel_names": object})
    found: dict[str, dict[str, None]] = {}
    for cell, names in pairs.itertuples(index=False):
        found.setdefault(str(cell), {}).update(dict.fromkeys(_as_names(names)))
    return {cell: tuple(names) for cell, names in found.items()}


def _as_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,) if names else ()
    if isinstance(names, list | tuple):
        return tuple(str(name) for name in names)
    return ()
