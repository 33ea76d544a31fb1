"""A standing session: cells come with its orders, failures cost their variant, inputs are kept."""

import json
from pathlib import Path

import pytest

from profiler.runner import standing_session as standing
from profiler.runner.journal import Journal
from profiler.runner.orders import LEAVE, SEARCH, SearchOrder, Turn, line_of, search_order
from profiler.runner.protocol import JobCell, JobVisit
from profiler.runner.session import open_session
from profiler.runner.standing_session import StandingSession

PROBLEM = {"rows": 5, "columns": 7}


def cell(how, problem="p0", **changes):
    name = how.replace(" ", "_")
    return JobCell(f"{name}..{problem}", how, {"how": how}, problem, PROBLEM, **changes)


def visits(*cells, block=0):
    return tuple(JobVisit(cell.id, block) for cell in cells)


@pytest.fixture
def stand(bench):
    """Carry out orders in this process; gives the journal and the session."""

    def carry_out(*orders):
        path = bench.folder / "orders.jsonl"
        job = bench.job([], problems=(), orders=str(path), searches=True)
        given = (line_of(SEARCH, order) for order in orders)
        path.write_bytes(b"".join((*given, line_of(LEAVE))))
        with Path(job.journal).open("a", encoding="utf-8") as stream:
            session = open_session(job, Journal(stream), Turn(None), StandingSession)
            session.run()
        return bench.journal(job), session

    return carry_out


def test_an_order_is_the_same_after_it_was_written():
    order = SearchOrder(
        cells=(cell("plain"),),
        visits=visits(cell("plain")),
        repeats={"p0": 4},
        forget=("a..p0",),
    )
    kind, data = json.loads(line_of(SEARCH, order))
    assert (kind, search_order(data)) == (SEARCH, order)


def test_cells_come_with_their_orders_and_inputs_are_made_once(stand, select):
    base, later = cell("plain"), cell("plain again")
    records, _ = stand(
        SearchOrder(cells=(base,), visits=visits(base), repeats={"p0": 2}),
        SearchOrder(cells=(later,), visits=visits(base, later, block=1), repeats={"p0": 5}),
        SearchOrder(visits=visits(base, later, block=2)),
    )
    measured = select(records, event="finished", phase="measure")
    assert [(r["cell"], r["block"], len(r["durations_ns"])) for r in measured] == [
        (base.id, 0, 2),
        (base.id, 1, 5),
        (later.id, 1, 5),
        (base.id, 2, 3),
        (later.id, 2, 3),
    ]
    assert len(select(records, event="finished", phase="inputs")) == 1
    assert len(select(records, event="finished", phase="reference")) == 1
    checked = [r["cell"] for r in select(records, event="finished", phase="check")]
    assert checked == [base.id, later.id]
    assert len(select(records, event="order_finished")) == 3
    assert records[-1]["event"] == "session_finished"


def test_a_wrong_variant_is_not_tried_at_other_problems(stand, select):
    base, other = cell("plain"), cell("plain", "p1")
    wrong, elsewhere = cell("off by one"), cell("off by one", "p1")
    records, _ = stand(
        SearchOrder(cells=(base, other), visits=visits(base, other)),
        SearchOrder(
            cells=(wrong, elsewhere),
            visits=visits(base, wrong, other, elsewhere, block=1),
        ),
        SearchOrder(forget=(wrong.id, elsewhere.id), visits=visits(base, block=2)),
    )
    (failed,) = select(records, event="failed")
    assert (failed["cell"], failed["outcome"]) == (wrong.id, "wrong_result")
    assert not select(records, cell=elsewhere.id)
    measured = [(r["cell"], r["block"]) for r in select(records, event="finished", phase="measure")]
    assert measured == [(base.id, 0), (other.id, 0), (base.id, 1), (other.id, 1), (base.id, 2)]


def test_what_is_looked_at_again_is_not_checked_again(stand, select):
    base, wrong = cell("plain"), cell("off by one", check=False)
    records, session = stand(
        SearchOrder(cells=(base,), visits=visits(base)),
        SearchOrder(cells=(wrong,), visits=visits(wrong, block=1)),
        SearchOrder(forget=(wrong.id,)),
    )
    assert not select(records, event="failed")
    assert set(session._launches) == {base.id}


def test_short_of_memory_nothing_is_kept_from_one_order_to_the_next(stand, select, monkeypatch):
    monkeypatch.setattr(standing, "FREE_SHARE", 1.1)
    base = cell("plain")
    records, _ = stand(
        SearchOrder(cells=(base,), visits=visits(base)),
        SearchOrder(visits=visits(base, block=1)),
    )
    assert len(select(records, event="finished", phase="inputs")) == 2
    assert len(select(records, event="finished", phase="measure")) == 2
