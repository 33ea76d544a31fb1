"""The registry of collectors: one entry is all that a collector needs outside of the runner."""

from dataclasses import replace

import pytest
from run_folders import SPEC, Workplace, measured

from profiler.collect import Records, registry
from profiler.collect.timer import Timer
from profiler.errors import SpecError
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Outcome
from profiler.planning.spec import json_schema
from profiler.run_folder.load.assemble import assemble
from profiler.runner import timing
from profiler.runner.device import CpuDevice


def spec_with(*collectors):
    return SPEC.replace("collect: {", f"collect: {{collectors: [{', '.join(collectors)}], ")


@pytest.fixture
def sundial(monkeypatch):
    """A collector that nobody knows of but the registry."""
    kind = replace(
        registry.COLLECTORS["wall_clock"],
        name="sun_dial",
        alias="shadow",
        create=lambda tools: Timer(tools.python, "sun_dial"),
    )
    monkeypatch.setitem(registry.COLLECTORS, kind.name, kind)
    return kind


def test_the_samples_of_a_new_collector_are_measured_cells(sundial, tmp_path):
    place = Workplace(tmp_path / "place", spec_with("shadow"))
    (session,) = place.plan.sessions
    assert (session.name, session.collector) == ("sun-dial", "sun_dial")
    visits = place.visits("sun-dial")
    place.attempt("sun-dial", journal=measured(visits, durations_ns=[5.0, 6.0, 7.0]))
    report = assemble(place.run, place.loaded, place.plan)
    assert {status.outcome for status in report.statuses.values()} == {Outcome.MEASURED}
    times = report.measured.summary[report.measured.summary["metric"] == "duration_ns"]
    assert set(times["median"]) == {6.0}


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("cuda_events", "timer"),
        ("plain_timer", "wall_clock"),
        ("profiler_kernels", "torch_kernels"),
        ("profiler_timeline", "torch"),
    ],
)
def test_an_alias_is_the_same_collector(tmp_path, alias, key):
    first = Workplace(tmp_path / "first", spec_with("ncu", alias))
    second = Workplace(tmp_path / "second", spec_with("ncu", key))
    assert first.plan == second.plan
    assert first.keys == second.keys


@pytest.mark.parametrize(
    ("collectors", "words"),
    [
        (["timer", "cuda_events"], "'timer' is in the list twice"),
        (["cuda_event"], "no such collector: 'cuda_event'; did you mean 'cuda_events'"),
    ],
)
def test_collectors_that_are_refused(tmp_path, collectors, words):
    with pytest.raises(SpecError, match=words):
        Workplace(tmp_path / "place", spec_with(*collectors))


def test_stamps_change_no_key(tmp_path):
    first = Workplace(tmp_path / "first", spec_with("ncu", "in_kernel"))
    second = Workplace(tmp_path / "second", spec_with("ncu"))
    assert first.keys == second.keys


def test_editors_know_every_spelling():
    assert str(list(registry.spellings())) in str(json_schema())


@pytest.mark.parametrize("kind", registry.COLLECTORS.values(), ids=lambda kind: kind.name)
def test_every_collector_is_whole(kind):
    assert (kind.metric in CATALOGUE) == (kind.records is not Records.STAMPS)
    recorded = kind.records in (Records.TIMELINE, Records.STAMPS)
    counted = kind.in_journal and kind.records is Records.COUNTERS
    without_stopwatch = recorded or counted or kind.name == "sustained"
    assert without_stopwatch == (kind.name in timing.WITHOUT_STOPWATCH)
    assert without_stopwatch or timing.make_stopwatch(kind.name, CpuDevice(), 1)
    assert not (recorded and kind.judged), "timelines decide no verdict"
