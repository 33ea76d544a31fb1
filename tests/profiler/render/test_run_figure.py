"""Where the seconds of a run went: a row for each process, as far as they can be read."""

from types import SimpleNamespace

import pytest

from profiler.model import SessionStep, Span
from profiler.render.timeline.still_figure import run_chart
from profiler.run_folder.load.report import ExecutionRecord

PLANS, DRAWS = Span("profiler", "plans", 0.0, 0.5), Span("profiler", "draws", 90.0, 99.0)


def chart_of(processes):
    visits = [
        Span(f"ncu-timing.{number:03d}", SessionStep.MEASURES, float(number), number + 0.5)
        for number in range(processes)
    ]
    execution = ExecutionRecord(created="", seconds=(PLANS, *visits, DRAWS))
    return run_chart(SimpleNamespace(report=SimpleNamespace(execution=execution)))


@pytest.mark.parametrize(("processes", "said"), [(39, ""), (80, "The first 40 of 81 rows")])
def test_what_is_left_out_of_many_processes_is_said(processes, said):
    chart = chart_of(processes)
    assert f"Visits were made for {processes / 2:g}" in chart.reading
    assert "of 1 min 39 s" in chart.reading
    assert ("The first" in chart.reading) is bool(said)
    assert said in chart.reading
    drawn = str(chart.drawing)
    assert "ncu-timing.038" in drawn
    assert "ncu-timing.040" not in drawn
    assert ("draws" in drawn) is (processes == 39)
