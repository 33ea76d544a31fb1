"""Where the seconds of a run went: taken down by stamps, kept in the run folder, drawn."""

import time
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

from profiler.machine.locks import take_lock
from profiler.machine.requirements import Machine
from profiler.model import Environment, Span
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.seconds import (
    measured_seconds,
    read_seconds,
    seconds_beside_sessions,
    seconds_in_sessions,
    seconds_line,
    session_seconds,
)
from profiler.runner import protocol
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.measure import gpu_held

STAMPS = {"python": 101.0, "torch": 103.0, protocol.MAY_IMPORT: 103.9, "loaded": 104.0}
STAMPS |= {"turn": 106.0, "device": 107.5, "visits": 108.0}
BEGUN = {"event": protocol.SESSION_STARTED, "stamps": STAMPS}
FINISHED = {"event": protocol.SESSION_FINISHED, "monotonic": 110.0}


def steps(*records):
    recorder = SecondsRecorder(began=99.0)
    recorder.session("ncu-final.001", 100.0, records)
    return [(span.step, span.begin_s, span.end_s) for span in recorder.spans]


def test_the_steps_of_a_session_follow_each_other(monkeypatch):
    """It does not start while its import gate is closed: builds go on, or others hold the GPU."""
    monkeypatch.setattr(time, "monotonic", lambda: 111.0)
    assert steps(BEGUN, {"event": "started"}, FINISHED) == [
        ("starts", 1.0, 4.0),
        ("waits", 4.0, 4.9),
        ("starts", 4.9, 5.0),
        ("waits", 5.0, 7.0),
        ("creates its context", 7.0, 8.5),
        ("waits", 8.5, 9.0),
        ("measures", 9.0, 11.0),
        ("ends", 11.0, 12.0),
    ]


def test_a_session_that_died_measured_until_it_did_and_one_without_stamps_only_started(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 111.0)
    assert steps(BEGUN)[-1] == ("measures", 9.0, 12.0)
    assert steps() == [("starts", 1.0, 12.0)]


def test_executions_are_kept_and_the_newest_that_measured_is_shown(tmp_path):
    run = RunFolder(tmp_path)
    measured, idle = Span("a.001", "measures", 0.0, 1.0), Span("profiler", "builds", 0.0, 0.5)
    assert session_seconds(run.seconds()) == ()
    run.write_seconds(run.seconds(), [measured])
    run.write_seconds(run.seconds(), [idle])
    assert run.seconds() == ((measured,), (idle,))
    assert session_seconds(run.seconds()) == (measured,)


def test_sessions_beside_each_other_count_once_and_waiting_not_at_all():
    spans = [
        Span("profiler", "builds", 0.0, 9.0),
        Span("a.001", "starts", 1.0, 5.0),
        Span("b.001", "starts", 2.0, 4.0),
        Span("b.001", "waits", 4.0, 7.0),
        Span("a.001", "measures", 5.0, 6.0),
        Span("b.001", "measures", 7.0, 8.5),
        Span("a.001", "ends", 6.0, 6.5),
    ]
    assert seconds_in_sessions(spans) == 5.5 + 1.5
    assert seconds_in_sessions(spans[:1]) == 0.0


def test_the_search_is_none_of_the_seconds_in_which_nothing_measures():
    spans = [Span("profiler", "searches", 1.0, 8.0), Span("a.001", "starts", 7.0, 9.0)]
    assert seconds_in_sessions(spans) == 8.0


HELD = [
    Span("profiler", "builds", 0.0, 3.0),
    Span("a.001", "starts", 1.0, 4.0),
    Span("profiler", "waits for the GPU", 3.0, 3603.0),
    Span("a.001", "waits", 4.0, 3603.0),
    Span("a.001", "starts", 3603.0, 3604.0),
    Span("a.001", "measures", 3604.0, 3614.0),
    Span("a.001", "ends", 3614.0, 3615.0),
    Span("b.001", "starts", 3603.0, 3613.0),
]


def test_the_wait_for_the_gpu_is_no_start_of_a_session_and_forecasts_nothing():
    wait = ("waits for the GPU",)
    assert seconds_beside_sessions(HELD, wait) == 3603.0 - 4.0
    assert seconds_in_sessions(HELD) == 3.0 + 12.0
    assert seconds_in_sessions(HELD) - measured_seconds(HELD) == 3.0 + 1.0 + 1.0
    nothing_missing = [Span("profiler", "waits for the GPU", 0.5, 9.5)]
    assert seconds_beside_sessions(nothing_missing, wait) == 9.0


def test_the_last_line_of_a_run_counts_a_search_as_measuring_and_a_wait_apart():
    spans = [
        Span("profiler", "builds", 0.0, 1.5),
        Span("profiler", "searches", 1.0, 8.0),
        Span("a.001", "starts", 8.0, 9.0),
        Span("a.001", "measures", 9.0, 10.0),
        Span("ncu-explain.001", "starts", 9.5, 10.5),
        Span("ncu-explain.001", "measures", 10.5, 11.0),
        Span("profiler", "keeps pages", 10.8, 13.0),
    ]
    assert seconds_line(spans, 14.0) == (
        "14.0 s: 9.0 measuring, 3.0 explaining, 1.0 building, 1.0 planning and writing."
    )
    assert seconds_line([Span("profiler", "waits for the GPU", 0.5, 9.5)], 9.8) == (
        "9.8 s: 9.0 waiting for another run, 0.8 planning and writing."
    )
    assert seconds_line((), 1.0) == "1.0 s."


def test_waiting_for_the_gpu_is_a_step_of_the_profiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PROFILER_LOCKS", str(tmp_path))
    seconds, machine = SecondsRecorder(), Machine(Environment(), "cpu", Path("ncu"))
    with gpu_held(machine, seconds, print):
        pass
    assert seconds.spans == []  # it was free
    (lock,) = tmp_path.glob("*.lock")
    with ExitStack() as held:
        take_lock(lock, held)
        Timer(0.2, held.pop_all().close).start()
        with gpu_held(machine, seconds, print):
            (span,) = seconds.spans
    assert (span.row, span.step) == ("profiler", "waits for the GPU")
    assert 0.1 < span.end_s - span.begin_s < 5.0


def test_a_damaged_file_costs_the_figure_alone(tmp_path):
    (tmp_path / "seconds.json").write_text('{"executions": [[{"row": 1')
    assert read_seconds(tmp_path) == ()
