"""Every cell in full: all metrics, all samples, what happened, and how to measure it again.

One table a problem, variants as rows and metrics as columns: what is common to its cells is said
once.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.named_baselines import NamedBaseline
from profiler.findings.values import FINAL
from profiler.metrics.labels import Label
from profiler.model import Cell, CellStatus, Problem, Variant, cell_id
from profiler.render.tables.rows import Datum, has_many_cells, outcome_css, with_unit
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.baselines import baseline_label, why_no_verdict
from profiler.render.words.kernel_names import kernel_list
from profiler.render.words.metrics import shown_metrics
from profiler.render.words.outcomes import OUTCOME_WORDS, why_missing
from profiler.render.words.verdicts import word_of

MOST_SAMPLES = 250_000
"""Above this many numbers the page would grow past some megabytes: only those of the shown metrics
are written out, and the page says so."""
_MOST_IN_FULL, _FEWEST_IN_FULL = 300, 5
"""Cells of a large page that are written in full, at each problem the best; but not fewer."""
_LONG = 1_000_000
"""Samples from here on are written with six digits, in words that spreadsheets read."""


@dataclass(frozen=True)
class Column:
    """Head of a metric's column in the table of one problem."""

    label: Label
    number: int
    """Index among the measured metrics: how the page's script knows it."""
    unit: str
    """As written in this column, with its prefix."""
    n: str
    """Samples a cell has: one number, or the fewest and the most."""

    @property
    def head(self) -> str:
        """Name and unit."""
        return with_unit(self.label, self.unit)


@dataclass(frozen=True)
class Detail:
    """One cell in full."""

    anchor: str
    number: int
    """Index of the cell in the plan."""
    variant: Variant
    mark: int
    outcome: str
    outcome_css: str
    cause: str
    aliases: tuple[str, ...]
    """Names of the variants that have the same machine code."""
    blocks: str
    """Duration by the timing blocks, where its numbers are of the confirmation."""
    data: tuple[Datum, ...]
    """Medians in the order of the columns; empty where nothing was measured."""
    kernels: tuple[int, ...]
    """Numbers in the list of kernels."""
    samples: tuple[str, ...]
    """In the order of `ProblemDetails.sampled`."""
    verdicts: tuple[Datum, ...]
    """Ratio and verdict, in the order of `Details.against`."""


@dataclass(frozen=True)
class ProblemDetails:
    """All cells of one problem."""

    name: str
    command: str
    """Measures one cell again; `VARIANT` stands for the name or id of its variant."""
    facts: tuple[str, ...]
    """What holds for all of its cells."""
    columns: tuple[Column, ...]
    sampled: tuple[Label, ...]
    """Metrics that are not the same in all samples of a cell."""
    cells: tuple[Detail, ...]


@dataclass(frozen=True)
class Details:
    """Every cell by problem."""

    problems: tuple[ProblemDetails, ...]
    kernels: tuple[str, ...]
    """Every kernel name of the run, once."""
    all_samples: bool
    """Whether the samples of all metrics are written out."""
    against: tuple[str, ...]
    """The named baselines that every cell is compared with."""
    best: int | None
    """Cells of each problem that are here, the best ones; None: all."""


@dataclass(frozen=True)
class _Samples:
    """Samples by cell and metric, where they are not all the same."""

    texts: Mapping[tuple[str, str], str]
    kernels: Mapping[str, tuple[str, ...]]


def anchor(cell: Cell) -> str:
    """Id of a cell's row in the page."""
    return f"cell-{cell.id}"


