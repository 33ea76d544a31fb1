"""Finds the commits that changed a number, by surveys of a history closer and closer to each step.

A session measures several commits side by side, so that nothing but the code differs between them.
The first holds both ends and commits spread between them; each two neighbours that differ hold a
step, and the next session spreads over the commits between those. Steps that go the other way, and
several of them, are found alike. Nothing here measures: `measure` and `prepare` are given.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from profiler.model import Verdict


@dataclass(frozen=True)
class CommitChange:
    """Ratio and verdict of a later commit to an earlier one, measured in one session."""

    verdict: Verdict
    ratio: float = math.nan
    """The number at the later commit by that at the earlier one."""
    low: float = math.nan
    high: float = math.nan

    @property
    def differs(self) -> bool:
        """Whether the commits were shown to differ by more than the margin."""
        return self.verdict in (Verdict.SLOWER, Verdict.FASTER)

    @property
    def is_open(self) -> bool:
        """Whether more blocks could decide, or there were none."""
        return self.verdict.is_open


UNCHANGED = CommitChange(Verdict.SAME, 1.0, 1.0, 1.0)
"""Change between two commits with the same program, which is not measured."""


@dataclass(frozen=True)
class Survey:
    """Result of one session."""

    steps: tuple[CommitChange, ...]
    """Change of each commit from the commit before it."""
    total_change: CommitChange
    """Change from the first to the last commit."""
    failed_places: tuple[int, ...] = ()
    """Places of commits without a right result: the session is repeated without them."""


class State(StrEnum):
    """State of a step between two commits."""

    FOUND = "found"
    """Confirmed by a second session of its two commits alone."""
    NOT_CONFIRMED = "not confirmed"
    """Not confirmed by a second session."""
    UNCLEAR = "unclear"
    """Undecided within the allowed sessions."""


@dataclass(frozen=True)
class Step:
    """A change between two commits without a usable commit between them."""

    before: int
    after: int
    """Place of the culprit in the history; with skipped commits before it, any of them may be."""
    change: CommitChange
    state: State


@dataclass(frozen=True, eq=False)
class Bisection:
    """Result of a bisection."""

    total_change: CommitChange
    """Change from the first to the last usable commit."""
    ends: tuple[int, int]
    """Places of these two; of the whole history where no commit is usable."""
    steps: tuple[Step, ...]
    """In the order of the history."""
    skipped: tuple[int, ...]
    """Places of commits that were not built, or gave no right result."""
    sessions: int
    out_of_sessions: bool = False

    @property
    def found(self) -> tuple[Step, ...]:
        """Confirmed steps."""
        return tuple(step for step in self.steps if step.state is State.FOUND)

    @property
    def culprits(self) -> tuple[Step, ...]:
        """Confirmed steps in the direction of the whole history's change."""
        verdict = self.total_change.verdict
        return tuple(step for step in self.found if step.change.verdict is verdict)

    @property
    def opposite_steps(self) -> tuple[Step, ...]:
        """Confirmed steps in the other direction, or undone by later steps."""
        return tuple(step for step in self.found if step not in self.culprits)

    @property
    def remainder(self) -> float:
        """Ratio of the whole change to the product of the confirmed steps; 1: nothing is left."""
        product = math.prod(step.change.ratio for step in self.found)
        return self.total_change.ratio / product if product else math.nan


# ---- how they are found --------------------------------------------------------------------------


COMMITS_A_SESSION = 10
"""Nine gaps: a history of 82 commits takes two surveys, and each has few enough comparisons."""
MOST_SESSIONS = 16
MOST_REPEATS = 2
"""Sessions of neighbours that stay UNCLEAR."""


Prepare = Callable[[Sequence[int]], Sequence[str | None]]
"""Programs of commits at given places; equal ones need no measurement; None: no build."""
Measure = Callable[[Sequence[int], int], Survey]
"""Measures commits at these places, the oldest first; the number says how many sessions of the same
commits there were before."""


_Pair = tuple[int, int]
"""An earlier and a later commit."""


_Gaps = Mapping[_Pair, CommitChange | None]
"""Pairs of commits with steps between them, and their change; None: not measured yet."""


class _OutOfSessionsError(Exception):
    """The allowed number of sessions is used up."""


