"""Details of a cell: its samples, its commands, facts of its problem."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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


class CellSamples:
    """Samples and kernels of each cell; those of an alias are its owner's."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._frame = findings.report.measured.samples

    @cached_property
    def metrics(self) -> tuple[Label, ...]:
        """Metrics whose samples are written: no rates and shares, which follow from others."""
        metrics = self._findings.numbers.metrics if self.complete else shown_metrics(self._findings)
        return tuple(metric for metric in metrics if not _is_derived(metric))

    @property
    def complete(self) -> bool:
        """Whether the samples of all metrics are written."""
        return len(self._frame) * len(self._findings.numbers.metrics) <= MOST_SAMPLES

    def samples_of(self, cell: Cell, metric: str) -> tuple[SampleSet, ...]:
        """Samples of a cell in the order of measurement; none where all are the same."""
        return self._varying.get((self._source(cell), metric), ())

    def kernels(self, cell: Cell) -> tuple[str, ...]:
        """Names of the kernels that were seen in a cell, each once."""
        return self._kernels.get(self._source(cell), ())

    def _source(self, cell: Cell) -> str:
        return self._findings.programs.status(cell).duplicate_of or cell.id

    @cached_property
    def _varying(self) -> Mapping[tuple[str, str], tuple[SampleSet, ...]]:
        return dict(_varying(self._frame, [metric.name for metric in self.metrics]))

    @cached_property
    def _kernels(self) -> Mapping[str, tuple[str, ...]]:
        if "kernel_names" not in self._frame.columns:
            return {}
        pairs = self._frame[["cell", "kernel_names"]].drop_duplicates()
        pairs = pairs.astype({"kernel_names": object})
        names_by_cell: dict[str, dict[str, None]] = {}
        for cell, names in pairs.itertuples(index=False):
            names_by_cell.setdefault(str(cell), {}).update(dict.fromkeys(kernel_list(names)))
        return {cell: tuple(names) for cell, names in names_by_cell.items()}


def _is_derived(metric: Label) -> bool:
    entry = CATALOGUE.get(metric.name)
    return entry is not None and entry.formula is not None


def _varying(
    frame: pd.DataFrame, metrics: Sequence[str]
) -> Iterator[tuple[tuple[str, str], tuple[SampleSet, ...]]]:
    """Samples by cell and metric, where they are not all the same.

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
    metric = cell_numbers.primary.name
    if cell_numbers.value(cell, metric).source != FINAL:
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
