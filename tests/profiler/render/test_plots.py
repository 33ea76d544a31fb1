"""Figures by matplotlib: what they show, the files, and what is refused."""

import itertools
import re

import pytest
from matplotlib.font_manager import fontManager
from recorded import RECORDINGS, findings_of_recording

import profiler
from profiler.commands import exporting
from profiler.commands.exporting import USUAL_METRICS, FiguresRequest, write_figures
from profiler.errors import UsageError
from profiler.render.excerpts import MOST_PANELS, metric_figure

SOFTMAX = RECORDINGS / "softmax.zip"


@pytest.fixture(scope="module")
def findings():
    return findings_of_recording(SOFTMAX)


@pytest.fixture(scope="module")
def run():
    return profiler.load(RECORDINGS / "transpose.zip")


def test_a_panel_has_the_right_versions_of_a_problem_the_lowest_first(findings):
    figure = metric_figure(findings, "duration_ns")
    assert len(figure.axes) == min(len(findings.programs.problems), MOST_PANELS)
    for axes, problem in zip(figure.axes, findings.programs.problems, strict=False):
        cells = [c for c in findings.programs.correct_cells.values() if c.problem.id == problem.id]
        cells.sort(key=lambda cell: findings.numbers.value(cell, "duration_ns").median)
        assert axes.get_title() == problem.name
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == [cell.variant.label for cell in cells]
        drawn = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
        assert drawn == sorted(drawn)
        assert min(drawn) > 0


def test_marks_lie_inside_and_a_legend_names_colours_and_problems_without_a_panel():
    figure = metric_figure(findings_of_recording(RECORDINGS / "waves.zip"), "duration_ns")
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "The first 12 of 37 problems"
    entries = [text.get_text() for text in legend.get_texts()]
    assert entries == ["faster than the baseline", "1 block/SM (baseline)"]
    figure = metric_figure(findings_of_recording(RECORDINGS / "transpose.zip"), "registers")
    figure.draw_without_rendering()
    for axes in figure.axes:
        for mark in (line for line in axes.lines if len(line.get_xdata()) == 1):
            across, up = axes.transAxes.inverted().transform(
                axes.transData.transform((mark.get_xdata()[0], mark.get_ydata()[0]))
            )
            assert 0.05 < up < 0.95
            assert across < 0.97
    assert not figure.legends[0].get_title().get_text()


def test_one_problem_by_its_name(findings):
    name = findings.programs.problems[3].name
    (axes,) = metric_figure(findings, "registers", name).axes
    assert axes.get_title() == name
    assert axes.get_xlabel().startswith("Registers")


def test_what_was_not_measured_is_said_with_what_was(findings):
    with pytest.raises(UsageError, match="metric nonsense") as refused:
        metric_figure(findings, "nonsense")
    assert "l2_hit_pct" in refused.value.remedy
    with pytest.raises(UsageError, match="No problem is called 7") as refused:
        metric_figure(findings, "cycles", "7")
    assert findings.programs.problems[0].name in refused.value.remedy


@pytest.mark.parametrize(
    ("kind", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?x")]
)
def test_files_of_each_kind(monkeypatch, tmp_path, capsys, kind, magic):
    """Also where fonts lack a letter, which is named once."""
    names, recording = None, RECORDINGS / "transpose.zip"
    if kind != "svg":  # that one reads the run
        names, found = ["registers"], findings_of_recording(recording)
        monkeypatch.setattr(exporting, "read_run", lambda run: run.archive)
        monkeypatch.setattr(exporting, "find", {recording: found}.get)
    request = FiguresRequest(recording, tmp_path / "new" / "figures", names, format=kind)

    def figure(findings, *_):
        drawn = metric_figure(findings, "registers")
        drawn.text(0, 0, "\uac00 \u1d8d")
        return drawn

    # matplotlib's own fonts: another than the first has the second letter.
    shipped = [entry for entry in fontManager.ttflist if "mpl-data" in entry.fname]
    monkeypatch.setattr(fontManager, "ttflist", shipped)
    monkeypatch.setattr("profiler.render.excerpts.metric_figure", figure)
    write_figures(request)
    assert capsys.readouterr().err.startswith("No installed font has \uac00: boxes stand in")
    files = sorted((tmp_path / "new" / "figures").iterdir())
    assert [file.name for file in files] == sorted(
        f"transpose.{name}.{kind}" for name in names or USUAL_METRICS
    )
    assert all(file.read_bytes().startswith(magic) for file in files)
    if kind == "svg":
        assert re.search('path id="(DejaVuSerif|STIXGeneral)', files[0].read_text())


def test_a_run_plots_itself(run):
    figure = run.plot("l2_hit_pct")
    assert figure.axes[0].get_xlabel() == "L2 hit rate (%)"
    assert figure._repr_png_().startswith(b"\x89PNG"), "a notebook shows it without pyplot"


@pytest.mark.parametrize("arguments", [{"metric": None}, {"problem": 512}, {"problem": ["512"]}])
def test_other_types_are_refused_like_wrong_names(run, arguments):
    with pytest.raises(UsageError, match=r"metric None|No problem is called") as refused:
        run.plot(**arguments)
    assert refused.value.remedy.startswith("Name one")


def test_ratios_have_their_intervals_and_two_metrics_an_axis_each(findings):
    problem = findings.programs.problems[3]
    (axes,) = metric_figure(findings, "duration_ns", problem.name, ratio=True).axes
    baseline = findings.programs.baseline
    assert axes.get_xlabel() == f"Duration \u00f7 that of {baseline.label}"
    cells = [c for c in findings.programs.correct_cells.values() if c.problem.id == problem.id]
    values = sorted(findings.numbers.value(cell, "duration_ns") for cell in cells)
    drawn = {tuple(line.get_xdata()) for line in axes.lines}
    for value in values:
        assert {(value.ratio,), (value.ratio_low, value.ratio_high)} <= drawn
    (axes,) = metric_figure(findings, "duration_ns", problem.name, against="registers").axes
    assert axes.get_ylabel().startswith("Registers")
    registers = {findings.numbers.value(cell, "registers").median for cell in cells}
    assert registers == {line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 1}
    figure = axes.figure
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.texts if label.get_visible()]
    assert len(boxes) > 3
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)
