"""What a plan says about its cost before it runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from profiler.model import Environment
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.run_folder.folder import AttemptRecord, RunFolder, RunRecord
from profiler.runner import protocol
from profiler.sessions.forecast import START_S, first_command, forecast, visit_seconds

SOFTMAX = Path(__file__).parents[2] / "experiments" / "softmax.yaml"


@pytest.fixture(scope="module")
def softmax():
    loaded = load_spec(SOFTMAX)
    plan = make_plan(loaded, space_of(loaded), only="rows=512,columns=1024,algorithm=naive")
    return loaded.experiment, plan


def test_nothing_is_measured_where_there_is_no_run(softmax, tmp_path):
    experiment, plan = softmax
    timing, *counters = forecast(plan, experiment, tmp_path)
    assert (timing.measured, *(each.measured for each in counters)) == (0, 0)
    first_look = experiment.collect.blocks[0]
    assert timing.visits == (len(plan.cells) + 1) * first_look  # the baseline twice
    expected = START_S + timing.visits * visit_seconds(plan.sessions[0])
    assert timing.seconds == pytest.approx(expected)


def test_visits_of_the_newest_run_are_counted_once(softmax, tmp_path):
    experiment, plan = softmax
    run = RunFolder(tmp_path / "softmax" / "20260101-000000")
    run.write_record(RunRecord("softmax", "2026-01-01T00:00:00+00:00", 1, Environment(), {}))
    session = plan.sessions[0]
    done = session.visits[:3]
    for _ in range(2):  # a visit that two attempts made counts once
        record = AttemptRecord(session.name, "ncu", "timing", session.metrics, {})
        folder = run.new_attempt(record)
        with (folder / "journal.jsonl").open("w") as stream:
            for visit in done:
                finished = {"event": protocol.FINISHED, "phase": protocol.MEASURE}
                protocol.append_record(
                    stream, {**finished, "cell": visit.cell, "block": visit.block, "arm": visit.arm}
                )
    timing, *_ = forecast(plan, experiment, tmp_path)
    assert timing.measured == 3
    assert timing.seconds < forecast(plan, experiment, tmp_path / "empty")[0].seconds


def test_the_first_command_is_what_a_run_would_start(softmax):
    experiment, plan = softmax
    words = first_command(plan, experiment).split()
    assert words[0] == "ncu"
    for option in ("--config-file", "--rename-kernels", "--clock-control", "--log-file", "--nvtx"):
        assert option in words
    assert words[-4:-2] == ["python", "-P"]
    assert words[-2].endswith("runner/__main__.py")


def test_replayed_counters_take_longer_than_those_of_one_pass_and_timing_least(softmax):
    _, plan = softmax
    timing, counters = plan.sessions[0], plan.sessions[1]
    one_pass = replace(counters, metrics=("duration_ns", "instructions"))
    assert visit_seconds(timing) < visit_seconds(one_pass) < visit_seconds(counters)
