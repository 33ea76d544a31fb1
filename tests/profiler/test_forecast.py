"""What a plan says about its cost before it runs."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from recorded import RECORDINGS

from profiler.model import Environment, Span
from profiler.parse import runner_journal
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import CommandWorkload, load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import (
    AttemptRecord,
    AttemptResult,
    RunFolder,
    RunRecord,
    finish_attempt,
)
from profiler.runner import protocol
from profiler.sessions.attempt import journal_visits
from profiler.sessions.forecasts.forecast import (
    EXPLAINED_S,
    NEXT_S,
    PAGES_S,
    PROGRAM_S,
    SET_UP_S,
    START_S,
    EarlierVisits,
    Forecast,
    SessionVisits,
    first_command,
    forecast,
    further_seconds,
    run_forecast,
    start_seconds,
)
from profiler.sessions.forecasts.launch_counts import ExpectedLaunches
from profiler.sessions.forecasts.session_costs import typical_visit
from profiler.sessions.measuring.program_sessions import visit_lines

SOFTMAX = Path(__file__).parents[2] / "experiments" / "softmax.yaml"


@pytest.fixture(scope="module")
def softmax():
    loaded = load_spec(SOFTMAX)
    plan = make_plan(loaded, space_of(loaded), only="rows=512,columns=1024,algorithm=naive")
    return loaded.experiment, plan


def visit_seconds(session, collect):
    return typical_visit(session, collect).overhead_s


def test_nothing_is_measured_where_there_is_no_run(softmax, tmp_path):
    experiment, plan = softmax
    timing, *counters = forecast(plan, experiment, tmp_path)
    assert not any(session.held.measured for session in (timing, *counters))
    first_look = experiment.collect.blocks[0]
    assert timing.visits == (len(plan.cells) + 1) * first_look  # the baseline twice
    visits_s = timing.visits * visit_seconds(plan.sessions[0], experiment.collect)
    assert timing.seconds == pytest.approx(START_S + SET_UP_S + visits_s)
    for session, counted in zip(plan.sessions[1:], counters, strict=True):  # its process waits
        visits_s = counted.visits * visit_seconds(session, experiment.collect)
        assert counted.seconds == pytest.approx(NEXT_S + SET_UP_S + visits_s)


def test_later_looks_cost_what_the_visits_of_the_first_do():
    first = Forecast("ncu-timing", 100, SessionVisits(), seconds=8.0, visits_s=2.0)
    parts = [ExpectedLaunches("later look", 10, 100), ExpectedLaunches("confirmation", 20, 20)]
    assert further_seconds(parts, first) == pytest.approx(2 * NEXT_S + 30 * 0.02)
    assert further_seconds(parts, replace(first, visits=0)) == 0.0


def test_visits_that_are_measured_or_left_out_take_no_time(softmax, tmp_path):
    experiment, plan = softmax
    session = plan.sessions[0]
    three, four = frozenset(session.visits[:3]), frozenset(session.visits[3:7])
    held = {session.name: SessionVisits(three, four, "settings changed since")}
    timing, *_ = forecast(plan, experiment, tmp_path, held=held)
    assert timing.held == held[session.name]
    assert timing.remaining == timing.visits - 7
    visits_s = timing.remaining * visit_seconds(session, experiment.collect)
    assert timing.seconds == pytest.approx(START_S + SET_UP_S + visits_s)
    nothing_left = {session.name: SessionVisits(frozenset(session.visits))}
    assert forecast(plan, experiment, tmp_path, held=nothing_left)[0].seconds == 0.0


def forecast_by_recording(name, folder, gpu=None):
    """Forecast of the plan of a recording in a run that has measured nothing yet."""
    recording = open_run(RECORDINGS / f"{name}.zip")
    loaded, plan = load_spec(recording.spec_file), recording.plan()
    earlier = RunFolder(folder / plan.experiment / "20260101-000000")
    shutil.copytree(recording.path, earlier.path)
    earlier.write_record(replace(recording.record(), recording=False))
    newest = RunFolder(folder / plan.experiment / "20260102-000000")  # on another GPU
    newest.write_record(
        RunRecord(plan.experiment, "2099-01-02T00:00:00+00:00", 1, Environment(), {}, number=99)
    )
    return forecast(plan, loaded.experiment, folder, gpu or recording.record().environment.gpu)


def seconds_of_plan(recording):
    """Seconds of the attempts that made visits of the plan, and how many sessions these are."""
    visits = {session.name: set(session.visits) for session in recording.plan().sessions}
    seconds = {}
    for attempt in recording.attempts():
        if journal_visits(attempt.folder) & visits.get(attempt.record.session, set()):
            records = list(runner_journal.read_journal(attempt.journal))
            seconds[attempt.folder.name] = records[-1]["time"] - records[0]["time"]
    return sum(seconds.values()), len(visits)


@pytest.mark.parametrize("name", ["transpose", "hopper_causal", "timing_methods"])
def test_a_plan_goes_by_what_an_earlier_run_took_on_such_a_gpu(name, tmp_path):
    recording = open_run(RECORDINGS / f"{name}.zip")
    sessions = forecast_by_recording(name, tmp_path)
    assert all(session.by_earlier_run and not session.held.measured for session in sessions)
    took, count = seconds_of_plan(recording)
    between = count * start_seconds(recording)
    assert sum(session.seconds for session in sessions) - between == pytest.approx(took, rel=0.2)


def test_a_plan_does_not_go_by_a_run_on_another_gpu(tmp_path):
    sessions = forecast_by_recording("transpose", tmp_path, gpu="another")
    assert not any(session.by_earlier_run for session in sessions)


def test_an_unfinished_run_tells_what_its_rest_takes(softmax, tmp_path):
    experiment, plan = softmax
    run = RunFolder(tmp_path / "softmax" / "20260101-000000")
    record = RunRecord("softmax", "2026-01-01T00:00:00+00:00", 1, Environment(gpu="H200"), {})
    run.write_record(record)
    session = plan.sessions[0]
    cells = [cell.id for cell in plan.cells]
    folder = run.new_attempt(AttemptRecord(session.name, "ncu", "timing", session.metrics, {}))
    steps = [("inputs", cells[0], 13.0), *[("prepare", cell, 13.0) for cell in cells]]
    steps += [("measure", cells[0], 13.5 + visit / 2) for visit in range(3)]
    records = [{"event": protocol.SESSION_STARTED, "time": 10.0}]
    for number, (phase, cell, ended) in enumerate(steps):
        where = {"phase": phase, "cell": cell, "block": number, "arm": 1}
        records.append({**where, "event": protocol.STARTED, "time": records[-1]["time"]})
        records.append({**where, "event": protocol.FINISHED, "time": ended})
    (folder / "journal.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    timing, *_ = forecast(plan, experiment, tmp_path, "H200")
    assert timing.by_earlier_run
    assert timing.seconds == pytest.approx(START_S + 3.0 + 0.5 * timing.visits, rel=0.05)
    assert not forecast(plan, experiment, tmp_path, "another")[0].by_earlier_run


def test_the_first_command_is_what_a_run_would_start(softmax):
    experiment, plan = softmax
    words = first_command(plan, experiment).split()
    assert words[0] == "ncu"
    for option in ("--config-file", "--rename-kernels", "--clock-control", "--log-file", "--nvtx"):
        assert option in words
    assert words[-4:-2] == ["python", "-P"]
    assert words[-2].endswith("runner/__main__.py")


def test_replayed_counters_take_longer_than_those_of_one_pass_and_timing_least(softmax):
    experiment, plan = softmax
    timing, counters = plan.sessions[0], plan.sessions[1]
    one_pass = replace(counters, metrics=("duration_ns", "instructions"))
    three = replace(counters, metrics=("duration_ns", "l2_bytes", "l2_hit_sectors"))
    sessions = [timing, one_pass, three, counters]
    under_ncu = [visit_seconds(session, experiment.collect) for session in sessions]
    assert under_ncu == sorted(set(under_ncu))
    # Measured with L2 hits on an H200: 7.4 s for 258 visits of attention, 3.9 of them its kernels.
    by_cupti = visit_seconds(replace(three, collector="cupti"), experiment.collect)
    assert 0.5 < 258 * by_cupti / (7.4 - 3.9) < 1.5


def test_a_plan_is_that_of_its_sessions_later_looks_and_explanations(softmax, tmp_path):
    loaded = load_spec(SOFTMAX)
    experiment, plan = softmax
    whole = run_forecast(loaded, EarlierVisits(plan), tmp_path)
    assert whole.sessions == forecast(plan, experiment, tmp_path)
    cells = len(plan.cells)
    assert (whole.explained, whole.explain_s) == (cells, NEXT_S + PAGES_S + cells * EXPLAINED_S)
    sessions_s = sum(session.seconds for session in whole.sessions)
    assert whole.seconds == pytest.approx(sessions_s + whole.further_s + whole.explain_s)
    made = {s.name: SessionVisits(frozenset(s.visits)) for s in plan.sessions}
    assert run_forecast(loaded, EarlierVisits(plan, made), tmp_path).seconds == 0.0


def test_starts_are_those_of_the_newest_run_without_its_waits(tmp_path):
    run = RunFolder(tmp_path)
    assert start_seconds(run) == START_S
    spans = [
        Span("profiler", "waits for the GPU", 0.0, 60.0),
        *(Span(f"{name}.001", "starts", 60.0, 64.0) for name in "ab"),
        Span("a.001", "measures", 64.0, 70.0),
        Span("b.001", "measures", 72.0, 73.0),
    ]
    run.write_seconds((), spans)
    assert start_seconds(run) == 4.0 / 2  # they start beside each other


# ---- external commands ---------------------------------------------------------------------------

PARTED = {"command": "./sgemm", "parts": {"size": [1, 2], "launches": 51}}


@pytest.mark.parametrize(
    ("workload", "visits", "seconds", "lines"),
    [
        (PARTED, 4, 9.0, []),
        (
            PARTED,
            17,
            4.0,
            ["The first visit took 4.0 s for 306 profiled launches: 16 more take about 64 s."],
        ),
        (
            PARTED,
            13,
            95.0,
            [
                "The first visit took 95 s for 306 profiled launches: 12 more take about 19 min.",
                "To shorten visits, limit the launches of each part (workload.parts.take), the "
                "metrics (collect.metrics), or the passes (collect.blocks).",
            ],
        ),
        (
            {"command": "./sgemm"},
            101,
            100.0,
            [
                "The first visit took 2 min for 306 profiled launches: 100 more take about 2.8 h.",
                "To shorten visits, limit the launches (workload.launch_count, workload.kernel), "
                "the metrics (collect.metrics), or the passes (collect.blocks).",
            ],
        ),
    ],
)
def test_the_first_visit_of_a_program_tells_what_the_rest_takes(workload, visits, seconds, lines):
    workload = CommandWorkload.model_validate(workload)
    assert list(visit_lines(workload, visits, seconds, 306)) == lines


def test_a_plan_forecasts_a_program_by_its_newest_run(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "name: p\nworkload: {command: 'ls {variant}'}\nvariants: {list: [a, b]}\n"
        "collect: {blocks: 2}\n"
    )
    loaded = load_spec(tmp_path / "p.yaml")
    plan = make_plan(loaded, space_of(loaded))
    assert first_command(plan, loaded.experiment) in ("ls a", "ls b")
    assert forecast(plan, loaded.experiment, tmp_path)[0].seconds == pytest.approx(6 * PROGRAM_S)
    run = RunFolder(tmp_path / "p" / "20260101-000000")
    run.write_record(RunRecord("p", "2026-01-01T00:00:00+00:00", 1, Environment(), {}))
    session = plan.sessions[0]
    for visit, seconds in zip(session.visits, (10.0, 12.0), strict=False):
        record = AttemptRecord(session.name, "ncu", "timing", (), {}, visit=asdict(visit))
        finish_attempt(run.new_attempt(record), AttemptResult("finished", seconds))
    held = {session.name: SessionVisits(frozenset(session.visits[:2]))}
    first = forecast(plan, loaded.experiment, tmp_path, held=held)[0]
    assert (first.visits, first.remaining, first.seconds) == (6, 4, pytest.approx(4 * 11.0))