@dataclass
class _Search:
    last: int
    prepare: Prepare
    measure: Measure
    commits: int
    most_sessions: int
    sessions: int = 0
    skipped: set[int] = field(default_factory=set)
    programs: dict[int, str] = field(default_factory=dict)
    steps: dict[_Pair, Step] = field(default_factory=dict)
    attempts: Counter[tuple[int, ...]] = field(default_factory=Counter)
    total_change: CommitChange | None = None

    def run(self) -> Bisection:
        is_out_of_sessions = False
        try:
            gaps: _Gaps = {(0, self.last): None}
            while gaps:
                gaps = self._survey_gaps(gaps)
            for step in list(self.steps.values()):
                self._confirm(step)
        except _OutOfSessionsError:
            is_out_of_sessions = True
        every = range(self.last + 1)
        usable = [place for place in every if place not in self.skipped] or every
        return Bisection(
            total_change=self.total_change or CommitChange(Verdict.NO_DATA),
            ends=(usable[0], usable[-1]),
            steps=tuple(sorted(self.steps.values(), key=lambda step: step.after)),
            skipped=tuple(sorted(self.skipped)),
            sessions=self.sessions,
            out_of_sessions=is_out_of_sessions,
        )

    def _survey_gaps(self, gaps: _Gaps) -> _Gaps:
        """Remaining gaps after a session inside of as many gaps as fit, then newly found gaps."""
        spans: dict[_Pair, list[int]] = {}
        for gap in gaps:
            points = self._points(*gap)
            if spans and len({*points, *chain.from_iterable(spans.values())}) > self.commits:
                break
            spans[gap] = points
        steps = self._surveyed_changes(spans, gaps)
        if steps is None:
            return gaps
        open_gaps = {gap: change_of_gap for gap, change_of_gap in gaps.items() if gap not in spans}
        for (before, after), change in steps.items():
            if change.is_open:
                self.steps[before, after] = Step(before, after, change, State.UNCLEAR)
            elif change.differs and self._has_usable_between(before, after):
                open_gaps[before, after] = change
            elif change.differs:
                self.steps[before, after] = Step(before, after, change, State.NOT_CONFIRMED)
        return open_gaps

    def _surveyed_changes(
        self, spans: Mapping[_Pair, Sequence[int]], gaps: _Gaps
    ) -> dict[_Pair, CommitChange] | None:
        """Changes between neighbours in gaps; None where commits failed, which are now skipped.

        A gap of only two programs with a known change is not measured.
        """
        steps: dict[_Pair, CommitChange] = {}
        measured: set[int] = set()
        for gap, points in spans.items():
            known_change = gaps[gap]
            if known_change is not None and len(self._distinct_points(points)) == 2:
                for before, after in pairwise(points):
                    same_program = self.programs[before] == self.programs[after]
                    steps[before, after] = UNCHANGED if same_program else known_change
            else:
                steps |= dict.fromkeys(pairwise(points), UNCHANGED)
                measured.update(points)
        places = sorted(measured)
        if len(places) > 1:
            survey = self._measured_survey(places)
            if survey.failed_places:
                self.skipped.update(survey.failed_places)
                return None
            survey = self._settled_survey(places, survey, steps)
            self.total_change = self.total_change or survey.total_change
            of_survey = zip(pairwise(places), survey.steps, strict=True)
            steps |= {pair: change for pair, change in of_survey if pair in steps}
        return steps

    def _points(self, first: int, last: int) -> list[int]:
        """Usable commits spread evenly between two commits, as many as a session takes."""
        while True:
            usable = [place for place in range(first, last + 1) if place not in self.skipped]
            count = min(self.commits, len(usable))
            gaps = max(1, count - 1)
            points = [usable[round(i * (len(usable) - 1) / gaps)] for i in range(count)]
            unprepared = [point for point in points if point not in self.programs]
            if not unprepared:
                return points
            for place, program in zip(unprepared, self.prepare(unprepared), strict=True):
                if program is None:
                    self.skipped.add(place)
                else:
                    self.programs[place] = program

    def _measured_survey(self, points: Sequence[int]) -> Survey:
        """Survey of commits; neighbours with the same program are measured once."""
        measured_points = self._distinct_points(points)
        if len(measured_points) == 1:
            return Survey(tuple(UNCHANGED for _ in pairwise(points)), UNCHANGED)
        if self.sessions >= self.most_sessions:
            raise _OutOfSessionsError
        self.sessions += 1
        survey = self.measure(measured_points, self.attempts[tuple(measured_points)])
        self.attempts[tuple(measured_points)] += 1
        if survey.failed_places:
            return survey
        changes = dict(zip(measured_points[1:], survey.steps, strict=True))
        steps = tuple(changes.get(after, UNCHANGED) for _, after in pairwise(points))
        return replace(survey, steps=steps)

    def _distinct_points(self, points: Sequence[int]) -> list[int]:
        """Commits whose program differs from the one before."""
        changed = [b for a, b in pairwise(points) if self.programs[a] != self.programs[b]]
        return [points[0], *changed]

    def _settled_survey(
        self, points: Sequence[int], survey: Survey, pairs: Collection[_Pair]
    ) -> Survey:
        """A survey after its unclear steps among `pairs` were measured again."""
        for _ in range(MOST_REPEATS):
            steps = dict(zip(pairwise(points), survey.steps, strict=True))
            unclear_pairs = [
                pair for pair, change in steps.items() if change.is_open and pair in pairs
            ]
            end_points = set(chain.from_iterable(unclear_pairs))
            if self.total_change is None and survey.total_change.is_open:
                end_points |= {points[0], points[-1]}
            if not end_points:
                break
            repeated = sorted(end_points)
            repetition = self._measured_survey(repeated)
            if repetition.failed_places:
                break
            measured = dict(zip(pairwise(repeated), repetition.steps, strict=True))
            is_whole = (repeated[0], repeated[-1]) == (points[0], points[-1])
            survey = Survey(
                tuple(measured[p] if p in unclear_pairs else change for p, change in steps.items()),
                repetition.total_change
                if is_whole and survey.total_change.is_open
                else survey.total_change,
            )
        return survey

    def _has_usable_between(self, before: int, after: int) -> bool:
        """Whether a usable commit lies between two commits."""
        self._points(before, after)
        return any(place not in self.skipped for place in range(before + 1, after))

    def _confirm(self, step: Step) -> None:
        """A step after its two commits were measured alone, in a session of their own."""
        if step.state is State.UNCLEAR:
            return
        key = (step.before, step.after)
        survey = self._measured_survey(key)
        if survey.failed_places:
            self.steps[key] = replace(step, state=State.NOT_CONFIRMED)
            return
        change = self._settled_survey(key, survey, [key]).steps[0]
        agrees = change.verdict is step.change.verdict
        state = State.FOUND if agrees else State.UNCLEAR if change.is_open else State.NOT_CONFIRMED
        self.steps[key] = Step(*key, change, state)


