"""Rows of tables and what stands in their cells: numbers, columns of metrics, verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

import pandas as pd

from profiler.findings.counters import CounterChange
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.findings.verdicts import PairVerdict
from profiler.metrics.queries import Label, label
from profiler.model import Cell, Outcome, Variant, Verdict
from profiler.render.words import numbers
from profiler.render.words.signs import CSS, ORDER
from profiler.render.words.verdicts import (
    counts,
    details,
    reason_and_blocks,
    verdict_counts,
    word_of,
    word_of_all,
)


@dataclass(frozen=True)
class Datum:
    """Value in a table: as shown, raw for sorting, and what stands behind it."""

    text: str = numbers.MISSING
    raw: str | None = None
    """Raw number; None where the value is missing."""
    title: str = ""
    css: str = ""
    cell: int | None = None
    """Number of the cell whose details it opens, where the row does not say it."""
    beside: int | None = None
    """Number of the cell that opens beside it."""

    @classmethod
    def quantity(cls, value: float | None, unit: str, without: str, title: str = "") -> Self:
        """A number with its unit; `without` is the reason for none."""
        return cls.number(value, partial(numbers.show, unit=unit), without, title)

    @classmethod
    def times(cls, value: float | None, without: str, title: str = "") -> Self:
        """A ratio with the sign of multiplication; `without` is the reason for none."""
        return cls.number(value, numbers.ratio, without, title)

    @classmethod
    def number(
        cls, value: float | None, show: Callable[[float], str], without: str, title: str = ""
    ) -> Self:
        """A number as `show` writes it; `without` is the reason for none."""
        if value is None or numbers.is_missing(value):
            return cls(title=without, css="none")
        return cls(show(value), numbers.raw(value), title)


@dataclass(frozen=True)
class Row:
    """Row of a table whose heads are elsewhere."""

    name: str
    data: tuple[Datum, ...] = ()
    mark: int = -1
    """Number of its variant; -1 where it belongs to no one."""
    role: str = "other"
    note: str = ""
    """Text behind the name."""
    also: tuple[str, ...] = ()
    """Further names of the same machine code."""
    depth: int = 0
    """How far it stands in; of trees."""
    cell: int | None = None
    """Number of the cell whose details it opens."""
    beside: int | None = None
    """Number of the cell that opens beside it."""


T = TypeVar("T")


@dataclass(frozen=True)
class Column(Generic[T]):
    """Column of a table: its head, and the value of a row in it."""

    head: str
    value: Callable[[T], Datum]
    hint: str = ""
    """Meaning of the head."""
    is_text: bool = False
    drop: int | None = None
    """When a terminal without room leaves it out (`TextTable`); PAGE_ONLY: always."""


PAGE_ONLY = -1


def text_column(  # noqa: PLR0913 - what a column is to a reader
    head: str,
    of: Callable[[T], str],
    hint: str = "",
    *,
    drop: int | None = None,
    css: str = "words",
    without: str = numbers.MISSING,
) -> Column[T]:
    """A column of texts; `without` stands where one is empty."""
    return Column(head, lambda row: Datum(of(row) or without, css=css), hint, True, drop)


@dataclass(frozen=True)
class SmallTable:
    """A table: its columns, and a row for each thing that it lists."""

    caption: str
    first: str
    """Head of the names of the rows."""
    columns: tuple[Column[Any], ...]
    lines: tuple[Row, ...]
    left_out: int = 0
    """Further rows, for which there is no room."""
    long_names: bool = False
    """Whether the names of its rows need several lines."""
    reading: str = ""
    """Words on the numbers, in front of the table."""
    elsewhere: str = ""
    """Where the rows without room are, as a clause."""

    @classmethod
    def of(
        cls,
        caption: str,
        first: str,
        columns: Sequence[Column[T]],
        rows: Iterable[T],
        head_row: Callable[[T], Row],
        **settings: Any,
    ) -> Self:
        """Table of any rows; `head_row` gives the row of one without its values."""
        lines = (replace(head_row(row), data=tuple(c.value(row) for c in columns)) for row in rows)
        return cls(caption, first, tuple(columns), tuple(lines), **settings)


# ---- tables of frames ----------------------------------------------------------------------------


FrameRow = Mapping[Any, Any]


def frame_column(  # noqa: PLR0913 - what a column of a frame is to a reader
    head: str,
    key: str,
    unit: str = "",
    hint: str = "",
    without: str = "not known",
    *,
    drop: int | None = None,
) -> Column[FrameRow]:
    """A column of numbers; `without`: why there is none."""
    return Column(head, lambda row: quantity(row[key], unit, without), hint, drop=drop)


def frame_text(head: str, key: str, hint: str = "") -> Column[FrameRow]:
    """A column of texts."""

    def text(row: FrameRow) -> str:
        return row[key] if isinstance(row[key], str) else ""

    return text_column(head, text, hint)


def frame_table(  # noqa: PLR0913 - what a table is
    caption: str,
    first: str,
    columns: Sequence[Column[FrameRow]],
    frame: pd.DataFrame,
    most: int,
    *,
    head_row: Callable[[FrameRow], Row] | None = None,
    **settings: Any,
) -> SmallTable:
    """The first rows of a frame; by default its column `name` names them."""
    rows = frame.head(most).to_dict("records")
    settings = {"left_out": len(frame) - len(rows), "long_names": True} | settings
    return SmallTable.of(caption, first, columns, rows, head_row or _name_row, **settings)


def _name_row(row: FrameRow) -> Row:
    return Row(name_of(row["name"]))


def name_of(value: object) -> str:
    """Name of an operation or a range as a table shows it."""
    return value if isinstance(value, str) and value else "without a name"


def quantity(value: Any, unit: str, without: str) -> Datum:
    """A number of a frame; `without` is the reason for none."""
    return Datum.quantity(None if pd.isna(value) else float(value), unit, without)


# ---- rows and columns of variants ----------------------------------------------------------------


def variant_row(ranking: Ranking, variant: Variant, data: Iterable[Datum] = ()) -> Row:
    """Row of a variant, with its role, its remark and its further names."""
    programs = ranking.programs
    return Row(
        variant.label,
        tuple(data),
        programs.marks[variant.id],
        ranking.role(variant),
        note=variant.remark,
        also=programs.aliases.get(variant.id, ()),
    )


def cell_row(programs: Programs, cell: Cell, name: str) -> Row:
    """Row of a cell, whose details it opens."""
    return Row(name, mark=programs.marks[cell.variant.id], cell=programs.cell_numbers[cell.id])


def with_unit(metric: Label, unit: str) -> str:
    """Name and unit of a metric for a head; one of them where the name is or contains the unit."""
    if metric.label == metric.unit:
        return unit
    has_unit = metric.label.lower().startswith(unit.lower())
    return metric.label if has_unit else f"{metric.label} ({unit})"


def outcome_css(outcome: Outcome) -> str:
    """CSS class of an outcome."""
    if outcome.failed:
        return "bad"
    return {Outcome.MEASURED: "good", Outcome.DUPLICATE: "same"}.get(outcome, "absent")


def raw_or_none(value: float) -> str | None:
    """Raw number for a cell of a table; None where it is missing."""
    return numbers.raw(value) if math.isfinite(value) else None


# ---- columns -------------------------------------------------------------------------------------


# What a comparison of kernels is read for first; a page has no room for figures of every metric.
_MOST_TELLING = (
    "duration_ns",
    "cycles",
    "sm_clock_ghz",
    "tflops",
    "gbps",
    "registers",
    "l2_hit_pct",
    "dram_read_bytes",
    "dram_write_bytes",
    "memory_throughput_pct",
    "compute_throughput_pct",
    "achieved_occupancy_pct",
    "instructions",
)


_SAMPLED = ("energy_j", "power_w", "sustained_clock_ghz", "gflop_per_j", "gb_per_j")
"""Metrics that NVML gives while launches follow each other, and ones derived from them."""


def shown_metrics(findings: Findings) -> tuple[Label, ...]:
    """Metrics for figures and the main table: the primary one, the most telling, the rest."""
    measured = {metric.name: metric for metric in findings.numbers.metrics}
    metric_names = findings.report.settings.metrics or tuple(measured)
    telling = [name for name in _MOST_TELLING if name in metric_names or name in measured]
    # Nobody asks for these: they are there where launches were measured back to back.
    sampled = [name for name in _SAMPLED if name in measured]
    names = dict.fromkeys([findings.numbers.primary.name, *telling, *metric_names, *sampled])
    return tuple(measured.get(name) or label(name) for name in names)


# ---- verdicts ------------------------------------------------------------------------------------


def verdict_datum(pair: PairVerdict, without: str = "no verdict") -> Datum:
    """The verdict of one comparison; `without` is the reason for none. Sorts best first."""
    if pair.verdict is None:
        return Datum(title=without, css="verdict none")
    place = str(ORDER.index(pair.verdict)) if pair.verdict is not Verdict.NO_DATA else None
    return Datum(word_of(pair), place, details(pair), f"verdict {CSS[pair.verdict]}")


def counts_datum(pairs: Sequence[PairVerdict]) -> Datum:
    """The verdicts of several problems: one word where all agree, else how often each was given."""
    judged = [pair for pair in pairs if pair.verdict is not None]
    if not judged:
        return Datum(title="no verdict", css="verdict none")
    verdicts = list(dict.fromkeys(pair.verdict for pair in judged if pair.verdict))
    title = "; ".join(part for part in (counts(judged), _worst(judged)) if part)
    if len(verdicts) == 1:
        return Datum(word_of_all(judged), None, title, f"verdict {CSS[verdicts[0]]}")
    return Datum(verdict_counts(judged), None, title, "verdict")


def _worst(pairs: Sequence[PairVerdict]) -> str:
    """The comparison with the highest ratio: what a mean hides."""
    with_ratio = [pair for pair in pairs if not numbers.is_missing(pair.ratio)]
    if not with_ratio:
        return ""
    worst = max(with_ratio, key=lambda pair: pair.ratio)
    return f"worst: {numbers.ratio(worst.ratio)}, {word_of(worst)} ({reason_and_blocks(worst)})"


# ---- changes of counters -------------------------------------------------------------------------


def move_datum(metric: Label, move: CounterChange) -> Datum:
    """Change of one counter: a ratio, or points where it is a percentage."""
    if not move.pairs:
        return Datum(title="not collected for both", css="none")
    datum = change_datum(move.after, move.before, metric)
    before_and_after = (numbers.show(value, metric.unit) for value in (move.before, move.after))
    return Datum(datum.text, datum.raw, " \u2192 ".join(before_and_after), datum.css)


def change_datum(value: float, reference: float, metric: Label) -> Datum:
    """Change of a counter from `other` to `value`: a ratio, of percentages points."""
    if not (math.isfinite(value) and math.isfinite(reference)):
        return Datum(title="one of the two is missing", css="none")
    if metric.unit == "%":
        points = value - reference
        text = numbers.signed(points) if abs(points) >= 0.05 else "\u00b10.0"
        return Datum(f"{text} points", numbers.raw(points))
    if reference == 0:
        return Datum("unchanged" if value == 0 else "from 0", title="no ratio to 0")
    if value == 0:
        return Datum("to 0", "0")
    return Datum(numbers.change(value / reference), numbers.raw(value / reference))
