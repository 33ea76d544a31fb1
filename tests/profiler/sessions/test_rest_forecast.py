"""What is left of a session: of machines whose seconds are known, and of recorded ones."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import pytest
from recorded import RECORDINGS

from profiler.model import Cell, Problem, SessionKind, SessionPlan, Variant
from profiler.parse import runner_journal
from profiler.planning.spec import load_spec
from profiler.planning.spec.collect import Collect
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import AttemptRecord
from profiler.runner import protocol
from profiler.sessions.forecasts.forecast import rest_of
from profiler.sessions.forecasts.rest import LaunchTimes
from profiler.sessions.forecasts.session_costs import (
    CostReader,
    DeclaredWork,
    SessionCosts,
    costs_of_sessions,
    past_of_run,
)

COLLECT = Collect(warmups=1)
TIMING = SessionPlan("ncu-timing", "ncu", SessionKind.TIMING, ("duration_ns",), ())
FINAL = replace(TIMING, name="ncu-final", kind=SessionKind.FINAL)
COUNTERS = SessionPlan(
    "ncu-counters", "ncu", SessionKind.COUNTERS, ("duration_ns", "instructions"), ()
)
EVENTS = replace(TIMING, name="timer", collector="timer")

PROBLEMS = [Problem(f"size={2**n}", f"{2**n}") for n in range(6)]
CELLS = [
    Cell(f"{name}..{problem.id}", Variant(name, name), problem)
    for problem in PROBLEMS
    for name in ("a", "b", "c")
]
PROBLEM_OF = {cell.id: cell.problem.id for cell in CELLS}


@dataclass(frozen=True)
class Machine:
    """Journals of sessions on a machine of which every second is known."""

    overhead_s: float = 0.02
    """Of a visit whose variant launches one kernel."""
    launch_s: float = 2e-4
    """Seconds of a launch at the smallest problem; at each that follows four times as many."""
    runs: float = 1.0
    """Launches of a visit."""
    compile_s: float = 0.0
    """For each cell, and ten times as long for the first of a process."""
    inputs_s: float = 0.0
    """At each problem."""
    declares: bool = True
    checks: bool = True

    def journal(self, cells=CELLS, blocks=8, began=1000.0):
        """Records of a session with so many visits of each cell."""
        self_time = [began]
        records = [{"event": protocol.SESSION_STARTED, "time": began}]

        def step(phase, cell, seconds, **findings):
            where = {"phase": phase, "cell": cell.id, "block": 0}
            records.append({**where, "event": protocol.STARTED, "time": self_time[0]})
            self_time[0] += seconds
            where |= findings
            records.append({**where, "event": protocol.FINISHED, "time": self_time[0]})

        problems = list(dict.fromkeys(cell.problem.id for cell in cells))
        for problem in problems if self.declares else ():
            first = next(cell for cell in cells if cell.problem.id == problem)
            step(protocol.DECLARE, first, 0.0, flops=3e14 * self.of_launch(problem))
        for place, problem in enumerate(problems):
            own = [cell for cell in cells if cell.problem.id == problem]
            launch_s = self.of_launch(problem)
            step("inputs", own[0], self.inputs_s)
            for cell in own:
                step("prepare", cell, 0.002 + self.compile_s * (1 if place else 10))
                if self.checks:
                    step("check", cell, 0.01 + launch_s + 15 * launch_s * (cell is own[0]))
            for cell in own:
                step("warmup", cell, 5e-5 + launch_s)
            for block in range(blocks):
                for cell in own:
                    first = 0.5 * (place == block == 0 and cell is own[0])
                    kernels = 3 if cell.variant.id == "c" else 1
                    step("measure", cell, first + kernels * self.overhead_s + self.runs * launch_s)
            for cell in own if self.checks else ():
                step("recheck", cell, 0.01 + launch_s + 15 * launch_s * (cell is own[0]))
        return records

    def of_launch(self, problem):
        """Seconds of a launch at a problem."""
        return self.launch_s * 4 ** [each.id for each in PROBLEMS].index(problem)


def is_visit(record):
    return record["event"] == protocol.FINISHED and record.get("phase") == protocol.MEASURE


def attempt(session):
    return AttemptRecord(session.name, session.collector, session.kind.value, session.metrics, {})


def errors(records, session, *, before=(), cells=CELLS, collect=COLLECT, from_visit=None):
    """Forecast of the whole time against what it took, at visits after the first tenth."""
    problem_of = {cell.id: cell.problem.id for cell in cells}
    past, checked = past_of_run(costs_of_sessions(before, problem_of), session, collect)
    rest = rest_of(session, cells, collect, past, checked)
    done = [record for record in records if is_visit(record)]
    left, reader, made, found = Counter(r["cell"] for r in done), CostReader(problem_of), 0, []
    began, ended = records[0]["time"], done[-1]["time"]
    first = len(done) / 10 if from_visit is None else from_visit
    for record in records:
        reader.observe(record)
        if is_visit(record):
            left[record["cell"]] -= 1
            made += 1
            if first <= made < len(done) and made % max(len(done) // 50, 1) == 0:
                seconds = rest.seconds(left, reader.costs)
                found.append((record["time"] + seconds - ended) / (ended - began))
    assert found
    return found


def largest(found):
    return max(map(abs, found))


# ---- machines whose seconds are known ------------------------------------------------------------


def test_nothing_is_left_when_every_visit_was_made():
    rest = rest_of(TIMING, CELLS, COLLECT, (), frozenset())
    assert rest.seconds({CELLS[0].id: 0}, SessionCosts()) == 0.0
    assert not rest.has_earlier


def test_the_work_that_problems_declare_tells_how_they_grow():
    machine = Machine()
    assert largest(errors(machine.journal(), TIMING)) < 0.05
    untold = replace(machine, declares=False)
    assert largest(errors(untold.journal(), TIMING)) > 0.5


@pytest.mark.parametrize("slowness", [0.3, 3.0])
def test_a_launch_of_half_a_millisecond_tells_how_fast_this_gpu_is(slowness):
    machine = Machine(launch_s=5e-4)
    records = [  # what is declared stays as it is
        {**record, "time": 1000.0 + (record["time"] - 1000.0) * slowness}
        for record in machine.journal()
    ]
    assert largest(errors(records, TIMING)) < 0.15


def test_an_overhead_is_of_a_variant_at_every_problem():
    """A variant of three kernels is not met before the second problem."""
    cells = [cell for cell in CELLS if cell.problem != PROBLEMS[0] or cell.variant.id != "c"]
    found = errors(Machine(launch_s=1e-6).journal(cells), TIMING, cells=cells)
    assert found[0] < -0.2  # nothing has told of it yet
    assert largest(found[len(found) // 3 :]) < 0.05


def test_counters_go_by_the_timing_of_the_same_cells():
    timing, counters = Machine(), Machine(overhead_s=0.07, runs=1.0, checks=False)
    before = [(attempt(TIMING), timing.journal())]
    records = counters.journal(blocks=1, began=2000.0)
    assert largest(errors(records, COUNTERS, before=before, from_visit=2)) < 0.1


def test_a_timer_goes_by_the_warm_ups_under_ncu():
    """Twenty launches a visit, of which the visits under ncu say next to nothing."""
    timer = Machine(overhead_s=0.001, runs=20, checks=False, declares=False)
    records = timer.journal(began=2000.0)
    before = [(attempt(TIMING), Machine(declares=False).journal())]
    assert largest(errors(records, EVENTS, before=before)) < 0.1
    assert largest(errors(records, EVENTS)) > 0.5


def test_what_was_compiled_once_is_not_compiled_again():
    first = Machine(compile_s=0.3)
    again = Machine(checks=False)
    before = [(attempt(TIMING), first.journal())]
    assert largest(errors(first.journal(), TIMING)) < 0.1
    assert largest(errors(again.journal(began=2000.0), FINAL, before=before)) < 0.05


def test_a_confirmation_of_few_cells_sets_up_few():
    """A set-up takes what each of its cells takes: a third of them is a third of it."""
    few = [cell for cell in CELLS if cell.variant.id == "a"]
    machine = Machine(compile_s=0.5, checks=False)
    before = [(attempt(TIMING), Machine(compile_s=0.5).journal())]
    looks = [*before, (attempt(TIMING), machine.journal(began=2000.0))]
    records = machine.journal(few, began=3000.0)
    assert largest(errors(records, FINAL, before=looks, cells=CELLS)) < 0.05


def test_few_cells_share_inputs_that_many_shared_before():
    few = [cell for cell in CELLS if cell.variant.id == "a"]
    before = [(attempt(TIMING), Machine(inputs_s=2.0).journal())]
    records = Machine(inputs_s=2.0, checks=False).journal(few, began=2000.0)
    found = errors(records, FINAL, before=before)
    assert largest(found[len(found) // 5 :]) < 0.05  # since the second problem


def test_an_expensive_reference_is_expected_at_every_problem():
    records = Machine().journal()
    slow, late = [], 0.0
    for earlier, record in pairwise([records[0], *records]):
        slow_check = record["event"] == protocol.FINISHED and record.get("phase") == protocol.CHECK
        late += 20.0 if slow_check else 0.0
        assert earlier["time"] <= record["time"]
        slow.append({**record, "time": record["time"] + late})
    assert largest(errors(slow, TIMING)) < 0.3


def test_clocks_that_stand_still_divide_by_nothing():
    records = [{**record, "time": 1000.0} for record in Machine().journal()]
    before = [(attempt(TIMING), records)]
    past, checked = past_of_run(costs_of_sessions(before, PROBLEM_OF), TIMING, COLLECT)
    rest = rest_of(TIMING, CELLS, COLLECT, past, checked)
    now = costs_of_sessions([(attempt(TIMING), records[: len(records) // 2])], PROBLEM_OF)
    assert rest.seconds({cell.id: 1 for cell in CELLS}, now[0][1]) >= 0


# ---- recorded sessions ---------------------------------------------------------------------------


@cache
def recorded(name):
    """Cells, settings, and the attempts of a recording with their journals, oldest first."""
    run = open_run(RECORDINGS / f"{name}.zip")
    journals = [
        (attempt, tuple(runner_journal.read_journal(attempt.journal))) for attempt in run.attempts()
    ]
    journals.sort(key=lambda item: item[1][0]["time"])
    return run.plan().cells, load_spec(run.spec_file).experiment.collect, journals


def with_work_declared(records, cells):
    """Records with `declare` in front, as sessions write it; recordings have `describe` alone."""
    problem_of = {cell.id: cell.problem.id for cell in cells}
    described = [record for record in records if record.get("phase") == protocol.DESCRIBE]
    of_problem = {problem_of[record["cell"]]: record for record in described if "flops" in record}
    began = {"phase": protocol.DECLARE, "time": records[0]["time"]}
    return [records[0], *(record | began for record in of_problem.values()), *records[1:]]


@pytest.mark.parametrize(
    ("name", "attempt_name"),
    [
        ("hopper_causal", "ncu-timing.001"),  # a first session: nothing but declared work tells
        ("autotune_large", "ncu-counters-together.001"),  # counters, by the timing before them
        ("hopper_causal", "ncu-final.001"),  # few cells of each problem, no checks
        ("autotune_large", "ncu-final.001"),  # after cells were explained, seconds for each launch
        ("softmax_forms", "nsys.001"),  # compiled by sessions under another tool
        ("timing_methods", "timer.001"),  # the last problem takes nine tenths of the time
    ],
)
def test_a_recorded_session_is_within_30_percent_after_a_tenth(name, attempt_name):
    cells, collect, journals = recorded(name)
    place = [each.folder.name for each, _ in journals].index(attempt_name)
    record, records = journals[place][0].record, with_work_declared(journals[place][1], cells)
    session = SessionPlan(
        record.session, record.collector, SessionKind(record.kind), record.metrics, ()
    )
    before = [(each.record, earlier) for each, earlier in journals[:place]]
    found = errors(records, session, before=before, cells=cells, collect=collect)
    assert largest(found) < 0.3


def test_a_second_run_knows_each_cell_and_problem_of_the_first():
    cells, collect, journals = recorded("softmax_forms")
    records = journals[0][1]
    slower = [{**each, "time": each["time"] * 1.3} for each in records]
    before = [(each.record, earlier) for each, earlier in journals]
    problem_of = {cell.id: cell.problem.id for cell in cells}
    past, _ = past_of_run(costs_of_sessions(before, problem_of), TIMING, collect)
    rest = rest_of(TIMING, cells, collect, past, frozenset())
    assert rest.has_earlier
    done = [record for record in slower if is_visit(record)]
    took = done[-1]["time"] - slower[0]["time"]
    left = Counter(record["cell"] for record in done)
    assert rest.seconds(left, SessionCosts()) == pytest.approx(took / 1.3, rel=0.15)


# ---- launches ------------------------------------------------------------------------------------


def test_what_every_launch_takes_beyond_its_declared_work_is_expected_of_the_next_one():
    seen, unseen = CELLS[0].id, CELLS[-1].id
    problems = (CELLS[0].problem.id, CELLS[-1].problem.id)
    work = {
        problem: DeclaredWork(3e9 * size, 0.0) for size, problem in enumerate(problems, start=1)
    }
    costs = SessionCosts(warm_ups={seen: 0.15}, work=work)
    assert LaunchTimes([costs], PROBLEM_OF, 1).seconds_of(unseen) == pytest.approx(0.15, rel=0.01)
