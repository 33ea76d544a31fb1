"""The tables of the page as plain rows: heat map, one metric, builds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import NO_RULING, Ruling, heat_mark, ruling_words
from profiler.findings.values import Value
from profiler.model import BuildResult, Cell, Outcome, Problem, Variant
from profiler.render.words import numbers
from profiler.render.words.kernel_names import readable_kernel
from profiler.render.words.labels import Label
from profiler.render.words.problems import telling

HEAT_EDGES = (0.02, 0.08, 0.2, 0.45, 0.8, 1.3)
"""Steps of |log2 ratio| between the classes of colour: about 1, 6, 15, 37, 74 and 146 percent."""


@dataclass(frozen=True)
class Datum:
    """One value in a table: as shown, raw for sorting, and what stands behind it."""

    text: str = numbers.MISSING
    raw: str | None = None
    """Raw number; None where the value is missing."""
    title: str = ""
    css: str = ""

    @classmethod
    def quantity(cls, value: float | None, unit: str, without: str, title: str = "") -> Self:
        """A number with its unit; `without` says why there is none."""
        if value is None or numbers.is_missing(value):
            return cls(title=without, css="none")
        return cls(numbers.show(value, unit), numbers.raw(value), title)

    @classmethod
    def times(cls, value: float | None, without: str, title: str = "") -> Self:
        """A ratio, as how many times; `without` says why there is none."""
        if value is None or numbers.is_missing(value):
            return cls(title=without, css="none")
        return cls(numbers.ratio(value), numbers.raw(value), title)


@dataclass(frozen=True)
class Row:
    """One row of a table whose heads are elsewhere."""

    name: str
    mark: int
    role: str
    data: tuple[Datum, ...]
    note: str = ""


@dataclass(frozen=True)
class Heat:
    """One number of every variant at every problem, best variant first."""

    against: str
    caption: str
    leads: tuple[str, ...]
    """Heads of the numbers over all problems, which stand first."""
    heads: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """One head row for each parameter: its values, each with the number of problems it spans."""
    problems: tuple[str, ...]
    rows: tuple[Row, ...]
    rows_are: str = "variant"


def heat(ranking: Ranking) -> Heat:
    """Ratios to the baseline; without one, to the best variant of each problem."""
    lookup = ranking.lookup
    standing = {row.variant.id: row for row in ranking.standings}
    against = lookup.baseline.name if lookup.baseline else "the best of each problem"
    rows = []
    for variant in ranking.order:
        mean = standing[variant.id].geometric_mean
        first = Datum(
            numbers.ratio(mean), raw_or_none(mean), _mean_title(len(standing[variant.id].ratios))
        )
        data = [_heat_datum(ranking, variant, problem) for problem in lookup.problems]
        rows.append(
            Row(
                variant.name,
                lookup.marks[variant.id],
                ranking.role(variant),
                (first, *data),
                variant.note,
            )
        )
    caption = f"{lookup.primary.label} relative to {against}, variants by problems"
    names = tuple(problem.name for problem in lookup.problems)
    return Heat(against, caption, ("mean",), heat_heads(lookup.problems), names, tuple(rows))


def heat_heads(
    problems: Sequence[Problem],
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """One head row for each parameter that tells the problems apart."""
    keys = telling(problems)
    return tuple(_heat_head(problems, keys[: level + 1]) for level in range(len(keys)))


def _heat_head(
    problems: Sequence[Problem], keys: Sequence[str]
) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The last of `keys` and its values; equal neighbours once, where the keys before agree too."""
    places = [tuple(str(problem.params.get(key, "")) for key in keys) for problem in problems]
    runs = itertools.groupby(places)
    return keys[-1], tuple((place[-1], len(list(same))) for place, same in runs)


def _mean_title(count: int) -> str:
    return f"geometric mean over {count} problems" if count else "no ratio to the baseline"


