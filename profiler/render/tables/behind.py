"""How far every configuration is behind the best of each problem, and what one for all costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.lookup import Lookup
from profiler.findings.overall import Standing, correct_rows
from profiler.findings.ranking import Place, places
from profiler.findings.roles import Ranking
from profiler.findings.rulings import NO_RULING, Ruling
from profiler.findings.winners import decided
from profiler.model import Problem, Variant, Verdict
from profiler.render.tables.rows import Datum, Heat, Row, heat_heads, lacking_datum
from profiler.render.words import numbers
from profiler.render.words.problems import varying

BEHIND_EDGES = (1.0, 3.0, 8.0, 20.0, 50.0, 100.0)
"""Percent behind the best at which the next class of colour begins."""


@dataclass(frozen=True)
class _Behind:
    """Every cell seen from the winner of its problem."""

    places: Mapping[tuple[str, str], Place]
    rulings: Mapping[str, Ruling]
    """By cell id, against the winner."""


@dataclass(frozen=True)
class BehindHeat:
    """One group of rivals: those that are planned for the same problems."""

    name: str
    """What tells its problems from the others; empty where there is one group."""
    heat: Heat


def behind_heats(ranking: Ranking) -> tuple[BehindHeat, ...]:
    """Percent behind the best of each problem, for each group of rivals.

    Rows stand by their worst case, references below.
    """
    lookup = ranking.lookup
    apart = lookup.references if lookup.rivals else frozenset()
    best = lookup.rival_winners if lookup.rivals else lookup.winners
    metric = lookup.report.primary
    found = _Behind(
        places(correct_rows(lookup), metric, apart=apart, decided=decided(best)),
        {key: one for winner in best.values() for key, one in winner.all_others.items()},
    )
    below = [row for row in ranking.standings if row.variant.id in lookup.references]
    several = len(ranking.groups) > 1
    groups = []
    for rows in ranking.groups or ((),):
        planned = lookup.planned[rows[0].variant.id] if rows else frozenset(lookup.problem_numbers)
        own = [problem for problem in lookup.problems if problem.id in planned]
        name = _common(lookup.problems, own) if several else ""
        groups.append(BehindHeat(name, _heat(ranking, [*rows, *below], own, found)))
    return tuple(groups)


def _common(problems: Sequence[Problem], own: Sequence[Problem]) -> str:
    """The parameters that differ among the problems, but not among these."""
    keys = [key for key in varying(problems) if key not in varying(own)]
    same = ", ".join(f"{key} = {own[0].params.get(key)}" for key in keys)
    return same or ", ".join(problem.name for problem in own)


def _heat(
    ranking: Ranking, rows: Sequence[Standing], problems: Sequence[Problem], found: _Behind
) -> Heat:
    return Heat(
        against="the best of each problem",
        caption="Percent behind the best of each problem, variants by problems",
        leads=("worst", "mean"),
        heads=heat_heads(problems),
        problems=tuple(problem.name for problem in problems),
        rows=tuple(_row(ranking, standing, problems, found) for standing in rows),
    )


def _row(ranking: Ranking, standing: Standing, problems: Sequence[Problem], found: _Behind) -> Row:
    lookup, variant = ranking.lookup, standing.variant
    data = [_datum(lookup, variant, problem, found) for problem in problems]
    return Row(
        variant.name,
        lookup.marks[variant.id],
        ranking.role(variant),
        (*_costs(standing), *data),
        variant.note,
    )


def _costs(standing: Standing) -> tuple[Datum, Datum]:
    regret = standing.regret
    if regret is None:
        nothing = Datum(title="a reference, or without a correct result", css="none")
        return nothing, nothing
    missing = len(standing.planned.intersection(regret.missing))
    lacking = f"; {missing} problems are missing" if missing else ""
    over = f"over {regret.problems} problems{lacking}"
    return (
        Datum(f"{regret.worst_pct:.1f}", numbers.raw(regret.worst_pct), f"worst cost {over}"),
        Datum(f"{regret.mean_pct:.1f}", numbers.raw(regret.mean_pct), f"mean cost {over}"),
    )


def _datum(lookup: Lookup, variant: Variant, problem: Problem, found: _Behind) -> Datum:
    cell = lookup.cells.get((variant.id, problem.id))
    place = found.places.get((variant.id, problem.id))
    if cell is None or not lookup.correct(cell):
        return lacking_datum(lookup, cell)
    if place is None or numbers.is_missing(place.behind_pct):
        return Datum(title="not ranked", css="none")
    value = lookup.value(cell, lookup.report.primary)
    shown = numbers.show(value.median, lookup.primary.unit)
    title = f"{problem.name}: {shown}, {_words(place, found.rulings.get(cell.id, NO_RULING))}"
    twin = lookup.variant_name(lookup.status(cell).duplicate_of)
    return Datum(
        f"{_sign(place)}{place.behind_pct:.1f}",
        numbers.raw(place.behind_pct),
        f"{title}; same machine code as {twin}" if twin else title,
        behind_class(place),
    )


def _sign(place: Place) -> str:
    """What stands before a number: a tie, or a question that more blocks have to answer."""
    if place.best or not place.tied or place.verdict is Verdict.FASTER:
        return ""
    return "?" if place.verdict is Verdict.UNCLEAR else "\u2248"


def _words(place: Place, ruling: Ruling) -> str:
    if place.best:
        return "the winner here"
    words = f"{abs(place.behind_pct):.2f}\u202f% {_side(place)} the best"
    if ruling.verdict is not None:
        return f"{words}; {numbers.ratio(ruling.ratio)} its time, {ruling.word} ({ruling.why})"
    return f"{words}, but the intervals overlap: a tie" if place.tied else words


def _side(place: Place) -> str:
    return "behind" if place.behind_pct >= 0 else "ahead of"


def behind_class(place: Place) -> str:
    """CSS classes: `b0` to `b6` by the distance, `ahead` of the best; `top`, `tied`, `unclear`."""
    if place.behind_pct < 0:
        return "ahead"
    step = sum(place.behind_pct >= edge for edge in BEHIND_EDGES)
    return f"b{step}{_mark(place)}"


def _mark(place: Place) -> str:
    if place.best:
        return " top"
    if not place.tied:
        return ""
    return " unclear" if place.verdict is Verdict.UNCLEAR else " tied"


def behind_legend() -> tuple[str, ...]:
    """Words under the colours, by class."""
    return (f"<{BEHIND_EDGES[0]:g}", *(f"\u2265{edge:g}" for edge in BEHIND_EDGES))


ONE_FOR_ALL_HEADS = ("worst cost", "at", "mean cost", "best or tied at", "ratio to the baseline")


def one_for_all_rows(ranking: Ranking) -> tuple[Row, ...]:
    """Each configuration as the only one, for `ONE_FOR_ALL_HEADS`; smallest worst cost first."""
    names = {problem.id: problem.name for problem in ranking.lookup.problems}
    rows = []
    for standing in ranking.standings:
        regret, variant = standing.regret, standing.variant
        if regret is None:
            continue
        first = len(ranking.best_or_tied.get(variant.id, ()))
        mean = standing.geometric_mean
        missing = len(standing.planned.intersection(regret.missing))
        lacking = f" ({missing} missing)" if missing else ""
        data = (
            Datum(numbers.show(regret.worst_pct, "%"), numbers.raw(regret.worst_pct)),
            Datum(names[regret.worst_problem] + lacking, css="words"),
            Datum(numbers.show(regret.mean_pct, "%"), numbers.raw(regret.mean_pct)),
            Datum(f"{first} of {len(standing.planned)}", str(first)),
            Datum(title="no baseline", css="none")
            if numbers.is_missing(mean)
            else Datum(numbers.ratio(mean), numbers.raw(mean), "geometric mean"),
        )
        mark = ranking.lookup.marks[variant.id]
        rows.append(Row(variant.name, mark, ranking.role(variant), data, variant.note))
    return tuple(rows)
