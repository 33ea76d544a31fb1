"""The walk over a job, in this process: order, findings, and failures that cost one cell."""

import gc
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from profiler.model import Outcome
from profiler.parse.runner_journal import finished_visits
from profiler.runner import session
from profiler.runner.checks.cell_checks import _written_bytes
from profiler.runner.device import CpuDevice
from profiler.runner.protocol import JobVisit, Tolerance
from profiler.runner.session import parts_of

PHASES = ["prepare", "check", "describe"]


def outcome_of(records, select):
    (failure,) = select(records, event="failed")
    assert failure["outcome"] in set(Outcome)
    return failure["outcome"], failure["phase"], failure["cause"]


def test_cells_are_checked_before_any_block_and_blocks_follow_the_visits(bench):
    job = bench.job(["plain", "fresh"])

    records = bench.run(job)

    steps = [(r["cell"], r["phase"], r.get("block")) for r in records if r["event"] == "finished"]
    plain, fresh = (cell.id for cell in job.cells)
    assert steps == [
        (plain, "declare", None),
        (plain, "inputs", None),
        (plain, "reference", None),
        *((plain, phase, None) for phase in PHASES),
        *((fresh, phase, None) for phase in PHASES),
        (plain, "warmup", None),
        (fresh, "warmup", None),
        (plain, "measure", 0),
        (fresh, "measure", 0),
        (plain, "measure", 1),
        (fresh, "measure", 1),
        (plain, "relaunch", None),
        (fresh, "relaunch", None),
        (plain, "recheck", None),
        (fresh, "recheck", None),
    ]
    assert records[0]["event"] == "session_started"
    assert records[-1]["event"] == "session_finished"


@pytest.fixture
def moves(monkeypatch):
    """Keys by which inputs were moved in memory, where no test before has loaded a compiler."""
    monkeypatch.delitem(sys.modules, "torch._inductor", raising=False)
    keys = []
    monkeypatch.setattr(CpuDevice, "move_memory", lambda _, key: keys.append(key))
    return keys


def test_inputs_lie_elsewhere_for_each_part_of_the_blocks(bench, select, moves, monkeypatch):
    monkeypatch.setattr(session, "CHEAP_S", 60.0)
    job = bench.job(["plain", "fresh"], blocks=4, places=2)
    records = bench.run(job)
    steps = [(r["phase"], r.get("block")) for r in records if r["event"] == "finished"]
    begins = steps.index(("warmup", None))
    measured = [("measure", block) for block in range(4) for _ in range(2)]
    moved = [("inputs", None), *[("prepare", None), ("warmup", None)] * 2]
    assert steps[begins + 2 : begins + 2 + 13] == [*measured[:4], *moved, *measured[4:]]
    assert moves == ["timer-0.1"]
    assert len(select(records, event="finished", phase="check")) == 2, "what is right stays right"


@pytest.mark.parametrize("slow", [True, False])
def test_inputs_are_not_moved_where_that_takes_long_or_may_compile(
    bench, select, moves, monkeypatch, slow
):
    if slow:
        monkeypatch.setattr(session, "CHEAP_S", 0.0)
    else:
        monkeypatch.setitem(sys.modules, "torch._inductor", torch)
    records = bench.run(bench.job(["plain"], blocks=4, places=4))
    assert len(select(records, event="finished", phase="measure")) == 4
    assert len(select(records, event="finished", phase="inputs")) == 1
    assert not moves


def test_parts_are_of_whole_blocks_in_their_order():
    visits = [JobVisit(cell, block) for block in (3, 4, 6, 7, 8) for cell in "ab"]
    assert [sorted({visit.block for visit in part}) for part in parts_of(visits, 2)] == [
        [3, 4, 6],
        [7, 8],
    ]
    assert parts_of(visits, 1) == [tuple(visits)]
    assert len(parts_of(visits, 9)) == 5


def test_every_phase_is_journalled_before_and_after(bench, select):
    records = bench.run(bench.job(["plain"]))

    started = [(r["cell"], r["phase"], r.get("block")) for r in select(records, event="started")]
    finished = [(r["cell"], r["phase"], r.get("block")) for r in select(records, event="finished")]
    assert started == finished


