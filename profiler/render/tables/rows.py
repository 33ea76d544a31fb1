"""The tables of the page as plain rows: heat map, columns of metrics, builds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from profiler.findings.findings import CellNumbers, Findings, Programs
from profiler.findings.verdicts import NO_VERDICT, PairVerdict
from profiler.metrics.labels import Label
from profiler.model import BuildResult, Cell, KernelFacts, Outcome, Problem, Variant
from profiler.planning.problem_names import telling
from profiler.render.tables.build_failures import BuildFailure, build_failures
from profiler.render.tables.heat_scale import RatioScale, scale_of
from profiler.render.words import numbers
from profiler.render.words.kernel_names import readable_kernel
from profiler.render.words.outcomes import NOT_MEASURED, missing_sign, why_missing
from profiler.render.words.verdicts import after_number, heat_mark

MANY_CELLS = 2_000
"""From here on a page says once what it says twice for fewer, in hovers that repeat what a number
has beside it."""


@dataclass(frozen=True)
class Datum:
    """One value in a table: as shown, raw for sorting, and what stands behind it."""

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
        if value is None or numbers.is_missing(value):
            return cls(title=without, css="none")
        return cls(numbers.show(value, unit), numbers.raw(value), title)

    @classmethod
    def times(cls, value: float | None, without: str, title: str = "") -> Self:
        """A ratio with the sign of multiplication; `without` is the reason for none."""
        if value is None or numbers.is_missing(value):
            return cls(title=without, css="none")
        return cls(numbers.ratio(value), numbers.raw(value), title)


@dataclass(frozen=True)
class TextRow:
    """A row of words and numbers."""

    words: str
    data: tuple[Datum, ...]
    title: str = ""


@dataclass(frozen=True)
class Row:
    """One row of a table whose heads are elsewhere."""

    name: str
    mark: int
    role: str
    data: tuple[Datum, ...]
    note: str = ""
    also: tuple[str, ...] = ()
    """Further names of the same machine code."""


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
    scale: RatioScale | None = None
    """Colours of ratios; None where numbers are no ratios."""


def heat(findings: Findings) -> Heat:
    """Ratios to the baseline; without one, to the best variant of each problem."""
    programs = findings.programs
    against = programs.baseline.label if programs.baseline else "the best of each problem"
    scale = scale_of(heat_ratio(findings, cell)[0] for cell in programs.correct_cells.values())
    rows = []
    for rank in findings.ranking.ranks:
        variant, mean = rank.variant, rank.geometric_mean
        first = Datum(numbers.ratio(mean), raw_or_none(mean), _mean_title(len(rank.ratios)))
        data = [_heat_datum(findings, variant, problem, scale) for problem in programs.problems]
        rows.append(
            Row(
                name=variant.label,
                mark=programs.marks[variant.id],
                role=findings.ranking.role(variant),
                data=(first, *data),
                note=variant.remark,
                also=programs.aliases.get(variant.id, ()),
            )
        )
    caption = f"{findings.numbers.primary.label} relative to {against}, variants by problems"
    names = tuple(problem.name for problem in programs.problems)
    return Heat(
        against=against,
        caption=caption,
        leads=("mean",),
        heads=heat_heads(programs.problems),
        problems=names,
        rows=tuple(rows),
        scale=scale,
    )


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


def _heat_datum(findings: Findings, variant: Variant, problem: Problem, scale: RatioScale) -> Datum:
    cell = findings.programs.by_place.get((variant.id, problem.id))
    metric = findings.numbers.primary
    if cell is None or not findings.programs.correct(cell):
        return lacking_datum(findings.numbers, cell)
    value = findings.numbers.value(cell, metric.name)
    ratio, low, high = heat_ratio(findings, cell)
    if not math.isfinite(ratio):
        return Datum(
            title=why_missing(findings.numbers, cell, metric.name) or "no ratio", css="none"
        )
    title = f"{problem.name}: {numbers.show(value.median, metric.unit)}, {numbers.ratio(ratio)}"
    pair = heat_verdict(findings, cell)
    winner = findings.ranking.winners.get(problem.id)
    mark = " top" if winner and winner.cell == cell else ""
    return Datum(
        f"{ratio:.2f}" if ratio < 10 else numbers.significant(ratio, 3),
        numbers.raw(ratio),
        f"{title} {numbers.interval(low, high)}".rstrip() + _after(findings.programs, pair),
        scale.css(ratio, lower_is_better=metric.better != "higher") + mark + heat_mark(pair),
        cell=findings.programs.cell_numbers[cell.id],
    )


def has_many_cells(programs: Programs) -> bool:
    """Whether a page of these cells leaves out what stands elsewhere in it."""
    return len(programs.cells) > MANY_CELLS


def _after(programs: Programs, pair: PairVerdict) -> str:
    """Verdict and its evidence after a number; of many cells the main table alone has them."""
    return "" if has_many_cells(programs) else after_number(pair)


def heat_verdict(findings: Findings, cell: Cell) -> PairVerdict:
    """Against the baseline; without one, against the winner of the problem."""
    if findings.programs.baseline is not None:
        return findings.verdicts.against_baseline.get(cell.id, NO_VERDICT)
    winner = findings.ranking.winners.get(cell.problem.id)
    return winner.others.get(cell.id, NO_VERDICT) if winner else NO_VERDICT


def lacking_datum(cell_numbers: CellNumbers, cell: Cell | None) -> Datum:
    """Datum of a cell without a correct result in a heat map."""
    reason = why_missing(cell_numbers, cell, cell_numbers.primary.name)
    if cell is None:  # nothing went wrong: it was never asked for
        return Datum(numbers.MISSING, None, reason, "none")
    sign = missing_sign(cell_numbers.programs.status(cell).outcome)
    css = "none" if sign == NOT_MEASURED else "failed"
    return Datum(sign, None, reason, css, cell_numbers.programs.cell_numbers[cell.id])


def heat_ratio(findings: Findings, cell: Cell) -> tuple[float, float, float]:
    """Ratio to the baseline with its interval; without a baseline, to the winner."""
    value = findings.numbers.value(cell, findings.numbers.primary.name)
    if findings.programs.baseline is not None:
        return value.ratio, value.ratio_low, value.ratio_high
    slower = findings.ranking.slowdowns.get((cell.variant.id, cell.problem.id), math.nan)
    ratio = 1 / slower if findings.numbers.primary.better == "higher" else slower
    return ratio, math.nan, math.nan


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
    """Name and unit of a metric for a head; one of them where the name is or contains the unit."""
    if metric.label == metric.unit:
        return unit
    has_unit = metric.label.lower().startswith(unit.lower())
    return metric.label if has_unit else f"{metric.label} ({unit})"


def metric_column(
    numbers: CellNumbers, cells: Sequence[Cell | None], metric: Label
) -> MetricColumn:
    """Medians of cells in one unit."""
    medians = [
        math.nan if cell is None else numbers.value(cell, metric.name).median for cell in cells
    ]
    return value_column(numbers, cells, metric, medians)


def value_column(
    cell_numbers: CellNumbers, cells: Sequence[Cell | None], metric: Label, medians: Sequence[float]
) -> MetricColumn:
    """Numbers of cells in one unit."""
    unit, texts = numbers.column(medians, metric.unit)
    data = tuple(
        Datum(title=why_missing(cell_numbers, cell, metric.name), css="none")
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
class BuiltKernel:
    """Static facts of one kernel."""

    kernel: str
    facts: tuple[Datum, ...]
    """As `BUILD_HEADS`."""


@dataclass(frozen=True)
class VariantBuild:
    """What the build says of one variant."""

    variant: str
    mark: int
    state: str
    kernels: tuple[BuiltKernel, ...]


@dataclass(frozen=True)
class Builds:
    """What the build says of all variants."""

    with_facts: tuple[VariantBuild, ...]
    """Variants with kernels, in the order of the builds."""
    without: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of the variants without any, by the state of their build."""
    failed: tuple[BuildFailure, ...]
    """Equal messages of the compiler once."""


