"""A line of a few numbers with their intervals, as large as two lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_HEIGHT, _STEP, _EDGE = 44.0, 22.0, 6.0
_MOST_POINTS = 40
"""Of the newest: more would be closer together than their dots are wide."""


def small_line(points: Sequence[tuple[float, float, float]], label: str) -> Markup:
    """Inline SVG of `(low, value, high)` from left to right; lower is further down.

    The scale is that of what is shown, and has no labels: the words beside it say the numbers.
    """
    shown = points[-_MOST_POINTS:]
    width = 2 * _EDGE + _STEP * (len(shown) - 1)
    bottom, top = min(low for low, _, _ in shown), max(high for _, _, high in shown)
    span = (top - bottom) or 1.0

    def height(value: float) -> str:
        return f"{_HEIGHT - _EDGE - (value - bottom) / span * (_HEIGHT - 2 * _EDGE):.1f}"

    places = [f"{_EDGE + _STEP * number:.0f}" for number in range(len(shown))]
    pairs = list(zip(places, shown, strict=True))
    corners = " ".join(f"{x},{height(value)}" for x, (_, value, _) in pairs)
    bars = Markup("").join(
        Markup('<line x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(x, height(low), height(high))
        for x, (low, _, high) in pairs
    )
    dots = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="2.5"/>').format(x, height(value))
        for x, (_, value, _) in pairs
    )
    return Markup(
        '<svg class="small-line" role="img" aria-label="{label}" viewBox="0 0 {width:.0f} '
        '{height:.0f}" width="{width:.0f}" height="{height:.0f}">{bars}'
        '<polyline points="{corners}"/>{dots}</svg>'
    ).format(label=label, width=width, height=_HEIGHT, bars=bars, corners=corners, dots=dots)
