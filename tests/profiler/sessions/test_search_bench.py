"""The bench of a search: how long visits are, and whom the end of a runner is blamed on."""

import json
import signal

import pytest

from profiler.collect import Tools
from profiler.collect.registry import COLLECTORS
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.model import Cell, Outcome, Problem, Variant
from profiler.runner import protocol
from profiler.sessions.process import EndCause, FailingCell, SessionResult
from profiler.sessions.search.bench import (
    PILOT_LAUNCHES,
    Bench,
    RunnerEndedError,
    Subject,
    SubjectFailedError,
)

PROBLEMS = (Problem("small", "small"), Problem("large", "large"))


def subject(name):
    variant = Variant(name, name)
    cells = tuple(Cell(f"{name}..{problem.id}", variant, problem) for problem in PROBLEMS)
    return Subject(name, cells, None)


BASE, NEW = subject("base"), subject("new")
TIMES = {
    "base..small": 1e5,
    "base..large": 2e7,
    "new..small": 5e4,
    "new..large": 1e7,
}


def failed(cell, outcome="wrong_result"):
    return {"event": protocol.FAILED, "cell": cell, "outcome": outcome, "cause": "off by 1"}


class FakeRunner:
    """Carries out orders as it is told: each visit takes its time, or `events` come instead."""

    def __init__(self, folder, instead=None):
        self.folder = folder
        self.instead = instead or {}
        self.orders = []
        self.ended = []
        folder.mkdir(parents=True)

    def carry_out(self, order):
        self.orders.append(order)
        records = []
        for visit in order.visits:
            event = self.instead.get(visit.cell)
            if event is not None and not (visit.cell.startswith("base") and len(self.orders) > 1):
                if isinstance(event, SessionResult):
                    raise RunnerEndedError(self.folder, event)
                records.append(event)
                continue
            records.append(
                {
                    "event": protocol.FINISHED,
                    "phase": protocol.MEASURE,
                    "cell": visit.cell,
                    "block": visit.block,
                    "durations_ns": [TIMES[visit.cell]] * 3,
                }
            )
        return tuple(records)

    def finish(self):
        self.ended.append("finished")

    def end(self):
        self.ended.append("ended")


def died(cell, returncode=-signal.SIGSEGV, cause=EndCause.DIED):
    failing = None if cell is None else FailingCell(cell, "check")
    return SessionResult(returncode, cause, failing, 1.0)


@pytest.fixture
def benches(tmp_path):
    """Make a bench whose first runners do what is given, and the others work."""
    made = []

    def make(*instead):
        def start():
            script = instead[len(made)] if len(made) < len(instead) else {}
            made.append(FakeRunner(tmp_path / f"runner.{len(made):03d}", script))
            return made[-1]

        collector = COLLECTORS["timer"].create(Tools())
        return Bench(start=start, collector=collector, baseline=BASE, repeats=20), made

    return make


def test_a_block_has_the_baseline_beside_the_subject_at_every_problem(benches):
    bench, runners = benches()
    with bench:
        first = bench.block(NEW, check=True)
        bench.block(NEW, check=True)
        bench.forget(NEW)
    (runner,) = runners
    assert first == {"small": (5e4, 1e5), "large": (1e7, 2e7)}
    pilot, first, second, forgotten = runner.orders
    assert dict(pilot.repeats) == {"small": PILOT_LAUNCHES, "large": PILOT_LAUNCHES}
    # 50 ms of the baseline: 500 of the small ones, but no more than the setting.
    assert dict(first.repeats) == {"small": 20, "large": PILOT_LAUNCHES}
    assert [cell.id for cell in first.cells] == ["new..small", "new..large"]
    assert second.cells == ()
    order = [[visit.cell for visit in made.visits] for made in (first, second)]
    assert sorted(order[0]) == sorted(order[1]) == sorted(TIMES)
    assert order[0][:2] == order[1][1::-1], "in turns the first"
    assert forgotten.forget == ("new..small", "new..large")
    assert runner.ended == ["finished", "ended"]


def test_a_failure_that_the_runner_outlives_is_the_subjects(benches):
    bench, runners = benches({"new..large": failed("new..large")})
    with bench:
        with pytest.raises(SubjectFailedError) as caught:
            bench.block(NEW, check=True)
        bench.block(subject("base"), check=False)
    assert (caught.value.outcome, caught.value.cause) == (Outcome.WRONG_RESULT, "off by 1")
    assert len(runners) == 1


def test_a_subject_that_ends_the_runner_is_told_from_it(benches):
    bench, runners = benches({"new..small": died("new..small")})
    with bench:
        with pytest.raises(SubjectFailedError) as caught:
            bench.block(NEW, check=True)
        assert caught.value.outcome is Outcome.CRASHED
        assert "SIGSEGV, in check" in caught.value.cause
        bench.block(NEW, check=True)
    assert len(runners) == 2
    assert [cell.id for cell in runners[1].orders[0].cells] == ["base..small", "base..large"]


def test_a_lost_context_is_blamed_on_the_cell_that_the_journal_names(benches, tmp_path):
    lost = died(None, protocol.EXIT_CONTEXT_LOST, EndCause.CONTEXT_LOST)
    bench, runners = benches({"new..small": lost})
    record = json.dumps(failed("new..small", "illegal_address"))
    bench._ready_runner()
    (tmp_path / "runner.000/journal.jsonl").write_text(record + "\n")
    with pytest.raises(SubjectFailedError) as caught:
        bench.block(NEW, check=True)
    assert caught.value.outcome is Outcome.ILLEGAL_ADDRESS
    assert len(runners) == 1


def test_a_hang_is_the_subjects(benches):
    bench, _ = benches({"new..large": died("new..large", -9, EndCause.TIMED_OUT)})
    with pytest.raises(SubjectFailedError) as caught:
        bench.block(NEW, check=True)
    assert caught.value.outcome is Outcome.TIMED_OUT


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_was_killed_from_outside_is_tried_once_more(benches, sent):
    killed = {"new..small": died("new..small", -sent)}
    bench, runners = benches(killed)
    bench.block(NEW, check=True)
    assert len(runners) == 2
    again, _ = benches({}, {}, killed, killed)
    with pytest.raises(SubjectFailedError):
        again.block(NEW, check=True)
    baseline, _ = benches(*[{}] * 4, {"base..small": died("base..small", -sent)})
    baseline.block(NEW, check=True)
    assert len(runners) == 6


def test_a_baseline_that_fails_ends_the_search(benches):
    bench, _ = benches({"base..large": failed("base..large")})
    with pytest.raises(UsageError, match="The baseline base failed: wrong_result: off by 1"):
        bench.block(NEW, check=True)


def test_a_baseline_that_ends_the_runner_ends_the_search(benches):
    bench, _ = benches({"base..large": died("base..large")})
    with pytest.raises(EnvironmentUnusable, match=r"ended in check of base\.\.large"):
        bench.block(NEW, check=True)


def test_a_runner_that_ends_for_no_cell_is_tried_once_more(benches):
    bench, runners = benches({"new..small": died(None, 1)}, {"new..small": died(None, 1)})
    with pytest.raises(EnvironmentUnusable, match="The runner of the search ended: "):
        bench.block(NEW, check=True)
    assert len(runners) == 2