def test_a_warm_up_for_which_an_earlier_launch_stands_has_its_seconds(bench, select, monkeypatch):
    def visits_that_spare_one(job, device, make=session.make_visits):
        visits = make(job, device)
        seconds = iter((0.25, 0.0))

        def warm_up(cell, launch, times):
            visits.spared_s += next(seconds)
            return {}

        visits.warm_up = warm_up
        return visits

    monkeypatch.setattr(session, "make_visits", visits_that_spare_one)
    records = bench.run(bench.job(["plain", "double"]))
    first, second = select(records, event="finished", phase="warmup")
    assert first["spared_s"] == 0.25
    assert "spared_s" not in second


def test_a_cell_is_measured_twice_in_a_block_and_its_records_say_which(bench, select):
    job = bench.job(["plain"], blocks=1, collector="ncu")
    cell = job.cells[0].id
    job = replace(job, visits=(JobVisit(cell, 0, 1), JobVisit(cell, 0), JobVisit(cell, 1, 1)))

    records = bench.run(job)

    own = select(records, phase="measure")
    visits = [(r["event"], r["block"], r.get("arm")) for r in own]
    assert visits == [
        *(("started", 0, 1), ("finished", 0, 1)),
        *(("started", 0, None), ("finished", 0, None)),
        *(("started", 1, 1), ("finished", 1, 1)),
    ]
    assert list(finished_visits(records)) == [(cell, 0, 1), (cell, 0, 0), (cell, 1, 1)]
    others = [r for r in records if r.get("phase") != "measure"]
    assert not any("arm" in record for record in others)


def test_a_visit_that_fails_in_its_second_arm_is_named_with_it(bench, select):
    job = bench.job(["raise late"], blocks=1, repeats=3)
    cell = job.cells[0].id
    job = replace(job, visits=tuple(JobVisit(cell, block, 1) for block in range(5)))

    (failure,) = select(bench.run(job), event="failed")

    assert (failure["block"], failure["arm"]) == (1, 1)


def test_the_start_of_a_session_says_where_it_runs(bench):
    start = bench.run(bench.job(["plain"]))[0]

    assert start["torch"] == torch.__version__
    assert start["cuda"] == torch.version.cuda
    assert start["nvtx"] is False
    assert {"pid", "python", "device", "time", "session"} <= start.keys()


def test_the_timer_gives_one_duration_for_every_repeat(bench, select):
    records = bench.run(bench.job(["plain"], repeats=4))

    for record in select(records, event="finished", phase="measure"):
        assert len(record["durations_ns"]) == 4
        assert all(duration > 0 for duration in record["durations_ns"])


def test_under_ncu_a_visit_launches_once_and_times_nothing(bench, select, monkeypatch):
    launches = []
    plain = torch.sum
    monkeypatch.setattr(torch, "sum", lambda *a, **k: (launches.append(1), plain(*a, **k))[1])

    records = bench.run(bench.job(["plain"], blocks=3, collector="ncu", warmups=2, repeats=9))

    assert len(launches) == 1 + 2 + 3 + 1  # check, warm-ups, blocks, and again on new inputs
    assert not any("durations_ns" in r for r in select(records, phase="measure"))


def test_findings_of_check_and_description(bench, select):
    records = bench.run(bench.job(["plain"]))

    (checked,) = select(records, event="finished", phase="check")
    assert 0 <= checked["max_abs_error"] < 1e-5
    assert 0 <= checked["max_rel_error"] < 1e-4
    assert checked["result_dtypes"] == ["float32"]
    assert checked["written_bytes"] == checked["result_bytes"] > 0
    (described,) = select(records, event="finished", phase="describe")
    assert (described["flops"], described["bytes"]) == (5 * 6, 4 * 5 * 8)


def test_of_what_was_written_a_view_counts_what_it_is_a_view_of():
    eight_numbers = torch.ones(8)
    assert (
        _written_bytes((torch.ones(1).expand(1000), eight_numbers[:4], eight_numbers[4:])) == 4 + 16
    )
    assert (
        _written_bytes({"sparse": torch.eye(100).to_sparse(), "sum": 100.0, "x": eight_numbers})
        == 32
    )


def test_the_work_of_every_problem_is_declared_before_the_first_is_set_up(bench, select):
    problems = [{"rows": 3, "columns": 4}, {"rows": 6, "columns": 2}]
    records = bench.run(bench.job(["plain"], problems))

    declared = select(records, event="finished", phase="declare")
    work = [(record["problem"], record["flops"], record["bytes"]) for record in declared]
    assert work == [("p0", 3 * 3, 4 * 3 * 5), ("p1", 6 * 1, 4 * 6 * 3)]
    phases = [record["phase"] for record in select(records, event="started")]
    assert phases[:3] == ["declare", "declare", "inputs"]


