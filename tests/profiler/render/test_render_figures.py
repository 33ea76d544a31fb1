"""Figures: the tables that they are given, and the SVG that comes out; never their bytes."""

import math
import re

import lxml.etree
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from profiler.metrics.queries import label
from profiler.model import Problem
from profiler.render.figures import charts
from profiler.render.figures import version_figures as figures
from profiler.render.figures.axes import apart
from profiler.render.figures.drawing import POINTS, Mark, text_width_in, to_svg
from profiler.render.words.names import shorten


def parsed(text):
    return lxml.etree.fromstring(text)


MARKS = (
    Mark("a", 1e6, 0.9e6, 1.1e6, "1 ms", "best", 3),
    Mark("b", 2e6, text="2 ms", role="baseline", variant=0),
    Mark("c", math.nan, text="crashed", variant=7),
)


def draw(marks, prefix="f"):
    figure = figures.bars(marks, "Duration", "ns")
    return parsed(to_svg(figure, prefix, "Bars", "What they show"))


def marked(drawing):
    """Variants of the elements that light up, in drawing order."""
    return [one.get("data-variant") for one in drawing.iter() if one.get("data-variant")]


def texts(drawing):
    return ["".join(element.itertext()) for element in drawing.iter("text")]


def test_bars_carry_names_values_reasons_and_a_unit():
    drawing = draw(MARKS)
    for text in ("a", "b", "c", "1 ms", "2 ms", "crashed", "Duration (ms)"):
        assert text in texts(drawing)
    assert marked(drawing) == ["3", "0", "7"]


def test_bars_of_nothing_but_failures():
    nothing = [mark.divided_by(math.nan) for mark in MARKS]
    assert "crashed" in texts(draw(nothing))


def test_text_is_text_and_hostile_names_stay_text():
    hostile = '<script>"$x$" & id="f-1" --></svg>'
    drawing = draw([MARKS[0]._replace(name=hostile), *MARKS[1:]])
    assert hostile in texts(drawing)
    assert not list(drawing.iter("script"))


def draw_lines(prefix="f"):
    roles = [("a", "best"), ("b", "baseline"), ("c", "other"), ("d", "other")]
    marks = [
        Mark(name, x * 10.0, role=role, variant=variant, place=x)
        for variant, (name, role) in enumerate(roles)
        for x in (1024, 4096, 16384)
    ]
    panels = {"p1": [marks[0]._replace(value=math.nan), *marks[1:]], "p2": marks}
    figure = figures.lines(panels, "columns", "Duration", "ns")
    return parsed(to_svg(figure, prefix, "l", "d"))


def test_styles_are_classes_whose_rules_come_with_the_figure():
    drawing = draw_lines()
    (sheet,) = drawing.xpath("//style/text()")
    classes = {name for value in drawing.xpath("//@class") for name in value.split()} - {
        "mark",
        "labels",
    }
    assert classes == set(re.findall(r"\.(\w+)\{", sheet))
    assert drawing.xpath("./*//@style") == []


def test_dots_mark_every_variant_and_the_baseline_line():
    marks = [
        Mark("a", 0.62, 0.61, 0.63, "0.620\u00d7 \u25bc", "best", 4),
        Mark("b", 1.0, text="1.000\u00d7", role="baseline", variant=0),
    ]
    drawing = parsed(to_svg(figures.dots(marks, "ratio"), "f", "l", "d"))
    assert marked(drawing) == ["4", "0"]
    assert "0.620\u00d7 \u25bc" in texts(drawing)


def test_lines_have_a_panel_each_and_all_series():
    drawing = draw_lines()
    assert {"p1", "p2", "columns", "a", "b", "2 others", "16384"} <= set(texts(drawing))
    assert sorted(marked(drawing)) == sorted("0123" * 2)


def test_long_names_keep_both_ends():
    name = "kernel_" + "x" * 80 + "_v7"
    assert len(shorten(name)) <= 48
    assert shorten(name).startswith("kernel_")
    assert shorten(name).endswith("_v7")
    assert shorten("short") == "short"