def _heat_datum(ranking: Ranking, variant: Variant, problem: Problem) -> Datum:
    lookup = ranking.lookup
    cell = lookup.cells.get((variant.id, problem.id))
    metric = lookup.primary
    if cell is None or not lookup.correct(cell):
        return lacking_datum(lookup, cell)
    value = lookup.value(cell, metric.name)
    ratio, low, high = _ratio_in_heat(ranking, problem, value)
    if not math.isfinite(ratio):
        return Datum(title=lookup.why_missing(cell, metric.name) or "no ratio", css="none")
    title = f"{problem.name}: {numbers.show(value.median, metric.unit)}, {numbers.ratio(ratio)}"
    ruling = _ruling_in_heat(lookup, cell)
    best = lookup.best_by_problem.get(problem.id)
    mark = " top" if best and best[0] == cell else ""
    return Datum(
        f"{ratio:.2f}" if ratio < 10 else numbers.significant(ratio, 3),
        numbers.raw(ratio),
        f"{title} {numbers.interval(low, high)}".rstrip() + ruling_words(ruling),
        heat_class(ratio, lower_is_better=metric.better != "higher") + mark + heat_mark(ruling),
    )


def _ruling_in_heat(lookup: Lookup, cell: Cell) -> Ruling:
    """Against the baseline; without one, against the winner of the problem."""
    if lookup.baseline is not None:
        return lookup.against_baseline.get(cell.id, NO_RULING)
    winner = lookup.winners.get(cell.problem.id)
    return winner.others.get(cell.id, NO_RULING) if winner else NO_RULING


def lacking_datum(lookup: Lookup, cell: Cell | None) -> Datum:
    """What stands in a heat map where a cell has no correct result."""
    reason = lookup.why_missing(cell, lookup.report.primary)
    failed = cell is not None and lookup.status(cell).outcome.failed
    if cell is None:  # nothing went wrong: it was never asked for
        return Datum(numbers.MISSING, None, reason, "none")
    return Datum("\N{MULTIPLICATION X}" if failed else numbers.MISSING, None, reason, "failed")


def _ratio_in_heat(ranking: Ranking, problem: Problem, value: Value) -> tuple[float, float, float]:
    if ranking.lookup.baseline is not None:
        return value.ratio, value.ratio_low, value.ratio_high
    best = ranking.lookup.best_by_problem.get(problem.id)
    ratio = value.median / best[1].median if best and best[1].median else math.nan
    return ratio, math.nan, math.nan


def heat_class(ratio: float, *, lower_is_better: bool = True) -> str:
    """CSS class of a ratio: `h-6` (far better) over `h0` to `h6` (far worse)."""
    if not ratio > 0:
        return "none"
    logarithm = math.log2(ratio) if lower_is_better else -math.log2(ratio)
    step = sum(abs(logarithm) >= edge for edge in HEAT_EDGES)
    return f"h{-step if logarithm < 0 else step}" if step else "h0"


@dataclass(frozen=True)
class MetricColumn:
    """One metric in one unit, over the rows of a table."""

    label: Label
    unit: str
    """As written in this column, with its prefix."""
    data: tuple[Datum, ...]

    @property
    def head(self) -> str:
        """Name and unit."""
        return with_unit(self.label, self.unit)


def with_unit(metric: Label, unit: str) -> str:
    """Name and unit of a metric for a head; the name alone where it says the unit."""
    said = metric.label.lower().startswith(unit.lower())
    return metric.label if said else f"{metric.label} ({unit})"


def metric_column(
    lookup: Lookup, cells: Sequence[Cell | None], metric: Label, *, correct: bool = False
) -> MetricColumn:
    """Medians of cells in one unit; with `correct`, those of correct results only."""
    medians = [
        lookup.value(cell, metric.name).median
        if cell is not None and (lookup.correct(cell) or not correct)
        else math.nan
        for cell in cells
    ]
    unit, texts = numbers.column(medians, metric.unit)
    data = tuple(
        Datum(title=lookup.why_missing(cell, metric.name), css="none")
        if text == numbers.MISSING
        else Datum(text, text)
        for cell, text in zip(cells, texts, strict=True)
    )
    return MetricColumn(metric, unit, data)


