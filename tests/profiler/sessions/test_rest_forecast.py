"""What is left of a session: of machines whose seconds are known, and of recorded ones."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

import pytest
from recorded import RECORDINGS

from profiler.model import Cell, Problem, SessionKind, SessionPlan, Variant
from profiler.parse import runner_journal
from profiler.planning.spec import load_spec
from profiler.planning.spec.collect import Collect
from profiler.run_folder.archive import open_run
from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import (
    CostReader,
    SessionCosts,
    TypicalVisit,
    typical_visit,
)

COLLECT = Collect(warmups=1)
TIMING = SessionPlan("ncu-timing", "ncu", SessionKind.TIMING, ("duration_ns",), ())

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


def errors(records, session, *, cells=CELLS, collect=COLLECT):
    """Forecast of the whole time against what it took, at visits after the first tenth."""
    problem_of = {cell.id: cell.problem.id for cell in cells}
    typical = typical_visit(session, collect)
    done = [record for record in records if is_visit(record)]
    left = Counter(record["cell"] for record in done)
    reader, made, found = CostReader(problem_of), 0, []
    began, ended = records[0]["time"], done[-1]["time"]
    for record in records:
        reader.observe(record)
        if is_visit(record):
            left[record["cell"]] -= 1
            made += 1
            if len(done) / 10 <= made < len(done) and made % max(len(done) // 50, 1) == 0:
                seconds = reader.costs.rest_s(left, typical)
                found.append((record["time"] + seconds - ended) / (ended - began))
    assert found
    return found


def largest(found):
    return max(map(abs, found))


# ---- machines whose seconds are known ------------------------------------------------------------


def test_nothing_is_left_when_every_visit_was_made():
    assert SessionCosts().rest_s({}, TypicalVisit(0.02, 1)) == 0.0


def test_the_work_that_problems_declare_tells_how_they_grow():
    machine = Machine(checks=False)
    assert largest(errors(machine.journal(), TIMING)) < 0.2
    untold = replace(machine, declares=False)
    assert largest(errors(untold.journal(), TIMING)) > 0.5


def test_set_ups_of_problems_to_come_take_what_those_of_this_session_took():
    """Compilation is not among the visits: it is known from the second problem on."""
    largest_errors = errors(Machine(compile_s=0.3, launch_s=1e-6).journal(), TIMING)
    assert largest(largest_errors[len(largest_errors) // 3 :]) < 0.3


def test_a_problem_whose_first_visit_takes_long_is_not_said_to_be_about_done():
    """Nothing declared tells of it, and other problems took milliseconds."""
    quick, slow = (cell for cell in CELLS[:4:3])
    reader, at = CostReader(PROBLEM_OF), 1000.0
    for cell, seconds in ((quick, 0.02), (quick, 0.02), (slow, 60.0)):
        at += seconds
        where = {"phase": protocol.MEASURE, "cell": cell.id}
        reader.observe({**where, "event": protocol.STARTED, "time": at - seconds})
        reader.observe({**where, "event": protocol.FINISHED, "time": at})
    left_s = reader.costs.rest_s({slow.id: 2}, TypicalVisit(0.02, 1))
    assert 100.0 < left_s <= 120.0


def test_clocks_that_stand_still_divide_by_nothing():
    reader = CostReader(PROBLEM_OF)
    for record in Machine().journal():
        reader.observe({**record, "time": 1000.0})
    left = {cell.id: 1 for cell in CELLS}
    assert reader.costs.rest_s(left, TypicalVisit(0.02, 1)) >= 0


# ---- recorded sessions ---------------------------------------------------------------------------


@cache
def recorded(name):
    """Cells, settings, and the attempts of a recording with their journals, oldest first."""
    run = open_run(RECORDINGS / f"{name}.zip")
    journals = {
        attempt.folder.name: (attempt.record, tuple(runner_journal.read_journal(attempt.journal)))
        for attempt in run.attempts()
    }
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
        ("autotune_large", "ncu-timing.001"),  # a first session: its problems grow
        ("autotune_large", "ncu-counters-together.001"),  # kernels that are replayed
        ("hopper_causal", "ncu-final.001"),  # few cells of each problem, no checks
        ("autotune_large", "ncu-final.001"),
        ("softmax_forms", "nsys.001"),  # compiled by sessions under another tool
        ("fusion_operators", "ncu-counters.001"),
    ],
)
def test_a_recorded_session_is_within_30_percent_after_a_tenth(name, attempt_name):
    cells, collect, journals = recorded(name)
    record, records = journals[attempt_name]
    session = SessionPlan(
        record.session, record.collector, SessionKind(record.kind), record.metrics, ()
    )
    largest_errors = errors(
        with_work_declared(records, cells), session, cells=cells, collect=collect
    )
    assert largest(largest_errors) < 0.3
