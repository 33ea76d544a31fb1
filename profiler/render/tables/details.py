"""Every cell in full: all metrics, what happened, and how to measure it again.

One table a problem, variants as rows and metrics as columns: what is common to its cells is said
once.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profiler.findings.findings import Findings
from profiler.findings.named_baselines import NamedBaseline
from profiler.findings.values import FINAL
from profiler.metrics.labels import Label
from profiler.model import Cell, CellStatus, Problem, Variant, cell_id
from profiler.render.tables.rows import Datum, has_many_cells, outcome_css, with_unit
from profiler.render.tables.samples import CellSamples
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.baselines import baseline_label, why_no_verdict
from profiler.render.words.outcomes import OUTCOME_WORDS, why_missing
from profiler.render.words.verdicts import word_of

_MOST_IN_FULL, _FEWEST_IN_FULL = 300, 5
"""Cells of a large page that are written in full, at each problem the best; but not fewer."""


@dataclass(frozen=True)
class Column:
    """Head of a metric's column in the table of one problem."""

    label: Label
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
    cells: tuple[Detail, ...]


@dataclass(frozen=True)
class Details:
    """Every cell by problem."""

    problems: tuple[ProblemDetails, ...]
    kernels: tuple[str, ...]
    """Every kernel name of the run, once."""
    against: tuple[str, ...]
    """The named baselines that every cell is compared with."""
    best: int | None
    """Cells of each problem that are here, the best ones; None: all."""


def anchor(cell: Cell) -> str:
    """Id of a cell's row in the page."""
    return f"cell-{cell.id}"


def details(findings: Findings, samples: CellSamples) -> Details:
    """Every cell by problem, best first within each."""
    best = None
    if has_many_cells(findings):
        best = max(_FEWEST_IN_FULL, _MOST_IN_FULL // len(findings.problems))
    return Details(
        problems=tuple(_problem(findings, problem, samples, best) for problem in findings.problems),
        kernels=samples.kernel_names,
        against=tuple(map(baseline_label, findings.baselines)),
        best=best,
    )


def rerun_command(spec_path: str, problem: Problem | None) -> str:
    """Command that measures one variant of a problem again; ids are safe in a shell.

    None: the problem is a part of a program, which goes through all of them in one process.
    """
    only = f"problem={problem.id},variant=VARIANT" if problem is not None else "variant=VARIANT"
    return f"{rerun_start(spec_path)} {only}"


def rerun_start(spec_path: str) -> str:
    """The same up to what says which cell."""
    return f"python -m profiler {shlex.quote(spec_path)} --fresh --only"


def _problem(
    findings: Findings, problem: Problem, samples: CellSamples, best: int | None
) -> ProblemDetails:
    cells = _in_order(findings, problem)[:best]
    columns, texts = _columns(findings, cells)
    measured = [column.label for column in columns]
    rows = tuple(
        _detail(
            findings,
            cell,
            data=_data(findings, cell, measured, row),
            kernels=samples.kernel_numbers(cell),
        )
        for cell, row in zip(cells, texts, strict=True)
    )
    return ProblemDetails(
        name=problem.name,
        command=rerun_command(
            findings.report.spec_path, problem if all(map(is_planned, cells)) else None
        ),
        facts=tuple(_facts([findings.status(cell) for cell in cells])),
        columns=columns,
        cells=rows,
    )


def is_planned(cell: Cell) -> bool:
    """Whether a cell was planned as it is; those of parts were made from what was measured."""
    return cell.id == cell_id(cell.variant, cell.problem)


def _columns(
    findings: Findings, cells: Sequence[Cell]
) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """The metrics that any of these cells has, and the texts of each cell's row."""
    columns: list[Column] = []
    texts: list[Sequence[str]] = []
    for metric in findings.metrics:
        values = [findings.value(cell, metric.name) for cell in cells]
        counts = [value.n for value in values if value.present]
        if counts:
            unit, column = numbers.column([value.median for value in values], metric.unit)
            columns.append(Column(metric, unit, _span(counts)))
            texts.append(column)
    return tuple(columns), [tuple(column[row] for column in texts) for row in range(len(cells))]


def _in_order(findings: Findings, problem: Problem) -> list[Cell]:
    """Cells of a problem: ranked ones first, then in the order of the plan."""
    cells = [cell for cell in findings.distinct_cells if cell.problem.id == problem.id]
    ranks = {cell.id: findings.value(cell, findings.report.primary).rank for cell in cells}
    return sorted(
        cells, key=lambda cell: math.inf if math.isnan(ranks[cell.id]) else ranks[cell.id]
    )


def _detail(
    findings: Findings,
    cell: Cell,
    *,
    data: tuple[Datum, ...],
    kernels: tuple[int, ...],
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
        blocks=_blocks_words(findings, cell),
        verdicts=tuple(_against(findings, baseline, cell) for baseline in findings.baselines),
    )


def _outcome_words(findings: Findings, status: CellStatus) -> str:
    """Outcome of a cell; of an alias with the name of its owner."""
    text, number = (
        OUTCOME_WORDS[status.outcome],
        findings.cell_numbers.get(status.duplicate_of or ""),
    )
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
