"""The order of the visits of an external command, and when the next program may run."""

import pytest

from profiler.model import SessionKind, SessionPlan, Visit
from profiler.sessions.measuring.program_sessions import ProgramTurn, turns_of


def planned(name, *visits):
    return SessionPlan(name, "ncu", SessionKind.TIMING, ("duration_ns",), visits)


A, A_AGAIN, B, C = Visit("a", 0), Visit("a", 0, 1), Visit("b", 0), Visit("c", 0)
TIMING, COUNTERS = planned("timing", A, B, A_AGAIN, C), planned("counters", A, B, C)


@pytest.fixture
def turns():
    return turns_of([(TIMING, TIMING.visits), (COUNTERS, COUNTERS.visits)])


def visits_ahead(turns):
    return [(turn.session.name, turn.visit) for turn in turns.ahead()]


def test_every_turn_of_a_session_is_taken_once_and_those_of_the_next_follow(turns):
    assert [turn.visit for turn in turns.of_session(TIMING)] == [A, B, A_AGAIN, C]
    assert visits_ahead(turns) == [("counters", A), ("counters", B)]


def test_two_are_ahead_whatever_their_session_and_none_of_a_cell_that_failed(turns):
    taken = turns.of_session(TIMING)
    next(taken)
    assert visits_ahead(turns) == [("timing", B), ("timing", A_AGAIN)]
    turns.failed.add("a")
    assert visits_ahead(turns) == [("timing", B), ("timing", C)]
    assert [turn.visit for turn in taken] == [B, C]
    assert visits_ahead(turns) == [("counters", B), ("counters", C)]


def test_names_of_turns_differ():
    turns = turns_of([(TIMING, TIMING.visits), (COUNTERS, COUNTERS.visits)])
    assert len({turn.name for turn in turns.coming}) == 7


def test_the_next_program_of_another_cell_runs_when_this_one_has_ended(turns):
    turn = next(turns.of_session(TIMING))
    assert turns.may_go_on(turn)


def test_the_same_cell_goes_on_at_once_only_where_it_was_measured():
    turns = turns_of([(TIMING, (A, A_AGAIN))])
    turn = next(turns.of_session(TIMING))
    assert turn == ProgramTurn(TIMING, A)
    assert not turns.may_go_on(turn)
    turns.measured.add("a")
    assert turns.may_go_on(turn)
