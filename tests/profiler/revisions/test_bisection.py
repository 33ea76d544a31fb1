"""Bisections of histories whose truth is known, on the stand-in of benchmarks/history."""

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks/history"))

from bisections import COMMITS, KINDS, History, one_culprit, outcome, scored, two_culprits

from profiler.commands.bisect import CommitSessions
from profiler.commands.requests import BisectRequest
from profiler.findings.cell_numbers import Value
from profiler.model import Verdict
from profiler.revisions import bisection
from profiler.revisions.bisection import (
    AnswerJournal,
    Bisection,
    CommitChange,
    State,
    Step,
    Survey,
    bisect,
)
from profiler.revisions.report import StepAccount, bisection_lines, change_words
from profiler.revisions.repository import Commit


def test_the_command_has_the_limits_of_the_search():
    """They stand there too, so that no command has to load the search to name them."""
    assert BisectRequest.commits == bisection.COMMITS_A_SESSION
    assert BisectRequest.sessions == bisection.MOST_SESSIONS


@pytest.mark.parametrize("name", KINDS)
def test_culprits_and_no_others_are_named(name):
    kind, _, failing = KINDS[name]
    score = scored(kind, 6, size=0.02, drift=0.01, failing=failing)
    assert (score.found, score.wrong) == (6, 0)
    assert max(score.sessions) <= 8


def lines_of(bisection):
    commits = [Commit(f"{place:040}", "2026-11-30", "") for place in range(COMMITS)]
    accounts = {step.after: StepAccount("code", (), (), None) for step in bisection.steps}
    return [*bisection_lines(bisection, commits, ("cell", "duration_ns"), accounts, {})]


def levels(*places, size=0.02):
    made = np.zeros(COMMITS)
    for place in places:
        made[place:] += math.log1p(size)
    return made


def test_a_culprit_behind_commits_that_fail_is_one_of_several():
    history = History(levels(10), broken=frozenset({9, 10, 11}))
    (step,) = bisect(COMMITS, history.prepare, history.measure).culprits
    assert (step.before, step.after) == (8, 12)


def test_ends_that_fail_are_replaced_by_their_neighbours():
    history = History(levels(5), broken=frozenset({0, COMMITS - 1}))
    bisection = bisect(COMMITS, history.prepare, history.measure)
    assert [step.after for step in bisection.culprits] == [5]
    assert bisection.total_change.verdict is Verdict.SLOWER


def test_a_commit_that_fails_while_it_is_measured_is_skipped():
    history = History(levels(12))

    def measure(places, attempt):
        failed = tuple(place for place in places if place in (7, 14))
        if failed:
            return Survey((), CommitChange(Verdict.NO_DATA), failed)
        return history.measure(places, attempt)

    bisection = bisect(COMMITS, history.prepare, measure)
    assert [step.after for step in bisection.culprits] == [12]
    assert set(bisection.skipped) == {7, 14}