def test_bars_of_a_problem_put_failures_last_with_their_reason(findings):
    problem = findings.ranking.largest_problem
    assert problem is not None
    marks, left_out = charts.bar_marks(findings, label("duration_ns"), problem)
    assert left_out == 0
    known = [mark.value for mark in marks[:-2]]
    assert known == sorted(known)
    assert all(math.isnan(mark.value) for mark in marks[-2:])
    assert {mark.text for mark in marks[-2:]} == {"compile failed", "wrong result"}


def test_a_far_longer_bar_is_cut_and_says_so(findings):
    values = [1.0, 1.1, 1.2, 1.3, 40.0]
    assert charts._limit(values) == pytest.approx(2.5 * 1.3)
    assert charts._limit(values[:4]) == math.inf
    assert charts._limit([math.nan]) == math.inf
    assert charts._limit([0.0, 0.0, 0.0, 0.0, 40.0]) == math.inf, "not to nothing"
    marks = [MARKS[0], MARKS[1]._replace(value=9e6), MARKS[2]]
    figure = figures.bars(marks, "D", "ns", 3e6)
    drawing = parsed(to_svg(figure, "f", "l", "d"))
    assert "\u25b8 2 ms" in texts(drawing)
    assert "1 ms" in texts(drawing)
    assert "9" not in texts(drawing), "the axis ends where the bar is cut"


def test_metrics_without_direction_go_by_value(findings):
    problem = findings.ranking.largest_problem
    assert problem is not None
    marks, _ = charts.bar_marks(findings, label("registers"), problem)
    known = [mark.value for mark in marks if not math.isnan(mark.value)]
    assert known == sorted(known)


def test_dots_of_a_problem_keep_the_baseline_and_count_the_rest(findings):
    problem = findings.programs.problems[0]
    marks, left_out = charts.dot_marks(findings, problem)
    assert "torch.softmax" in {mark.name for mark in marks}
    assert len(marks) == charts.MOST_DOTS + 1
    measured = sum(
        findings.programs.correct(findings.programs.by_place[one.id, problem.id])
        for one in findings.programs.variants
    )
    assert left_out == measured - len(marks)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"n": 1}, {"n": 2}], "n"),
        ([{"n": 1, "m": 5}, {"n": 2, "m": 6}], "m"),
        ([{"n": 1, "m": 5}, {"n": 2, "m": 5}, {"n": 3, "m": 6}], "n"),
        ([{"n": "a"}, {"n": "b"}], None),
        ([{"n": True}, {"n": False}], None),
        ([{"n": 1}], None),
    ],
)
def test_line_figures_find_their_parameter(rows, expected):
    problems = [Problem(str(number), "", row) for number, row in enumerate(rows)]
    assert charts.main_parameter(problems) == expected


def test_wrong_results_are_in_no_figure(findings):
    """The synthetic wrong result would be ten times as fast as the best."""
    parameter = charts.main_parameter(findings.programs.problems)
    assert parameter == "columns"
    panels = charts.line_marks(
        findings, label("duration_ns"), parameter, findings.programs.problems
    )
    wrong = [
        mark
        for marks in panels.values()
        for mark in marks
        if (mark.name, mark.place) == ("vector-b64-v1", 16384)
    ]
    assert len(wrong) == 4
    assert all(math.isnan(mark.value) for mark in wrong)


def test_labels_that_would_cover_each_other_are_left_out():
    waves = [0.25, 0.99, 1, 1.01, 1.5, 1.99, 2, 2.01, 11, 11.01, 12]
    assert apart(waves, (0.25, 12), 24, logarithmic=False) == [0.25, 1, 1.5, 2, 11, 12]
    sizes = [2.0**n for n in range(7, 17)]
    assert apart(sizes, (sizes[0], sizes[-1]), 24, logarithmic=True) == sizes
    assert apart([5.0], (5.0, 5.0), 24, logarithmic=True) == [5.0]


@pytest.mark.parametrize("text", ["128 \u00d7 64, AVAToe \u00b12 %", "\u65e5 a", "", "\u2192 b"])
@pytest.mark.filterwarnings("ignore:Glyph")
def test_texts_are_as_wide_as_matplotlib_says_or_a_little_wider(text):
    """Their letters lie closer to each other where that looks better."""
    properties = FontProperties(size=7.5)
    width, *_ = text_to_path.get_text_width_height_descent(text, properties, ismath=False)
    assert width - 0.01 <= POINTS * text_width_in(text, 7.5) <= 1.05 * width