def bisect(
    commits: int,
    prepare: Prepare,
    measure: Measure,
    *,
    commits_a_session: int = COMMITS_A_SESSION,
    most_sessions: int = MOST_SESSIONS,
) -> Bisection:
    """Steps in a history of so many commits, the oldest at place 0.

    The answers of `prepare` and `measure` alone decide what comes next: given the same ones, it
    ends the same. The first and the last commit have to be usable, else the nearest ones are taken.
    """
    return _Search(commits - 1, prepare, measure, commits_a_session, most_sessions).run()


# ---- journal -------------------------------------------------------------------------------------
#
# A bisection asks the same questions in the same order each time; those that were answered are not
# asked again, so that it goes on after any end.


class AnswerJournal:
    """Answers by question, in a file of JSON lines that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._answers: dict[str, Any] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
                self._answers[record["question"]] = record["answer"]
            except (ValueError, KeyError, TypeError):
                continue  # a line that was being written when the process was killed

    def __contains__(self, question: Sequence[Any]) -> bool:
        return _text(question) in self._answers

    def answer(self, question: Sequence[Any], ask: Callable[[], Any]) -> Any:
        """JSON-ready answer to a question: the journaled one, else the result of `ask`."""
        text = _text(question)
        if text not in self._answers:
            self._answers[text] = ask()
            self._append({"question": text, "answer": self._answers[text]})
        return self._answers[text]

    def _append(self, record: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # A half line of a process that was killed ends here.
            file.write(("" if self._ends_line() else "\n") + json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _ends_line(self) -> bool:
        content = self.path.read_bytes()
        return not content or content.endswith(b"\n")


def _text(question: Sequence[Any]) -> str:
    return " ".join(map(str, question))
