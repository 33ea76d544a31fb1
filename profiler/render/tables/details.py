"""Details of a cell: its samples, its commands, facts of its problem."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import pandas as pd

from profiler.findings.cell_numbers import FINAL, CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import Label
from profiler.model import Cell, CellStatus, Problem, SessionKind, cell_id
from profiler.render.tables.rows import shown_metrics
from profiler.render.words import numbers
from profiler.render.words.names import kernel_list

MOST_SAMPLES = 250_000
"""Above this many numbers the page would grow past some megabytes: only those of the shown metrics
are written."""

SampleSet = tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]
"""Where samples come from (`ncu timing`, `ncu timing again`), and their values in order."""


def sampled_metrics(findings: Findings) -> tuple[Label, ...]:
    """Metrics whose samples a page has: no rates and shares, which follow from others."""
    metrics = findings.numbers.metrics
    if len(findings.report.measured.samples) * len(metrics) > MOST_SAMPLES:
        metrics = shown_metrics(findings)
    return tuple(metric for metric in metrics if not _is_derived(metric))


def _is_derived(metric: Label) -> bool:
    entry = CATALOGUE.get(metric.name)
    return entry is not None and entry.formula is not None


def kernels_seen(samples: pd.DataFrame) -> dict[str, list[str]]:
    """Names of all kernels that were seen in each cell, by its id, each once."""
    if "kernel_names" not in samples.columns:
        return {}
    pairs = samples[["cell", "kernel_names"]].drop_duplicates().astype({"kernel_names": object})
    names_by_cell: dict[str, dict[str, None]] = {}
    for cell, names in pairs.itertuples(index=False):
        names_by_cell.setdefault(str(cell), {}).update(dict.fromkeys(kernel_list(names)))
    return {cell: list(names) for cell, names in names_by_cell.items()}


def varying_samples(
    frame: pd.DataFrame, metrics: Sequence[str]
) -> Iterator[tuple[tuple[str, str], tuple[SampleSet, ...]]]:
    """Samples by cell and metric in the order of measurement, where they are not all the same.

    Where two collectors, sessions or visits of a block delivered the same metric, each is named.
    """
    present = [name for name in metrics if name in frame.columns]
    if not present or frame.empty:
        return
    sets: dict[tuple[str, str], list[SampleSet]] = {}
    values = frame[present].to_numpy(dtype=float, na_value=np.nan)
    groups = frame.groupby(["cell", "collector", "kind", "arm"], sort=False).indices
    # A frame of its own for each of 10,000 groups would take ten times as long.
    for key, rows in sorted(groups.items(), key=lambda group: int(group[1][0])):
        cell, collector, kind, arm = cast("tuple[object, ...]", key)
        session = "confirmation" if kind == SessionKind.FINAL else kind
        source = f"{collector} {session}{' again' if arm else ''}"
        of_group = values[rows]
        finite = ~np.isnan(of_group)
        for place in np.flatnonzero(finite.any(axis=0)).tolist():
            column = of_group[finite[:, place], place]
            sets.setdefault((str(cell), present[place]), []).append((source, column))
    for where, of_metric in sets.items():
        if len({value for _, column in of_metric for value in column.tolist()}) > 1:
            yield where, tuple(of_metric)


# ---- sentences and commands ----------------------------------------------------------------------


def rerun_start(spec_path: str) -> str:
    """Command that measures cells again, up to what says which; ids are safe in a shell."""
    return f"{_command(spec_path)} --fresh --only"


def explain_start(spec_path: str) -> str:
    """Command that explains cells of a run, up to their ids."""
    return f"{_command(spec_path)} --explain"


def _command(spec_path: str) -> str:
    return f"python -m profiler {shlex.quote(spec_path)}"


def is_planned(cell: Cell) -> bool:
    """Whether a cell was planned as it is; those of parts were made from what was measured."""
    return cell.id == cell_id(cell.variant, cell.problem)


def timing_blocks(cell_numbers: CellNumbers, cell: Cell) -> tuple[float, int] | None:
    """Median by the timing blocks and their number; None unless the cell has a confirmation."""
    if cell_numbers.value(cell, cell_numbers.primary.name).source != FINAL:
        return None
    value = cell_numbers.block_value(cell)
    return None if numbers.is_missing(value.median) else (value.median, value.n)


def problem_facts(programs: Programs, problem: Problem) -> tuple[str, ...]:
    """Sentences on the operations and traffic of a problem, and on errors against its reference."""
    cells = (cell for cell in programs.cells if cell.problem.id == problem.id)
    return tuple(_facts([programs.status(cell) for cell in cells]))


def _facts(statuses: Sequence[CellStatus]) -> Iterator[str]:
    for fact, unit, name in (
        ("Operations stated by the workload", "FLOP", "flops"),
        ("Least traffic stated by the workload", "byte", "bytes"),
    ):
        stated = sorted(_finite(getattr(status, name) for status in statuses))
        if stated:
            stated_texts = dict.fromkeys(numbers.show(value, unit) for value in stated)
            yield f"{fact}: {' to '.join([*stated_texts][:: max(1, len(stated_texts) - 1)])}."
    for kind, name in (("absolute", "max_abs_error"), ("relative", "max_rel_error")):
        errors = _finite(getattr(status, name) for status in statuses if not status.outcome.failed)
        if errors:
            largest = numbers.significant(max(errors), 3)
            yield f"Largest {kind} error against the reference: {largest}."


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