def test_a_step_that_the_second_session_does_not_show_is_no_culprit():
    history = History(levels(12))

    same, none = CommitChange(Verdict.SAME, 1.0, 1.0, 1.0), CommitChange(Verdict.NO_DATA)
    for second in (Survey((same,), same), Survey((), none, failed_places=(12,))):

        def measure(places, attempt, second=second):
            return second if len(places) == 2 else history.measure(places, attempt)

        bisection = bisect(COMMITS, history.prepare, measure)
        assert [(step.after, step.state) for step in bisection.steps] == [(12, State.NOT_CONFIRMED)]
        assert not bisection.culprits
        assert not any("No single commit" in line for line in lines_of(bisection)), "one was seen"

    def without_number(places, attempt):
        made = history.measure(places, attempt)
        steps = [
            none if b == 12 else change for b, change in zip(places[1:], made.steps, strict=True)
        ]
        return replace(made, steps=tuple(steps))

    bisection = bisect(COMMITS, history.prepare, without_number)
    assert State.UNCLEAR in [step.state for step in bisection.steps], "no number is no SAME"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "words"),
    [
        (0, 128, Verdict.SLOWER, "more spill_store_bytes, from 0"),
        (128, 0, Verdict.FASTER, "less spill_store_bytes, to 0"),
        (0, 0, Verdict.SAME, "the same"),
        (64, 128, Verdict.SLOWER, "2.00\u00d7 [2.00, 2.00] more spill_store_bytes"),
    ],
)
def test_a_metric_may_be_zero(before, after, verdict, words):
    """The first bytes that spill were `not measured`."""
    metric = "spill_store_bytes"
    values = [Value(**dict.fromkeys(("median", "low", "high"), n)) for n in (before, after)]
    numbers = SimpleNamespace(metrics=[SimpleNamespace(name=metric)], value=lambda n, _: values[n])
    experiment = SimpleNamespace(experiment=SimpleNamespace(margin_pct=1.0))
    sessions = SimpleNamespace(
        request=SimpleNamespace(metric=metric),
        version=lambda _: SimpleNamespace(loaded=experiment),
    )
    findings = SimpleNamespace(numbers=numbers)
    change = CommitSessions._metric_change(sessions, findings, 1, 0)
    assert (change.verdict, change_words(change, metric)) == (verdict, words)
    bisection = Bisection(change, (0, 1), (Step(0, 1, change, State.FOUND),), (), sessions=1)
    assert lines_of(bisection)
    values[1] = values[1]._replace(low=-1.0, high=200.0)
    change = CommitSessions._metric_change(sessions, findings, 1, 0)
    assert change.verdict is (Verdict.SAME if before == after else Verdict.UNCLEAR)


def test_equal_programs_are_not_measured():
    history = History(levels(20))
    bisection = bisect(
        COMMITS, lambda places: [f"{place >= 20}" for place in places], history.measure
    )
    assert [step.after for step in bisection.culprits] == [20]
    # One of each program, until both stand beside each other.
    assert {len(places) for places, _ in history.sessions} == {2}


def test_sessions_have_a_limit():
    history = History(levels(4, 9, 14, 19, 24))
    bisection = bisect(COMMITS, history.prepare, history.measure, most_sessions=3)
    assert (bisection.sessions, bisection.out_of_sessions) == (3, True)
    assert not bisection.culprits, "none was confirmed"


class KilledError(Exception):
    """The process ends here."""


def journalled(path, history, kill_at=None):
    """A bisection whose answers a journal keeps, killed before a session."""
    journal = AnswerJournal(path)
    begun = 0

    def measure(places, attempt):
        def ask():
            nonlocal begun
            begun += 1
            if begun == kill_at:
                raise KilledError
            # A session of the same commits gives the same numbers, whenever it is made.
            history.generator = np.random.default_rng([*places, attempt])
            made = history.measure(places, attempt)
            return [[asdict(change) for change in made.steps], asdict(made.total_change)]

        steps, whole = journal.answer(("survey", *places, attempt), ask)
        return Survey(tuple(_change(step) for step in steps), _change(whole))

    return bisect(COMMITS, history.prepare, measure)


def _change(record):
    return CommitChange(**{**record, "verdict": Verdict(record["verdict"])})


@pytest.mark.parametrize("kind", [one_culprit, two_culprits])
def test_killed_anywhere_it_goes_on_to_the_same_answer(tmp_path, kind):
    truth, _ = kind(np.random.default_rng(7), 0.02)
    whole = journalled(tmp_path / "whole", History(truth))
    for kill_at in range(1, whole.sessions + 1):
        path = tmp_path / f"{kill_at}"
        with pytest.raises(KilledError):
            journalled(path, History(truth), kill_at)
        again = History(truth)
        resumed = journalled(path, again)
        assert outcome(resumed) == outcome(whole)
        assert len(again.sessions) == whole.sessions - kill_at + 1


def test_a_journal_that_ends_in_half_a_line_keeps_what_is_whole(tmp_path):
    path = tmp_path / "journal.jsonl"
    AnswerJournal(path).answer(("a", 1), lambda: [1])
    path.write_text(path.read_text() + '{"question": "b')
    journal = AnswerJournal(path)
    assert journal.answer(("a", 1), lambda: [2]) == [1]
    assert journal.answer(("b",), lambda: "c") == "c"
    assert AnswerJournal(path).answer(("b",), lambda: "d") == "c"