def details(findings: Findings) -> Details:
    """Every cell by problem, best first within each."""
    metrics = findings.metrics
    frame = findings.report.samples
    complete = len(frame) * len(metrics) <= MOST_SAMPLES
    written = metrics if complete else shown_metrics(findings)
    samples = _Samples(
        dict(_samples(frame, [metric.name for metric in written])), _kernel_names(frame)
    )
    kernels = tuple(dict.fromkeys(name for names in samples.kernels.values() for name in names))
    best = None
    if has_many_cells(findings):
        best = max(_FEWEST_IN_FULL, _MOST_IN_FULL // len(findings.problems))
    return Details(
        problems=tuple(
            _problem(findings, problem, samples, kernels, best) for problem in findings.problems
        ),
        kernels=kernels,
        all_samples=complete,
        against=tuple(map(baseline_label, findings.baselines)),
        best=best,
    )


def rerun_command(spec_path: str, problem: Problem | None) -> str:
    """Command that measures one variant of a problem again; ids are safe in a shell.

    None: the problem is a part of a program, which goes through all of them in one process.
    """
    only = f"problem={problem.id},variant=VARIANT" if problem is not None else "variant=VARIANT"
    return f"python -m profiler {shlex.quote(spec_path)} --fresh --only {shlex.quote(only)}"


def _problem(
    findings: Findings,
    problem: Problem,
    samples: _Samples,
    kernels: Sequence[str],
    best: int | None,
) -> ProblemDetails:
    cells = _in_order(findings, problem)[:best]
    columns, texts = _columns(findings, cells)
    measured = [column.label for column in columns]
    sources = [_source(findings, cell) for cell in cells]
    sampled = tuple(
        metric
        for metric in measured
        if any((source, metric.name) in samples.texts for source in sources)
    )
    rows = tuple(
        _detail(
            findings,
            cell,
            data=_data(findings, cell, measured, row),
            kernels=tuple(kernels.index(name) + 1 for name in samples.kernels.get(source, ())),
            samples=tuple(samples.texts.get((source, metric.name), "") for metric in sampled),
        )
        for cell, row, source in zip(cells, texts, sources, strict=True)
    )
    return ProblemDetails(
        name=problem.name,
        command=rerun_command(
            findings.report.spec_path, problem if all(map(_is_planned, cells)) else None
        ),
        facts=tuple(_facts([findings.status(cell) for cell in cells])),
        columns=columns,
        sampled=sampled,
        cells=rows,
    )


def _is_planned(cell: Cell) -> bool:
    """Whether a cell was planned as it is; those of parts were made from what was measured."""
    return cell.id == cell_id(cell.variant, cell.problem)


def _columns(
    findings: Findings, cells: Sequence[Cell]
) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """The metrics that any of these cells has, and the texts of each cell's row."""
    columns: list[Column] = []
    texts: list[Sequence[str]] = []
    for number, metric in enumerate(findings.metrics):
        values = [findings.value(cell, metric.name) for cell in cells]
        counts = [value.n for value in values if value.present]
        if counts:
            unit, column = numbers.column([value.median for value in values], metric.unit)
            columns.append(Column(metric, number, unit, _span(counts)))
            texts.append(column)
    return tuple(columns), [tuple(column[row] for column in texts) for row in range(len(cells))]


def _in_order(findings: Findings, problem: Problem) -> list[Cell]:
    """Cells of a problem: ranked ones first, then in the order of the plan."""
    cells = [cell for cell in findings.distinct_cells if cell.problem.id == problem.id]
    ranks = {cell.id: findings.value(cell, findings.report.primary).rank for cell in cells}
    return sorted(
        cells, key=lambda cell: math.inf if math.isnan(ranks[cell.id]) else ranks[cell.id]
    )


def _source(findings: Findings, cell: Cell) -> str:
    """Id of the cell whose samples are shown."""
    return _source_of(findings.status(cell))


def _source_of(status: CellStatus) -> str:
    return status.duplicate_of or status.cell


def _detail(
    findings: Findings,
    cell: Cell,
    *,
    data: tuple[Datum, ...],
    kernels: tuple[int, ...],
    samples: tuple[str, ...],
) -> Detail:
    status = findings.status(cell)
    return Detail(
        anchor=anchor(cell),
        number=findings.cell_numbers[cell.id],
        variant=cell.variant,
        mark=findings.marks[cell.variant.id],
        outcome=_outcome_words(findings, status),
        outcome_css=outcome_css(status.outcome),
        cause=status.cause,
        aliases=findings.aliases.get(cell.variant.id, ()),
        data=data,
        kernels=kernels,
        samples=samples,
        blocks=_blocks_words(findings, cell),
        verdicts=tuple(_against(findings, baseline, cell) for baseline in findings.baselines),
    )


def _outcome_words(findings: Findings, status: CellStatus) -> str:
    """Outcome of a cell; of an alias with the name of its owner."""
    text, number = OUTCOME_WORDS[status.outcome], findings.cell_numbers.get(_source_of(status))
    if status.duplicate_of is None or number is None:
        return text
    return f"{text} as {findings.distinct_cells[number].variant.name}"


def _blocks_words(findings: Findings, cell: Cell) -> str:
    """Duration by the timing blocks beside that of the confirmation; empty where there is none."""
    metric = findings.primary
    if findings.value(cell, metric.name).source != FINAL:
        return ""
    value = findings.block_value(cell, metric.name)
    shown = numbers.show(value.median, metric.unit)
    return f"of the confirmation; {shown} in the {value.n} timing blocks"


def _against(findings: Findings, baseline: NamedBaseline, cell: Cell) -> Datum:
    """Ratio, interval and verdict of a cell in one text; the page's script adds the reason."""
    pair = baseline.verdicts[cell.id]
    shown = verdict_datum(pair, why_no_verdict(findings, baseline, cell))
    if numbers.is_missing(pair.ratio):
        return shown
    between = numbers.interval(pair.low, pair.high)
    texts = (numbers.ratio(pair.ratio), between, word_of(pair))
    css = shown.css.removesuffix(" none")
    return Datum(" ".join(filter(None, texts)), numbers.raw(pair.ratio), css=css)


def _data(
    findings: Findings, cell: Cell, metrics: Sequence[Label], texts: Sequence[str]
) -> tuple[Datum, ...]:
    if all(text == numbers.MISSING for text in texts):
        return ()
    return tuple(
        Datum(text, text)
        if text != numbers.MISSING
        else Datum(title=why_missing(findings, cell, metric.name), css="none")
        for metric, text in zip(metrics, texts, strict=True)
    )


def _span(counts: Sequence[int]) -> str:
    if min(counts) == max(counts):
        return str(counts[0])
    return f"{min(counts)} to {max(counts)}"


def _facts(statuses: Sequence[CellStatus]) -> Iterator[str]:
    """Sentences on the workload's operations and traffic, and on errors against its reference."""
    for fact, unit, name in (
        ("Operations stated by the workload", "FLOP", "flops"),
        ("Least traffic stated by the workload", "byte", "bytes"),
    ):
        stated = sorted(_finite(getattr(status, name) for status in statuses))
        if stated:
            shown = dict.fromkeys(numbers.show(value, unit) for value in stated)
            yield f"{fact}: {' to '.join([*shown][:: max(1, len(shown) - 1)])}."
    for kind, name in (("absolute", "max_abs_error"), ("relative", "max_rel_error")):
        errors = _finite(getattr(status, name) for status in statuses if not status.outcome.failed)
        if errors:
            largest = numbers.significant(max(errors), 3)
            yield f"Largest {kind} error against the reference: {largest}."
    missing = [set(status.missing_metrics) for status in statuses if status.missing_metrics]
    common = sorted(set.intersection(*missing)) if missing else []
    if common:
        yield f"Asked for, but not delivered: {', '.join(common)}."


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _samples(frame: pd.DataFrame, metrics: Sequence[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Samples by cell and metric in the order of measurement, where they are not all the same.

    Where two collectors, sessions or visits of a block delivered the same metric, each is named.
    """
    present = [name for name in metrics if name in frame.columns]
    if not present or frame.empty:
        return
    texts: dict[tuple[str, str], dict[str, str]] = {}
    values = frame[present].to_numpy(dtype=float, na_value=np.nan)
    groups = frame.groupby(["cell", "collector", "kind", "arm"], sort=False).indices
    # A frame of its own for each of 10,000 groups would take ten times as long.
    for key, rows in sorted(groups.items(), key=lambda group: int(group[1][0])):
        cell, collector, kind, arm = cast("tuple[object, ...]", key)
        cell, source = str(cell), f"{collector} {kind}{' again' if arm else ''}"
        for name, column in zip(present, values[rows].T, strict=True):
            finite = column[~np.isnan(column)]
            if len(finite):
                texts.setdefault((cell, name), {})[source] = _written(finite)
    for where, by_source in texts.items():
        if len({*by_source.values()}) > 1:
            yield where, "; ".join(f"{source}: {text}" for source, text in by_source.items())
        elif " " in (text := next(iter(by_source.values()))):
            yield where, text


def _written(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Samples as text; equal ones once."""
    if (values == values[0]).all():
        return numbers.raw(float(values[0]))
    return " ".join(
        f"{value:.6g}" if abs(value) < _LONG else numbers.raw(value) for value in values.tolist()
    )


def _kernel_names(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Kernel names by cell, each once."""
    if "kernel_names" not in frame.columns:
        return {}
    pairs = frame[["cell", "kernel_names"]].astype({"kernel_names": object})
    names_by_cell: dict[str, dict[str, None]] = {}
    for cell, names in pairs.itertuples(index=False):
        names_by_cell.setdefault(str(cell), {}).update(dict.fromkeys(kernel_list(names)))
    return {cell: tuple(names) for cell, names in names_by_cell.items()}
