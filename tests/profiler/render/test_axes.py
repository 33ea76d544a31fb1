"""Axes of drawings have the limits, ticks and labels that matplotlib gives the same values."""

import math

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from profiler.render.figures.axes import (
    Axes,
    Scale,
    decade_ticks,
    limits,
    linear_ticks,
    row_axes,
)
from profiler.render.figures.drawing import FEW_DECADES, Drawing


def drawn_by_matplotlib(values, *, logarithmic):
    """Limits of the upright axis, and the labels that lie within them."""
    with mpl.rc_context({"axes.formatter.useoffset": False}):
        figure = Figure(figsize=(6, 4))
        axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        axes.plot(range(len(values)), values)
        axes.autoscale_view()
        if logarithmic:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            few = high / low < FEW_DECADES
            axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if few else (1,)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        low, high = axes.get_ylim()
        figure.draw_without_rendering()
        labels = [
            label.get_text()
            for tick, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
            if low <= tick <= high
        ]
    return [low, high], labels


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [
        ([1.0, 2.0, 3.5], False),
        ([0.12, 0.125, 0.1301], False),
        ([5.0, 5.0], False),
        ([-3.0, 40.0, 7.0], False),
        ([2e7, 3e7], False),
        ([0.03, 25.0, 700.0], True),
        ([3.0, 40.0], True),
        ([1e-4, 1e6], True),
        ([10.0, 10.0], True),
    ],
)
def test_limits_and_ticks_are_those_of_matplotlib(values, logarithmic):
    expected, labels = drawn_by_matplotlib(values, logarithmic=logarithmic)
    ends = limits(values, logarithmic=logarithmic)
    assert ends == pytest.approx(expected)
    scale = Scale(*ends, 0.0, 100.0, logarithmic)
    ticks = decade_ticks(scale) if logarithmic else linear_ticks(scale)
    assert list(ticks.labels) == labels
    assert (ticks.factor != "") == (min(values) > 1e6 and not logarithmic)


def test_a_scale_goes_from_its_start_to_its_end():
    level = Axes(Drawing(100.0, 50.0), 10.0, 5.0, 90.0, 45.0)
    across, upwards = level.across((1.0, 100.0), logarithmic=True), level.upwards((0.0, 4.0))
    assert [across.at(value) for value in (1.0, 10.0, 100.0)] == pytest.approx([10.0, 50.0, 90.0])
    assert [upwards.at(value) for value in (0.0, 1.0, 4.0)] == pytest.approx([45.0, 35.0, 5.0])


def test_limits_without_values():
    assert limits([]) == (0.0, 1.0)


def test_rows_lie_one_below_the_other_inside_their_axes():
    rows = row_axes(["a", "b", "c"])
    middles = [rows.y(row) for row in range(3)]
    assert middles == sorted(middles)
    assert rows.axes.top < middles[0]
    assert middles[-1] < rows.axes.bottom
    assert math.isclose(middles[1] - middles[0], middles[2] - middles[1])
