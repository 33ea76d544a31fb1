"""Looks of figures: colours, styles of lines, areas and texts, outlines of symbols.

Colours are variables of the page's style sheet, so that they are light and dark with it.

The role of a variant (`Findings.role`) has the same colour and the same marker in every figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

INK = "var(--ink)"
MUTED = "var(--muted)"
GRID = "var(--grid)"
BEST = "var(--best)"
BASELINE = "var(--baseline)"
OTHER = "var(--other)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 5))
HEAT_STEPS = range(-6, 7)
"""Classes of ratios, as the style sheet has them: far less (-6) to far more (6)."""
HEAT: Mapping[int, str] = {step: f"var(--h{step})" for step in HEAT_STEPS}
HEAT_INK: Mapping[int, str] = {step: f"var(--h{step}-ink)" for step in HEAT_STEPS}
"""Colour of text on each class."""

COLOURS = {
    "best": BEST,
    "baseline": BASELINE,
    **{f"series-{number}": colour for number, colour in enumerate(SERIES, start=1)},
}
MARKERS = dict(zip(COLOURS, "os^Dv>", strict=True))
"""Kinds of `marker` by role."""


def colour_of(role: str) -> str:
    """Colour of a variant by its role; `ink` and `muted` are of no variant."""
    return {"ink": INK, "muted": MUTED}.get(role) or COLOURS.get(role, OTHER)


# ---- styles and outlines -------------------------------------------------------------------------

TEXT_DROP = 0.38
"""From the middle of a line of text down to its baseline, by its size."""
ASCENT, DESCENT = 0.76, 0.236
"""How far letters reach above and below their baseline, by their size."""
TEXT_SIZE = 9.0
_CIRCLE = 0.5523
"""Where the handles of a Bézier curve lie that is a quarter of a circle, by its radius."""


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """Description of a path through points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def number(value: float) -> str:
    """A coordinate to a hundredth of a point, which no screen can show."""
    return f"{round(float(value), 2) + 0.0:g}"


def line(colour: str, width: float, further_style: str = "stroke-linecap: square") -> str:
    """Style of a line."""
    stroke = f"fill: none; stroke: {colour}; stroke-width: {width:g}"
    return f"{stroke}; {further_style}" if further_style else stroke


def dashed(colour: str, width: float, dash: float = 4.0, gap: float = 2.0) -> str:
    """Style of a dashed line; dash and gap by its width."""
    return (
        f"fill: none; stroke-dasharray: {number(dash * width)},{number(gap * width)}; "
        f"stroke-dashoffset: 0; stroke: {colour}; stroke-width: {width:g}"
    )


def fill(colour: str, opacity: float = 1.0) -> str:
    """Style of an area."""
    fill = f"fill: {colour}"
    return fill if opacity == 1.0 else f"{fill}; fill-opacity: {opacity:g}"


def symbol(colour: str, opacity: float = 1.0) -> str:
    """Style of a symbol, with its edge."""
    style = f"fill: {colour}; stroke: {colour}"
    return style if opacity == 1.0 else f"{style}; opacity: {opacity:g}"


def text(
    anchor: str,
    size: float = TEXT_SIZE,
    colour: str = INK,
    *,
    italic: bool = False,
    bold: bool = False,
) -> str:
    """Style of a text; `anchor`: `start`, `middle` or `end`."""
    look = f"{'font-style: italic; ' * italic}{'font-weight: 700; ' * bold}"
    return f"{look}font-size: {size:g}px; text-anchor: {anchor}; fill: {colour}"


def circle(radius: float) -> str:
    """Outline of a circle around a point."""
    r, h = number(radius), number(_CIRCLE * radius)
    return (
        f"M0 {r}C{h} {r} {r} {h} {r} 0C{r} -{h} {h} -{r} 0 -{r}"
        f"C-{h} -{r} -{r} -{h} -{r} 0C-{r} {h} -{h} {r} 0 {r}z"
    )


def marker(kind: str, size: float) -> str:
    """Outline of a marker of matplotlib's kinds `o s ^ v > D`, around a point."""
    half, diagonal = size / 2, size / 2 * 2**0.5
    if kind == "o":
        return circle(half)
    corners: dict[str, Sequence[tuple[float, float]]] = {
        "s": [(-half, half), (half, half), (half, -half), (-half, -half)],
        "^": [(0, -half), (-half, half), (half, half)],
        "v": [(0, half), (half, -half), (-half, -half)],
        ">": [(half, 0), (-half, -half), (-half, half)],
        "D": [(0, diagonal), (diagonal, 0), (0, -diagonal), (-diagonal, 0)],
    }
    return path_of(corners[kind]) + "z"