def test_the_work_of_a_problem_that_another_process_visits_is_declared(bench, select):
    job = bench.job(["plain"], [{"rows": 3, "columns": 4}, {"rows": 6, "columns": 2}])
    records = bench.run(replace(job, visits=tuple(v for v in job.visits if v.cell.endswith("p1"))))

    declared = select(records, event="finished", phase="declare")
    assert [(record["problem"], record["flops"]) for record in declared] == [("p1", 6), ("p0", 9)]
    assert {record["cell"] for record in select(records, phase="prepare")} == {"plain..p1"}


def test_a_problem_whose_work_raises_fails_when_it_is_described(bench, select):
    text = Path(bench.job(["plain"]).workload).read_text()
    workload = bench.folder / "exits.py"
    workload.write_text(f"{text}\n\ndef flops(problem):\n    raise SystemExit('no count')\n")
    records = bench.run(bench.job(["plain"], workload=str(workload)))

    (declared,) = select(records, event="finished", phase="declare")
    assert (declared["problem"], "flops" in declared) == ("p0", False)
    (failed,) = select(records, event="failed")
    assert failed["phase"] == "describe"


WORK_OF_INPUTS = """

_make_inputs = make_inputs
SEEN = {}


def make_inputs(problem, device, seed):
    SEEN[problem["rows"]] = 7.0
    return _make_inputs(problem, device, seed)


def flops(problem):
    return SEEN[problem["rows"]]
"""


def test_work_may_be_known_only_when_inputs_were_made(bench, select):
    text = Path(bench.job(["plain"]).workload).read_text()
    workload = bench.folder / "later.py"
    workload.write_text(f"{text}{WORK_OF_INPUTS}")
    records = bench.run(bench.job(["plain"], workload=str(workload)))

    assert not select(records, event="failed")
    (described,) = select(records, event="finished", phase="describe")
    assert described["flops"] == 7.0


def test_inputs_come_from_the_recorded_seed(bench, select):
    jobs = [
        bench.job(["off by one"], journal=str(bench.folder / f"{n}"), seed=s)
        for n, s in enumerate([11, 11, 12])
    ]

    causes = [select(bench.run(job), event="failed")[0]["cause"] for job in jobs]

    assert causes[0] == causes[1] != causes[2]


def test_every_problem_gets_inputs_of_its_own(bench, select):
    problems = [{"rows": 3, "columns": 4}, {"rows": 6, "columns": 2}]

    records = bench.run(bench.job(["plain", "fresh"], problems))

    inputs = select(records, event="finished", phase="inputs")
    assert [r["problem"] for r in inputs] == ["p0", "p1"]
    assert not select(records, event="failed")
    assert len(select(records, event="finished", phase="measure")) == 8


def test_memory_of_a_problem_is_free_before_the_next(bench, monkeypatch):
    alive = []
    make = torch.randn

    def tracked(*args, **kwargs):
        gc.collect()
        assert not any(reference() is not None for reference in alive)
        tensor = make(*args, **kwargs)
        alive.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(torch, "randn", tracked)

    bench.run(bench.job(["plain", "raise late", "off by one"], [{"rows": 3, "columns": 4}] * 2))

    assert len(alive) == 2


@pytest.mark.parametrize(
    ("how", "ending", "words"),
    [
        ("raise in prepare", "raised in prepare", "RuntimeError: no such algorithm (rowsum.py:"),
        ("not callable", "raised in prepare", "must return a callable, not <class 'int'>"),
        ("raise", "raised in check", "RuntimeError: launch refused (rowsum.py:"),
        ("exit", "raised in check", "SystemExit: 9"),
        ("text", "raised in check", "or a tuple, list, mapping or dataclass of such, not str"),
        ("raise late", "raised in measure", "gave up"),
        ("exhaust", "out_of_memory in check", f"asked for {4 << 50} bytes"),
        ("off by one", "wrong_result in check", "1 of 5 elements are wrong; worst at [1]: got"),
        ("nan", "wrong_result in check", "5 of 5 elements are wrong"),
        ("unwritten", "wrong_result in check", "1 of 5 elements are wrong; worst at [4]: got nan"),
        ("unwritten", "wrong_result in check", "never written, or is read before it is written"),
        ("keep dim", "wrong_result in check", "output 0: shape (5, 1), expected (5,)"),
        ("integer", "wrong_result in check", "dtype torch.int64, but the reference is"),
        ("two outputs", "wrong_result in check", "2 outputs, but the reference has 1"),
    ],
)
def test_a_failure_costs_one_cell(bench, select, how, ending, words):
    records = bench.run(bench.job([how, "plain"]))

    *found, cause = outcome_of(records, select)
    assert " in ".join(found) == ending
    assert words in cause
    measured = select(records, event="finished", phase="measure")
    assert len(select(measured, cell="plain..p0")) == 2
    assert records[-1]["event"] == "session_finished"


