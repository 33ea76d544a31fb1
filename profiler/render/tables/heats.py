"""Heat maps of tables: colours of ratios, variants by problems, counters by problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import Medians, ParameterStep, moved_counters
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.verdicts import NO_VERDICT, PairVerdict
from profiler.metrics.queries import Label
from profiler.model import Cell, Problem, Variant
from profiler.notices import counted
from profiler.planning.problem_names import telling_parameters
from profiler.render.tables.rows import Datum, Row, move_datum, raw_or_none, variant_row
from profiler.render.words import numbers
from profiler.render.words.signs import NOT_MEASURED, missing_sign, why_missing
from profiler.render.words.verdicts import after_number, heat_mark

_ENDS = (1.25, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Ratios at which the last class of a scale may begin."""
_SHARES = (0.016, 0.07, 0.18, 0.38, 0.65, 1.0)
"""Edges of the classes as shares of the last, on a log scale: the finer, the nearer to 1."""
_UNLIKE_ONE = 0.0005
"""Difference from 1 that three decimals show."""
_INSIDE = 0.9
"""Share of the numbers that a scale must tell apart; what lies further out has its last colour."""


@dataclass(frozen=True)
class RatioScale:
    """Seven classes of ratios each way: `h-6` (far less) over `h0` to `h6` (far more)."""

    edges: tuple[float, ...]
    """Values of |log2 ratio| between the classes."""
    clipped: str = ""
    """Clause on the numbers that the last classes clip; empty where there are none."""
    first: int = -len(_SHARES)
    last: int = len(_SHARES)
    """The least and the greatest class that any of the numbers has; 0 lies between them."""

    def step(self, ratio: float) -> int:
        """Class of a ratio, -6 to 6."""
        logarithm = math.log2(ratio)
        step = sum(abs(logarithm) >= edge for edge in self.edges)
        return -step if logarithm < 0 else step

    def css(self, ratio: float) -> str:
        """CSS class of a ratio."""
        return f"h{self.step(ratio)}" if ratio > 0 else "none"

    @property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """Classes from the least to the greatest that any number has, and where each begins."""
        last = len(self.edges)
        begins = {
            step: f"<{_text(2 ** -self.edges[-step - 1])}"
            if step < 0
            else f">{_text(2 ** self.edges[step - 1])}"
            for step in range(-last, last + 1)
            if step
        } | {0: "1"}
        return tuple((step, begins[step]) for step in range(self.first, self.last + 1))


def scale_of(ratios: Iterable[float]) -> RatioScale:
    """The scale that fits ratios; those that are missing do not count."""
    present = [ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)]
    sizes = sorted(abs(math.log2(ratio)) for ratio in present)
    typical = sizes[math.ceil(_INSIDE * len(sizes)) - 1] if sizes else 0.0
    end = next((end for end in _ENDS if typical <= math.log2(end)), _ENDS[-1])
    edges = tuple(share * math.log2(end) for share in _SHARES)
    beyond = [ratio for ratio in present if abs(math.log2(ratio)) > edges[-1]]
    steps = [RatioScale(edges).step(ratio) for ratio in present] or [0]
    return RatioScale(edges, _clipped(beyond, end), min([0, *steps]), max([0, *steps]))


def _clipped(beyond: list[float], end: float) -> str:
    """Words on where the scale is clipped, and how far numbers beyond go, on each side."""
    below = [ratio for ratio in beyond if ratio < 1]
    above = [ratio for ratio in beyond if ratio > 1]
    sides = [_clipped_words(below, 1 / end, min(below))] if below else []
    sides += [_clipped_words(above, end, max(above))] if above else []
    return ", ".join(sides)


def _clipped_words(ratios: list[float], end: float, furthest: float) -> str:
    cells = counted(len(ratios), "cell")
    return f"clipped at {_text(end)} ({cells} beyond, to {_text(furthest)}{numbers.TIMES})"


def _text(ratio: float) -> str:
    if _UNLIKE_ONE <= abs(ratio - 1) < 0.005:
        return f"{ratio:.3f}"  # with two decimals both edges beside 1 would read 1.00
    return numbers.short_ratio(ratio)


# ---- variants by problems ------------------------------------------------------------------------


MANY_CELLS = 2_000
"""From here on a page says once what it says twice for fewer, in hovers that repeat what a number
has beside it."""


@dataclass(frozen=True)
class Heat:
    """Heat map of one number by row and problem, the best variant first."""

    caption: str
    problems: Sequence[Problem]
    rows: tuple[Row, ...]
    leads: tuple[str, ...] = ()
    """Heads of the numbers over all problems, which stand first."""
    against: str = ""
    rows_are: str = "variant"
    scale: RatioScale | None = None
    """Colours of ratios; None where numbers are no ratios."""

    @property
    def heads(self) -> Iterator[tuple[str, tuple[tuple[str, int], ...]]]:
        """A head row for each parameter that tells the problems apart.

        Its values, each with the number of problems it spans: equal neighbours once, where the
        parameters before agree too.
        """
        keys = telling_parameters(self.problems)
        for level, key in enumerate(keys, start=1):
            places = [
                tuple(str(problem.params.get(key, "")) for key in keys[:level])
                for problem in self.problems
            ]
            runs = itertools.groupby(places)
            yield key, tuple((place[-1], len(list(equal_columns))) for place, equal_columns in runs)


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
        rows.append(variant_row(findings.ranking, variant, (first, *data)))
    return Heat(
        f"{findings.numbers.primary.label} relative to {against}, variants by problems",
        programs.problems,
        tuple(rows),
        ("mean",),
        against,
        scale=scale,
    )


def _mean_title(count: int) -> str:
    return f"geometric mean over {count} problems" if count else "no ratio to the baseline"


def _heat_datum(findings: Findings, variant: Variant, problem: Problem, scale: RatioScale) -> Datum:
    cell = findings.programs.at(variant, problem)
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
        numbers.short_ratio(ratio),
        numbers.raw(ratio),
        f"{title} {numbers.interval(low, high)}".rstrip()
        # Of many cells the main table alone has verdicts with their evidence.
        + ("" if len(findings.programs.cells) > MANY_CELLS else after_number(pair)),
        scale.css(ratio) + mark + heat_mark(pair),
        cell=findings.programs.cell_numbers[cell.id],
    )


def heat_verdict(findings: Findings, cell: Cell) -> PairVerdict:
    """Against the baseline; without one, against the winner of the problem."""
    if findings.programs.baseline is not None:
        return findings.verdicts.against_baseline.get(cell.id, NO_VERDICT)
    winner = findings.ranking.winners.get(cell.problem.id)
    return winner.rival_verdicts.get(cell.id, NO_VERDICT) if winner else NO_VERDICT


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
    value = findings.numbers.duration(cell)
    if findings.programs.baseline is not None:
        return value.ratio, value.ratio_low, value.ratio_high
    return findings.ranking.slowdowns.get(cell.id, math.nan), math.nan, math.nan


# ---- counters by problems ------------------------------------------------------------------------


MOST_MOVED = 14


def moved_table(
    programs: Programs, step: ParameterStep, medians: Mapping[Label, Medians]
) -> Heat | None:
    """The counters that moved most with a step; None where none did."""
    moved = moved_counters(step, medians, [problem.id for problem in programs.problems])
    if not moved:
        return None
    rows = tuple(
        Row(
            metric.label,
            tuple(move_datum(metric, change) for change in changes),
            note=metric.definition,
        )
        for metric, changes in itertools.islice(moved.items(), MOST_MOVED)
    )
    return Heat("Change of counters, by problem", programs.problems, rows, rows_are="counter")
