"""Where the seconds of a run went: taken down by stamps, kept in the run folder, drawn."""

import time

from profiler.model import Span
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.seconds import (
    Seconds,
    read_seconds,
    seconds_in_sessions,
    session_seconds,
)
from profiler.runner import protocol
from profiler.sessions.overlap.recorder import SecondsRecorder

STAMPS = {"python": 101.0, "torch": 103.0, "loaded": 104.0, "turn": 106.0, "device": 107.5}
BEGUN = {"event": protocol.SESSION_STARTED, "stamps": {**STAMPS, "visits": 108.0}}
FINISHED = {"event": protocol.SESSION_FINISHED, "monotonic": 110.0}


def steps(*records):
    recorder = SecondsRecorder(began=99.0)
    recorder.session("ncu-final.001", 100.0, records)
    return [(span.step, span.begin_s, span.end_s) for span in recorder.spans]


def test_the_steps_of_a_session_follow_each_other(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 111.0)
    assert steps(BEGUN, {"event": "started"}, FINISHED) == [
        ("starts", 1.0, 5.0),
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
    assert run.seconds() == Seconds(((measured,), (idle,)))
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


def test_a_damaged_file_costs_the_figure_alone(tmp_path):
    (tmp_path / "seconds.json").write_text('{"executions": [[{"row": 1')
    assert read_seconds(tmp_path) == Seconds()
