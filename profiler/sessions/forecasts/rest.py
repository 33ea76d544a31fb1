"""What the rest of a session will take: its visits, and the set-ups of its problems."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from profiler.model import Cell
from profiler.sessions.forecasts.launch_times import LaunchTimes
from profiler.sessions.forecasts.past import Likeness, PastSession
from profiler.sessions.forecasts.session_costs import SessionCosts, Stage
from profiler.sessions.forecasts.set_ups import SetUps
from profiler.sessions.forecasts.typical import TypicalVisit

_LEAST_OVERHEAD = 0.2
"""Share of a visit that is overhead at least, however long a launch seems to take."""


class Rest:
    """Forecasts what is left of a session.

    A visit takes an overhead, which grows with the number of kernels, and its launches their own
    time. Overheads go by the same cell in the most similar session, else by the variant at other
    problems, and follow what visits take now. Set-ups go by the same problem earlier, else by
    typical seconds, and follow those of now likewise.
    """

    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        cells: Iterable[Cell],
        *,
        visit: TypicalVisit,
        past: Sequence[PastSession] = (),
        checked: Set[str] = frozenset(),
        warmups: int = 0,
        rechecks: bool = True,
    ) -> None:
        cells = tuple(cells)
        self._variant_of = {cell.id: cell.variant.id for cell in cells}
        self._problem_of = {cell.id: cell.problem.id for cell in cells}
        self._visit = visit
        self._past = sorted(past, key=lambda session: session.likeness)
        self._checked = checked
        """Cells that this run has checked: they are not checked again."""
        self._warmups = warmups
        """Launches of a warm-up."""
        self._rechecks = rechecks
        self._overheads = self._earlier_overheads()

    @property
    def has_earlier(self) -> bool:
        """Whether an earlier session under the same tool has told what visits take."""
        return bool(self._overheads)

    def seconds(self, remaining: Mapping[str, int], now: SessionCosts) -> float:
        """Seconds until the last of the `remaining` visits by cell, in the order of problems.

        Typical ones where neither this session nor an earlier one has told.
        """
        if not any(remaining.values()):
            return 0.0
        launches = self._launch_times(now)
        return self._visits_s(remaining, now, launches) + self._set_ups_s(remaining, now, launches)

    def _launch_times(self, now: SessionCosts | None = None) -> LaunchTimes:
        sessions = [session.costs for session in self._past]
        return LaunchTimes([*sessions, now] if now else sessions, self._problem_of, self._warmups)

    # ---- visits ----

    def _earlier_overheads(self) -> dict[str, float]:
        """Overheads by cell, each of the most similar session that has it."""
        launches = self._launch_times()
        overheads: dict[str, float] = {}
        for session in self._past:
            if session.likeness > Likeness.OTHER_TOOL:
                overheads |= self._overheads_of(session.costs, session.visit, launches)
        return overheads

    def _overheads_of(
        self, costs: SessionCosts, visit: TypicalVisit, launches: LaunchTimes
    ) -> dict[str, float]:
        """Overheads by cell: how many times the typical one of the session."""
        return {
            cell: _overhead(statistics.median(seconds), visit, launches.of(cell))
            for cell, seconds in costs.typical_visits.items()
            if cell in self._problem_of
        }

    def _visits_s(
        self, remaining: Mapping[str, int], now: SessionCosts, launches: LaunchTimes
    ) -> float:
        seen = now.typical_visits
        new = [cell for cell, visits in remaining.items() if visits and cell not in seen]
        overheads = self._expected_overheads(new, now, launches)
        visit_s = {
            cell: overheads[cell] * self._visit.overhead_s
            + self._visit.launches * launches.of(cell)
            for cell in new
        } | {cell: statistics.median(seconds) for cell, seconds in seen.items()}
        return sum(visits * visit_s[cell] for cell, visits in remaining.items() if visits)

    def _expected_overheads(
        self, cells: Iterable[str], now: SessionCosts, launches: LaunchTimes
    ) -> dict[str, float]:
        """Overheads of cells that this session has not visited yet."""
        seen, earlier = self._overheads_of(now, self._visit, launches), self._overheads
        both = [cell for cell in seen.keys() & earlier.keys() if earlier[cell] > 0]
        ratios = [seen[cell] / earlier[cell] for cell in both]
        ratio = statistics.median(ratios) if ratios else 1.0
        known = {cell: ratio * overhead for cell, overhead in earlier.items()}
        new = {cell: seen[cell] for cell in seen.keys() - earlier.keys()}
        by_variant = self._means_by_variant(known) | self._means_by_variant(new)
        typical = statistics.fmean(by_variant.values()) if by_variant else 1.0
        return {
            cell: known.get(cell, by_variant.get(self._variant_of[cell], typical)) for cell in cells
        }

    def _means_by_variant(self, overheads: Mapping[str, float]) -> dict[str, float]:
        by_variant: dict[str, list[float]] = defaultdict(list)
        for cell, overhead in overheads.items():
            by_variant[self._variant_of[cell]].append(overhead)
        return {variant: statistics.fmean(each) for variant, each in by_variant.items()}

    # ---- set-ups ----

    def _set_ups_s(
        self, remaining: Mapping[str, int], now: SessionCosts, launches: LaunchTimes
    ) -> float:
        prepared = self._problems(self._checked)
        set_ups = SetUps(launches)
        for session in self._past:
            set_ups.add(session.costs, self._problems(session.checked_before))
        set_ups.follow(now, prepared)
        first = None if now.made else self._problem_of[next(iter(remaining))]
        return sum(
            set_ups.seconds((stage, problem in prepared), problem, cells, is_first=problem == first)
            for stage, problem, cells in self._stages_left(remaining, now)
        )

    def _problems(self, cells: Iterable[str]) -> set[str]:
        return {self._problem_of[cell] for cell in cells}

    def _stages_left(
        self, remaining: Mapping[str, int], now: SessionCosts
    ) -> Iterator[tuple[Stage, str, int]]:
        """Stages that come before the last visit, each with its problem and number of cells."""
        checks = now.set_ups[Stage.CHECK].items()
        unchecked = {problem: len(check.cells) for problem, check in checks}
        new: dict[str, list[str]] = defaultdict(list)
        for cell, visits in remaining.items():
            if visits and self._problem_of[cell] not in now.set_ups[Stage.PREPARE]:
                new[self._problem_of[cell]].append(cell)
        for problem, cells in new.items():
            yield Stage.PREPARE, problem, len(cells)
            if count := sum(cell not in self._checked for cell in cells):
                yield Stage.CHECK, problem, count
                unchecked[problem] = count
        last = self._problem_of[tuple(remaining)[-1]]
        for problem, count in unchecked.items() if self._rechecks else ():
            if problem != last and problem not in now.set_ups[Stage.RECHECK]:
                yield Stage.RECHECK, problem, count


def _overhead(seconds: float, visit: TypicalVisit, launch_s: float) -> float:
    """Overhead of a visit that took so long, in typical overheads of its session."""
    overhead_s = max(seconds - visit.launches * launch_s, _LEAST_OVERHEAD * seconds)
    return overhead_s / visit.overhead_s
