"""Figures of the page: each takes the marks that it draws, and only draws them.

Rows are drawn in the order given. No statistics here, and no global pyplot state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    RowAxes,
    Scale,
    apart,
    at_most,
    decade_ticks,
    legend,
    limits,
    linear_ticks,
    named_ticks,
    outer_labels,
    panel_axes,
    points_of,
    row_axes,
    shortened,
    times_ticks,
)
from profiler.render.figures.drawing import (
    LOG_FROM,
    POINTS,
    Drawing,
    Element,
    Mark,
    ends_of,
    scaled_label,
    set_mark,
    spans_decades,
    widest_in,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_VISIBLE = 0.002
"""An interval shorter than this part of the axis would be a speck."""
_WIDE = 5.0
"""Largest ÷ smallest ratio from which an axis has ticks at 1, 2 and 5 of each decade."""
_NARROWEST = 1.02
"""Least end of an axis of effects: noise shall look like noise."""
_BAR = 0.68
_PAIR_BAR = 0.36
_DOT = styles.circle(2.55)
_MARKER, _LEGEND_MARKER, _OTHERS_MARKER = 4.5, 6.0, 1.5


def bars(marks: Sequence[Mark], label: str, unit: str, limit: float = math.inf) -> Drawing:
    """Figure with a bar and its interval in each row.

    A row without a value has no bar, only its text, which then says why. Bars longer than `limit`
    are cut there and get an arrow.
    """
    names = shortened([mark.name for mark in marks])
    rows = row_axes(names)
    cut = [
        mark._replace(
            value=min(mark.value, limit), low=min(mark.low, limit), high=min(mark.high, limit)
        )
        for mark in marks
    ]
    largest = _greatest(end for mark in cut for end in (mark.value, mark.high)) or 1.0
    divisor, label = scaled_label(label, unit, largest)
    end = largest / divisor
    across = rows.axes.across((0.0, end * 1.14))
    rows.axes.grid_across(across, linear_ticks(across), label)
    for row, mark in enumerate(cut):
        length = _greatest([mark.value]) / divisor
        bar = _bar(rows, across, row, length, (_BAR, mark.colour))
        set_mark(bar, mark.variant, mark.cell)
    for row, mark in enumerate(cut):
        if mark.high - mark.low > _VISIBLE * largest:
            ends = [(across.at(edge / divisor), rows.y(row)) for edge in (mark.low, mark.high)]
            rows.drawing.path(ends, styles.line(styles.INK, 1.2, ""))
    rows.axes.spines()
    rows.names(names)
    for row, (mark, uncut) in enumerate(zip(cut, marks, strict=True)):
        arrow = "\u25b8 " if uncut.value > limit else ""
        x = across.at(_greatest([mark.value, mark.high]) / divisor + end * 0.008)
        rows.text(x, row, arrow + mark.text, quiet=not math.isfinite(mark.value))
    return rows.drawing


def _greatest(values: Iterable[float]) -> float:
    """The greatest of the values that are there; 0 where none is above it."""
    return max([0.0, *filter(math.isfinite, values)])


def _bar(
    rows: RowAxes,
    across: Scale,
    row: float,
    length: float,
    look: tuple[float, str],
) -> Element:
    """A bar from 0 on; `look`: its height, by that of a row, and its colour."""
    height, colour = look
    corner = (across.at(0.0), rows.y(row - height / 2))
    opposite = (across.at(length), rows.y(row + height / 2))
    return rows.drawing.rectangle(corner, opposite, styles.fill(colour))


def dots(
    marks: Sequence[Mark], label: str, line: str = styles.BASELINE, *, effects: bool = False
) -> Drawing:
    """Ratios with their intervals.

    The axis is logarithmic. A vertical line stands at 1, in the colour `line`: the baseline itself.
    Beside a row stands its text, else its ratio. `effects`: ratios are of no variants.
    """
    names = shortened([mark.name for mark in marks])
    rows = row_axes(names)
    least = _NARROWEST if effects else 1.0
    present = list(filter(math.isfinite, ends_of(marks)))
    smallest, largest = min(1 / least, *present), max(least, *present)
    room = (largest / smallest) ** 0.05 if largest > smallest else 1.05
    # On a logarithmic axis half the time and twice the time lie equally far from the baseline.
    across = rows.axes.across((smallest / room, largest * room**3), logarithmic=True)
    ticks = decade_ticks(across) if largest > _WIDE * smallest else linear_ticks(across, at_most(8))
    rows.axes.grid_across(across, times_ticks(ticks.values), label)
    at_one = styles.line(styles.INK, 1.2) if effects else styles.dashed(line, 1.4)
    rows.axes.upright(across.at(1.0), at_one)
    for row, mark in enumerate(marks):
        style = styles.line(mark.colour, 2.4, "stroke-opacity: 0.6")
        rows.span(across, row, mark.low, mark.high, style)
    rows.axes.spines()
    rows.names(names)
    for row, mark in enumerate(marks):
        if math.isfinite(mark.value):
            rows.dot(_DOT, across, row, mark)
    for row, mark in enumerate(marks):
        right = max(mark.value, mark.high)
        rows.text(across.at(right * room**0.2), row, mark.text or numbers.ratio(mark.value))
    return rows.drawing


def pairs(
    rows_of_pairs: Sequence[tuple[str, float, float]], unit: str, names: tuple[str, str]
) -> Drawing:
    """Two bars a row, the best above the baseline; of each row the name and both values.

    `names` are those of the best and of the baseline, for the legend.
    """
    titles = shortened([name for name, *_ in rows_of_pairs])
    rows = row_axes(titles, row_height=0.36, head=0.34)
    end = _greatest(value for _, *ends in rows_of_pairs for value in ends) or 1.0
    across = rows.axes.across((0.0, max(end * 1.12, 100.0 if unit == "%" else 0.0)))
    rows.axes.grid_across(across, linear_ticks(across), unit)
    roles = ("best", "baseline")
    for offset, side, role in ((-0.2, 1, roles[0]), (0.2, 2, roles[1])):
        for row, pair in enumerate(rows_of_pairs):
            length = float(pair[side])
            bar_length = _greatest([length])
            _bar(rows, across, row + offset, bar_length, (_PAIR_BAR, styles.COLOURS[role]))
            rows.text(across.at(bar_length + end * 0.008), row + offset, numbers.show(length, unit))
    rows.axes.spines()
    rows.names(titles)
    handles = [
        Handle(shorten(name), styles.line(styles.COLOURS[role], 6.0, ""))
        for role, name in zip(roles, names, strict=True)
    ]
    legend(rows.drawing, handles)
    return rows.drawing


def lines(panels: Mapping[str, Sequence[Mark]], x_label: str, label: str, unit: str) -> Drawing:
    """A line for each name over a numeric parameter, the place of its marks; panels by title.

    Series of role `other` are drawn first, in grey.
    """
    drawing, grid = panel_axes(len(panels))
    every = [mark for marks in panels.values() for mark in marks]
    values = [mark.value for mark in every if math.isfinite(mark.value)]
    spans = spans_decades(values)
    divisor, label = scaled_label(label, unit, median(values) if spans else max(values))
    for index, (axes, (panel, marks)) in enumerate(zip(grid, panels.items(), strict=True)):
        series = _series(marks, divisor)
        labels = outer_labels(index, len(panels), x_label, label)
        # A logarithmic axis without any point cannot be drawn.
        scales = _scaled(axes, series, sorted({mark.place for mark in marks}), labels, spans=spans)
        _curves(axes, series, scales)
        axes.spines()
        axes.title(panel)
    _line_legend(drawing, {mark.name: mark.role for mark in every})
    return drawing


_TICK_ROOM_IN = 0.14
"""Room between the labels of two ticks."""


def _series(marks: Sequence[Mark], divisor: float) -> list[list[Mark]]:
    """Marks of each name that have a value, by their places; values by the divisor."""
    series: dict[str, list[Mark]] = {}
    for mark in marks:
        curve = series.setdefault(mark.name, [])
        if math.isfinite(mark.value):
            curve.append(mark.divided_by(divisor))
    return [sorted(curve, key=lambda mark: mark.place) for curve in series.values() if curve]


def _scaled(
    axes: Axes,
    series: Sequence[Sequence[Mark]],
    ticks: Sequence[float],
    labels: tuple[str, str],
    *,
    spans: bool,
) -> tuple[Scale, Scale]:
    """Scales of a panel, with their grids; `labels` are those of both axes."""
    marks = [mark for curve in series for mark in curve]
    steps = ticks[0] > 0 and ticks[-1] / ticks[0] > LOG_FROM
    xs = [mark.place for mark in marks] or ticks
    across = axes.across(limits(xs, logarithmic=steps), logarithmic=steps)
    widest = widest_in([f"{tick:g}" for tick in ticks]) + _TICK_ROOM_IN
    most = max(1, int((axes.right - axes.left) / POINTS / widest))
    shown_ticks = across.inside(apart(ticks, (ticks[0], ticks[-1]), most, logarithmic=steps))
    axes.grid_across(across, named_ticks(shown_ticks), labels[0])
    logarithmic = spans and bool(marks)
    bottom, top = limits([mark.value for mark in marks], logarithmic=logarithmic)
    if not logarithmic:
        bottom = min(0.0, bottom)
    upwards = axes.upwards((bottom, top), logarithmic=logarithmic)
    ticks_upwards = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
    axes.grid_upwards(upwards, ticks_upwards, labels[1])
    return across, upwards


def _curves(axes: Axes, series: Sequence[Sequence[Mark]], scales: tuple[Scale, Scale]) -> None:
    order = {"other": 0, "baseline": 2, "best": 3}
    for curve in sorted(series, key=lambda curve: order.get(curve[0].role, 1)):
        first, points = curve[0], points_of(curve, scales)
        if first.role == "other":
            path = axes.drawing.path(points, styles.line(styles.OTHER, 0.9, ""))
            set_mark(path, first.variant, first.cell)
            continue
        group = axes.drawing.group()
        set_mark(group, first.variant, first.cell)
        style = styles.dashed if first.role == "baseline" else styles.line
        axes.drawing.path(points, style(first.colour, 1.8), group)
        outline = styles.marker(styles.MARKERS[first.role], _MARKER)
        for at in points:
            axes.drawing.symbol(outline, at, styles.symbol(first.colour), group)


def _line_legend(drawing: Drawing, roles: Mapping[str, str]) -> None:
    """Legend of series by their names and roles; all others together."""
    named_roles = {role: name for name, role in roles.items() if role != "other"}
    handles = []
    for role in (role for role in styles.COLOURS if role in named_roles):
        colour = styles.COLOURS[role]
        style = styles.dashed(colour, 1.5) if role == "baseline" else styles.line(colour, 1.5)
        outline = styles.marker(styles.MARKERS[role], _LEGEND_MARKER)
        handles.append(Handle(shorten(named_roles[role]), style, (outline, colour)))
    if other_count := sum(role == "other" for role in roles.values()):
        style, dot = (
            styles.line(styles.OTHER, 0.9),
            (styles.marker("o", _OTHERS_MARKER), styles.OTHER),
        )
        handles.append(Handle(f"{other_count} others", style, dot))
    legend(drawing, handles)
