"""Which sessions are foreseen while another measures, and so have processes that wait."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.samples import empty_samples
from profiler.analyse.verdicts import DELTA
from profiler.model import SessionKind, SessionPlan, Visit
from profiler.planning.plan import make_plan
from profiler.planning.space import Space
from profiler.planning.spec import load_spec
from profiler.sessions.agenda import Explanation, Foresight, SessionPart, steps

SPEC = """
name: agenda
workload: ./workload.py
variants:
  list:
    - {name: base, params: {how: base}}
    - {name: other, params: {how: other}}
    - {name: slow, params: {how: slow}}
problems: {matrix: {rows: [4]}}
baseline: base
collect: {device: cpu, blocks: [8, 16], final_blocks: FINAL, metrics: [cycles, l2_hit_pct]}
"""


def planned(folder, final_blocks=8, collect=""):
    path = folder / "spec.yaml"
    path.write_text(
        SPEC.replace("FINAL", str(final_blocks)).replace("{device", f"{{{collect}device")
    )
    (folder / "workload.py").touch()
    return make_plan(load_spec(path), Space())


def timed(plan, *, ratio, noise):
    """Samples of the first look, in which `other` takes `ratio` of the baseline, `slow` twice."""
    generator = np.random.default_rng(5)
    session = plan.sessions[0]
    ratios = {"base": 1.0, "other": ratio, "slow": 2.0}
    rows = [
        {
            "session": session.name,
            "collector": session.collector,
            "kind": SessionKind.TIMING.value,
            "cell": cell.id,
            "block": visit.block,
            "arm": visit.arm,
            "repeat": 0,
            "kernels": 1,
            "kernel_names": "k",
            "duration_ns": 1000.0 * ratios[cell.variant.id] * math.exp(generator.normal(0, noise)),
        }
        for cell in plan.cells
        for visit in session.visits
        if visit.cell == cell.id and visit.block < plan.looks[0]
    ]
    return pd.DataFrame(rows)


def first_look(session):
    return SessionPart("first look", session)


def later_looks(session):
    return SessionPart("later looks", session)


def names(sessions):
    """Each session with the number of its visits."""
    return [(session.name, len(session.visits) > 0) for session in sessions]


EXPLAINED = SessionPlan("ncu-explain", "ncu", SessionKind.EXPLAIN, (), (Visit("base", 0, 0),))


def foresight(plan, samples, explained=None):
    return Foresight(plan, samples, explained, DELTA)


def waiting_beside(plan, place, samples, explained=None):
    following = steps(plan, explains=explained is not None)[place + 1 :]
    return names(foresight(plan, samples, explained).following(following))


@pytest.fixture
def plan(tmp_path):
    return planned(tmp_path)


def test_cells_are_explained_before_the_confirmation_and_again_at_the_end(plan, tmp_path):
    timing, counters = plan.sessions
    *planned_first, looks, explanation, confirmation, last = steps(plan, explains=True)
    assert [step.session for step in planned_first] == [timing, counters]
    assert (looks, confirmation) == (later_looks(timing), SessionPart("confirmation", timing))
    assert (explanation, last) == (Explanation(), Explanation(is_repeated=True))
    without = planned(tmp_path, final_blocks=0)
    looks = later_looks(without.sessions[0])
    assert steps(without, explains=True)[2:] == (looks, Explanation())


def test_without_a_confirmation_cells_are_explained_before_the_last_counters(tmp_path):
    """Where the first look tells which: the pages of the report are printed meanwhile."""
    plan = planned(tmp_path, final_blocks=0)
    single = replace(plan, looks=plan.looks[:1])
    two = replace(plan, cells=plan.cells[:2])
    timing, counters = plan.sessions
    last = (later_looks(timing), Explanation(is_repeated=True))
    for settled in (single, two):
        assert steps(settled, explains=True) == (
            *(first_look(timing), Explanation(), first_look(counters)),
            *last,
        )
        assert steps(settled) == (first_look(timing), first_look(counters), later_looks(timing))
    assert waiting_beside(single, 0, empty_samples(), replace(EXPLAINED, visits=())) == [
        ("ncu-explain", False),
        ("ncu-counters-together", True),
    ]
    alone = replace(single, sessions=(timing,))
    assert steps(alone, explains=True) == (first_look(timing), later_looks(timing), Explanation())


def test_beside_what_is_explained_only_the_confirmation_waits(plan):
    """Not the explain session once more, in which mostly nothing is left to do."""
    samples = timed(plan, ratio=0.999, noise=0.0001)
    place = steps(plan, explains=True).index(Explanation())
    assert waiting_beside(plan, place, samples, EXPLAINED) == [("ncu-final", True)]
    assert waiting_beside(plan, place + 1, samples, EXPLAINED) == []


def test_where_a_timer_judges_cells_are_explained_when_ncu_has_counted_them(tmp_path):
    """Before that nobody knows how many kernels they launch."""
    timer = "collectors: [timer, ncu], ncu_timing: false, "
    plan = planned(tmp_path, collect=timer)
    timing, counters = plan.sessions
    assert steps(plan, explains=True) == (
        *(first_look(timing), later_looks(timing), SessionPart("confirmation", timing)),
        *(first_look(counters), Explanation()),
    )


def test_the_confirmation_waits_beside_the_counters_from_the_first_look_on(plan):
    _, counters, *_ = steps(plan)
    assert waiting_beside(plan, 0, empty_samples()) == [
        (counters.session.name, True),
        ("ncu-final", False),
    ]


def test_without_a_confirmation_only_the_counters_wait(tmp_path):
    plan = planned(tmp_path, final_blocks=0)
    assert waiting_beside(plan, 0, empty_samples()) == [(steps(plan)[1].session.name, True)]


def test_beside_the_counters_the_confirmation_stays_where_no_second_look_comes(plan):
    samples = timed(plan, ratio=0.999, noise=0.0001)
    assert waiting_beside(plan, 1, samples) == [("ncu-final", True)]
    assert waiting_beside(plan, 1, samples, EXPLAINED) == [
        ("ncu-explain", True),
        ("ncu-final", True),
    ]


def test_a_second_look_takes_its_place_before_what_waits_for_it(plan):
    samples = timed(plan, ratio=0.99, noise=0.02)
    assert waiting_beside(plan, 1, samples, EXPLAINED) == [
        ("ncu-timing", True),
        ("ncu-explain", False),
        ("ncu-final", False),
    ]


@pytest.mark.parametrize(
    ("look", "waiting"),
    [
        (0, [("ncu-timing", False), ("ncu-explain", False), ("ncu-final", False)]),
        (1, [("ncu-explain", False), ("ncu-final", True)]),
    ],
)
def test_beside_a_look_what_is_explained_stays_open(plan, look, waiting):
    seen = foresight(plan, timed(plan, ratio=0.99, noise=0.02), EXPLAINED)
    following = steps(plan, explains=True)[3:]
    assert names(seen.after_look(plan.sessions[0], look, following)) == waiting
