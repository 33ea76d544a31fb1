"""Which variants stand out in figures and tables: the best, the baseline, the runners-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from profiler.findings.lookup import Lookup
from profiler.findings.overall import Standing, best_or_tied, standings, tunes, winners
from profiler.findings.values import Value
from profiler.findings.winners import Winner
from profiler.model import Problem, Variant

_RUNNERS_UP = 3


@dataclass(frozen=True, eq=False)
class Ranking:
    """The order of the variants over all problems, and the part that each plays in figures."""

    lookup: Lookup

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Every variant with its ratios, best first; without a baseline by its cost everywhere."""
        return standings(self.lookup)

    @cached_property
    def best_standing(self) -> Standing | None:
        """The variant to recommend; the baseline only where it stands alone.

        The first in the order of all, unless another one is best or tied at most of all problems:
        that may lack some, where the first has them all but wins few.
        """
        ranked = [row for row in self.standings if row.regret is not None]
        others = [row for row in ranked if row.variant.id not in self.lookup.references] or ranked
        if not others:
            return None
        most = max(others, key=lambda row: len(self.best_or_tied.get(row.variant.id, ())))
        held = len(self.best_or_tied.get(most.variant.id, ()))
        wins_most = not tunes(self.lookup) and 2 * held > len(self.lookup.problems)
        return most if wins_most and not most.complete else others[0]

    @cached_property
    def baseline_standing(self) -> Standing | None:
        """The baseline, where over all problems it beats every other variant; else None."""
        other, baseline = self.best_standing, self.lookup.baseline
        if other is None or other.variant == baseline:
            return None
        mean = other.geometric_mean
        leads = mean < 1 if self.lookup.primary.better == "higher" else mean > 1
        return next((row for row in self.standings if leads and row.variant == baseline), None)

    @cached_property
    def groups(self) -> tuple[tuple[Standing, ...], ...]:
        """Variants that are no references, best first, by the problems that they are planned for.

        Configurations of one type cannot run on the problems of another: they are no rivals.
        """
        found: dict[frozenset[str], list[Standing]] = {}
        for row in self.standings:
            if row.variant.id not in self.lookup.references:
                found.setdefault(row.planned, []).append(row)
        return tuple(tuple(rows) for rows in found.values())

    @property
    def leader(self) -> Standing | None:
        """The baseline where it beats the rest, else the variant to recommend.

        On a page that tunes always the latter: it asks which configuration to use.
        """
        first = None if tunes(self.lookup) else self.baseline_standing
        return first or self.best_standing

    @cached_property
    def best_word(self) -> str:
        """What the variant to recommend is called: the best only where verdicts say so.

        Where the baseline has the better mean, it is only the first of the rest.
        """
        if self.baseline_standing:
            return "first of the rest"
        row = self.best_standing
        if row is None or not row.planned:
            return "leader"
        own = [self._winners.get(problem) for problem in row.planned]
        sole = (one and one.best and one.cell.variant == row.variant for one in own)
        return "best" if all(sole) else "leader"

    @cached_property
    def _winners(self) -> Mapping[str, Winner]:
        return winners(self.lookup)

    def first_words(self, row: Standing) -> str:
        """Say at how many problems a variant is best or tied, and by what that is told."""
        first, total = len(self.best_or_tied.get(row.variant.id, ())), len(row.planned)
        own = [self._winners[problem] for problem in row.planned if problem in self._winners]
        problems = f"{total} problem{'s' if total > 1 else ''}"
        if all(one.judged for one in own):
            return f"best or tied at {first} of {problems}"
        return f"first, or with an interval that overlaps the first one's, at {first} of {problems}"

    @property
    def best(self) -> Variant | None:
        """The variant to recommend for all problems; see `best_word`."""
        return self.best_standing.variant if self.best_standing else None

    @cached_property
    def order(self) -> tuple[Variant, ...]:
        """Variants, best first."""
        return tuple(row.variant for row in self.standings)

    @cached_property
    def best_or_tied(self) -> Mapping[str, frozenset[str]]:
        """Problems where a variant is best or not told apart from the best, by variant id."""
        return best_or_tied(self.lookup)

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Role in figures by variant id; whoever is not named plays `other`."""
        special = (self.best, self.lookup.baseline)
        named = {self.best.id: "best"} if self.best else {}
        if self.lookup.baseline:
            named[self.lookup.baseline.id] = "baseline"
        runners = [variant for variant in self.order if variant not in special]
        if tunes(self.lookup):  # other references are of more interest than near equals of the best
            leaders = {rows[0].variant.id for rows in self.groups}
            first = self.lookup.references | leaders
            runners.sort(key=lambda variant: variant.id not in first)
        for number, variant in enumerate(runners[:_RUNNERS_UP], start=1):
            named[variant.id] = f"series-{number}"
        return named

    def role(self, variant: Variant) -> str:
        """Role of a variant in figures."""
        return self.roles.get(variant.id, "other")

    def sorted_at(self, problem: Problem, metric: str) -> list[tuple[Variant, Value]]:
        """All variants at a problem: correct ones by their rank or value, then those without."""
        pairs = [(one, self._correct_value(one, problem, metric)) for one in self.lookup.variants]
        known = [pair for pair in pairs if pair[1].known]
        unknown = [pair for pair in pairs if not pair[1].known]
        return [*sorted(known, key=lambda pair: _order(pair[1])), *unknown]

    def _correct_value(self, variant: Variant, problem: Problem, metric: str) -> Value:
        correct = self.lookup.correct(self.lookup.cells.get((variant.id, problem.id)))
        return self.lookup.at(variant, problem, metric) if correct else Value()


def _order(value: Value) -> tuple[float, float]:
    """By rank; metrics without a direction have none and go by value."""
    return (value.rank if math.isfinite(value.rank) else math.inf, value.median)