BUILD_HEADS = (
    "registers",
    "spill stores (B)",
    "spill loads (B)",
    "stack (B)",
    "static shared (B)",
    "constant (B)",
)


def builds_of(findings: Findings) -> Builds:
    """Static facts by variant, in the order of the builds; the same machine code once."""
    distinct = [build for build in findings.report.builds if not build.duplicate_of]
    builds = [_variant_build(findings.programs, build) for build in distinct]
    without: dict[str, list[str]] = {}
    for build in builds:
        if not build.kernels:
            without.setdefault(build.state, []).append(build.variant)
    return Builds(
        with_facts=tuple(build for build in builds if build.kernels),
        without=tuple((state, tuple(names)) for state, names in without.items()),
        failed=build_failures(distinct, {v.id: v.label for v in findings.programs.variants}),
    )


def _variant_build(programs: Programs, build: BuildResult) -> VariantBuild:
    names = {variant.id: variant.label for variant in programs.variants}
    return VariantBuild(
        variant=names.get(build.variant, build.variant),
        mark=programs.marks.get(build.variant, -1),
        state=build_state(build, names),
        kernels=tuple(_built_kernel(kernel) for kernel in build.kernels),
    )


def _built_kernel(kernel: KernelFacts) -> BuiltKernel:
    facts = (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.stack_bytes,
        kernel.shared_bytes,
        kernel.constant_bytes,
    )
    return BuiltKernel(readable_kernel(kernel.name), tuple(map(_fact, facts)))


def _fact(fact: int | None) -> Datum:
    if fact is None:
        return Datum(title="ptxas did not say", css="none")
    return Datum(numbers.show(fact), str(fact))


def build_state(build: BuildResult, names: Mapping[str, str]) -> str:
    """State of the build of a variant; `names` gives the variants' names by id."""
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