def test_a_failed_cell_is_not_visited_again(bench, select):
    records = bench.run(bench.job(["raise late"], blocks=5, repeats=3))

    assert [r["block"] for r in select(records, event="started", phase="measure")] == [0, 1]
    (failure,) = select(records, event="failed")
    assert failure["block"] == 1


def test_a_wrong_result_is_journalled_with_its_errors(bench, select):
    (failure,) = select(bench.run(bench.job(["off by one"])), event="failed")

    assert failure["max_abs_error"] == pytest.approx(1.0, rel=1e-5)
    assert failure["max_rel_error"] > 0


@pytest.mark.parametrize(
    ("trouble", "outcome", "phase"),
    [
        ({"inputs": "raise"}, "raised", "inputs"),
        ({"inputs": "too large"}, "out_of_memory", "inputs"),
        ({"reference": "raise"}, "raised", "reference"),
    ],
)
def test_what_fails_for_a_problem_fails_all_its_cells(bench, select, trouble, outcome, phase):
    problems = [{"rows": 3, "columns": 4, **trouble}, {"rows": 3, "columns": 4}]

    records = bench.run(bench.job(["plain", "fresh"], problems))

    failures = select(records, event="failed", phase=phase, outcome=outcome, problem="p0")
    assert [r["cell"] for r in failures] == ["plain..p0", "fresh..p0"]
    measured = select(records, event="finished", phase="measure")
    assert {r["cell"] for r in measured} == {"plain..p1", "fresh..p1"}


def test_without_a_check_nothing_is_compared(bench, select):
    job = bench.job(["off by one"])
    unchecked = tuple(replace(cell, check=False) for cell in job.cells)
    records = bench.run(replace(job, cells=unchecked))

    assert not select(records, event="failed")
    assert not select(records, phase="check")
    assert not select(records, phase="reference")


def test_only_cells_that_ask_for_it_are_compared(bench, select):
    job = bench.job(["off by one", "plain"])
    first, second = job.cells
    records = bench.run(replace(job, cells=(replace(first, check=False), second)))

    assert not select(records, event="failed")
    assert [r["cell"] for r in select(records, event="finished", phase="check")] == [second.id]


def test_a_job_can_allow_more_than_the_workload_does(bench, select):
    records = bench.run(bench.job(["off by one"], tolerances={"default": Tolerance(2.0, 0.0)}))

    assert not select(records, event="failed")


def test_a_launch_with_outputs_may_return_nothing(bench, select):
    records = bench.run(bench.job(["returns nothing"]))

    assert select(records, event="finished", phase="check", cell="returns_nothing..p0")


def test_an_output_may_be_narrower_than_its_reference(bench, select):
    assert not select(bench.run(bench.job(["half"])), event="failed")


def test_causes_name_no_folder_of_this_machine(bench, select):
    records = bench.run(bench.job(["raise", "raise in prepare", "not callable"]))

    for failure in select(records, event="failed"):
        assert str(Path(__file__).parent) not in failure["cause"]


def test_a_problem_that_comes_back_is_set_up_again(bench, select):
    job = bench.job(["plain", "raise late"], [{"rows": 3, "columns": 4}] * 2, blocks=1)
    again = tuple(JobVisit(visit.cell, 1) for visit in job.visits)

    records = bench.run(
        bench.job(
            ["plain", "raise late"], [{"rows": 3, "columns": 4}] * 2, visits=job.visits + again
        )
    )

    order = [r["problem"] for r in select(records, event="finished", phase="inputs")]
    assert order == ["p0", "p1", "p0", "p1"]
    assert len(select(records, event="finished", phase="measure", cell="plain..p0")) == 2