def outcome_css(outcome: Outcome) -> str:
    """CSS class of an outcome."""
    if outcome.failed:
        return "bad"
    return {Outcome.MEASURED: "good", Outcome.DUPLICATE: "same"}.get(outcome, "absent")


@dataclass(frozen=True)
class MetricTable:
    """One metric of all variants at all problems, each problem in the unit that suits it."""

    heads: tuple[str, ...]
    """Problem and unit."""
    rows: tuple[Row, ...]


def metric_table(ranking: Ranking, metric: Label) -> MetricTable:
    """One metric as a table of variants by problems: the twin of that metric's figures."""
    lookup = ranking.lookup
    columns = []
    for problem in lookup.problems:
        cells = [lookup.cells.get((variant.id, problem.id)) for variant in ranking.order]
        columns.append(metric_column(lookup, cells, metric, correct=True))
    rows = tuple(
        Row(
            variant.name,
            lookup.marks[variant.id],
            ranking.role(variant),
            tuple(column.data[row] for column in columns),
        )
        for row, variant in enumerate(ranking.order)
    )
    heads = tuple(
        f"{problem.name} ({column.unit})" if column.unit else problem.name
        for problem, column in zip(lookup.problems, columns, strict=True)
    )
    return MetricTable(heads, rows)


@dataclass(frozen=True)
class BuildRow:
    """What the build of one variant gave, for one of its kernels."""

    variant: str
    mark: int
    kernel: str
    mangled: str
    """As ptxas prints it."""
    facts: tuple[Datum, ...]
    state: str
    error: str


BUILD_HEADS = (
    "registers",
    "spill stores (B)",
    "spill loads (B)",
    "stack (B)",
    "static shared (B)",
    "constant (B)",
)


def build_rows(lookup: Lookup) -> tuple[BuildRow, ...]:
    """Static facts by variant and kernel, in the order of the builds."""
    return tuple(row for build in lookup.report.builds for row in _build_rows(lookup, build))


def _build_rows(lookup: Lookup, build: BuildResult) -> list[BuildRow]:
    names = {variant.id: variant.name for variant in lookup.variants}
    name = names.get(build.variant, build.variant)
    mark = lookup.marks.get(build.variant, -1)
    state = build_state(build, names)
    empty = tuple(Datum(title="no kernel of our own", css="none") for _ in BUILD_HEADS)
    if not build.kernels:
        return [BuildRow(name, mark, "", "", empty, state, build.error)]
    return [
        BuildRow(
            name,
            mark,
            readable_kernel(kernel.name),
            kernel.name,
            tuple(
                _fact(fact)
                for fact in (
                    kernel.registers,
                    kernel.spill_store_bytes,
                    kernel.spill_load_bytes,
                    kernel.stack_bytes,
                    kernel.shared_bytes,
                    kernel.constant_bytes,
                )
            ),
            state,
            build.error,
        )
        for kernel in build.kernels
    ]


def _fact(fact: int | None) -> Datum:
    if fact is None:
        return Datum(title="ptxas did not say", css="none")
    return Datum(numbers.show(fact), str(fact))


def build_state(build: BuildResult, names: Mapping[str, str]) -> str:
    """Say what became of the build of a variant; `names` gives the variants' names by id."""
    if not build.ok:
        return "compile failed"
    if build.duplicate_of:
        return f"same machine code as {names.get(build.duplicate_of, build.duplicate_of)}"
    if build.library is None and build.recipe_hash is None:
        return "no build step"
    return "from the cache" if build.cached else "built"


def raw_or_none(value: float) -> str | None:
    """Raw number for a cell of a table; None where it is missing."""
    return numbers.raw(value) if math.isfinite(value) else None
