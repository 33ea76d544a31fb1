"""Figures of plain shapes in points, y downwards; they take a tenth of the time of matplotlib's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from xml.etree import ElementTree

from profiler.render.figures import palette

Element = ElementTree.Element
Point = tuple[float, float]

BASELINE = 0.38
"""From the middle of a line of text down to its baseline, by its size."""
ASCENT, DESCENT = 0.76, 0.236
"""How far letters reach above and below their baseline, by their size."""
TEXT_SIZE = 9.0
_CIRCLE = 0.5523
"""Where the handles of a Bézier curve lie that is a quarter of a circle, by its radius."""


class Drawing:
    """Shapes on a page of `width` by `height` points."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.root = Element("svg", viewBox=f"0 0 {number(width)} {number(height)}")
        self._symbols: dict[str, str] = {}
        """Id of each symbol by its path."""

    def group(self, parent: Element | None = None, **attributes: str) -> Element:
        """A group of shapes; `class`, `data-variant` and the like as attributes."""
        named = {name.rstrip("_").replace("_", "-"): text for name, text in attributes.items()}
        return ElementTree.SubElement(self._inside(parent), "g", named)

    def path(self, points: Sequence[Point], style: str, parent: Element | None = None) -> Element:
        """A line through points."""
        return ElementTree.SubElement(
            self._inside(parent), "path", {"d": path_of(points), "style": style}
        )

    def rectangle(self, corner: Point, opposite: Point, style: str) -> Element:
        """A filled rectangle between two corners."""
        (left, top), (right, bottom) = corner, opposite
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        return self.area(corners, style)

    def area(self, corners: Sequence[Point], style: str) -> Element:
        """A filled area between corners."""
        outline = {"d": path_of(corners) + "z", "style": style}
        return ElementTree.SubElement(self.root, "path", outline)

    def symbol(self, outline: str, at: Point, style: str, parent: Element | None = None) -> Element:
        """A symbol around a point; its outline stands once in a figure."""
        parent = self._inside(parent)
        if outline not in self._symbols:
            self._symbols[outline] = f"symbol-{len(self._symbols)}"
            definitions = ElementTree.SubElement(parent, "defs")
            ElementTree.SubElement(
                definitions, "path", {"d": outline, "id": self._symbols[outline]}
            )
        x, y = map(number, at)
        attributes = {"x": x, "y": y, "href": f"#{self._symbols[outline]}", "style": style}
        return ElementTree.SubElement(parent, "use", attributes)

    def dots(
        self,
        outline: str,
        places: Iterable[Point],
        colours: Iterable[str],
        ids: Iterable[str],
        style: Callable[[str], str] | None = None,
    ) -> None:
        """A symbol at each place, with its colour and its id (`svg.mark`)."""
        style = style or symbol_style
        for at, colour, identifier in zip(places, colours, ids, strict=True):
            self.symbol(outline, at, style(colour)).set("id", identifier)

    def text(
        self,
        text: str,
        at: Point,
        style: str,
        parent: Element | None = None,
        *,
        degrees: float = 0.0,
    ) -> Element:
        """A text at the start, middle or end (by its style) of its baseline, turned upwards."""
        x, y = map(number, at)
        attributes = {"x": x, "y": y, "style": style}
        if degrees:
            attributes["transform"] = f"rotate({number(-degrees)} {x} {y})"
        element = ElementTree.SubElement(self._inside(parent), "text", attributes)
        element.text = text
        return element

    def _inside(self, parent: Element | None) -> Element:
        return self.root if parent is None else parent


def path_of(points: Sequence[Point]) -> str:
    """Description of a path through points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def number(value: float) -> str:
    """A coordinate to a hundredth of a point, which no screen can show."""
    return f"{round(float(value), 2) + 0.0:g}"


def line_style(colour: str, width: float, rest: str = "stroke-linecap: square") -> str:
    """Style of a line."""
    stroke = f"fill: none; stroke: {colour}; stroke-width: {width:g}"
    return f"{stroke}; {rest}" if rest else stroke


def dashed(colour: str, width: float, dash: float = 4.0, gap: float = 2.0) -> str:
    """Style of a dashed line; dash and gap by its width."""
    return (
        f"fill: none; stroke-dasharray: {number(dash * width)},{number(gap * width)}; "
        f"stroke-dashoffset: 0; stroke: {colour}; stroke-width: {width:g}"
    )


def fill_style(colour: str, opacity: float = 1.0) -> str:
    """Style of an area."""
    fill = f"fill: {colour}"
    return fill if opacity == 1.0 else f"{fill}; fill-opacity: {opacity:g}"


def symbol_style(colour: str, opacity: float = 1.0) -> str:
    """Style of a symbol, with its edge."""
    style = f"fill: {colour}; stroke: {colour}"
    return style if opacity == 1.0 else f"{style}; opacity: {opacity:g}"


def text_style(
    anchor: str,
    size: float = TEXT_SIZE,
    colour: str = palette.INK,
    *,
    italic: bool = False,
    bold: bool = False,
) -> str:
    """Style of a text; `anchor`: `start`, `middle` or `end`."""
    look = f"{'font-style: italic; ' * italic}{'font-weight: 700; ' * bold}"
    return f"{look}font-size: {size:g}px; text-anchor: {anchor}; fill: {colour}"


def circle(radius: float) -> str:
    """Outline of a circle around a point."""
    handle = _CIRCLE * radius
    r, h = number(radius), number(handle)
    return (
        f"M0 {r}C{h} {r} {r} {h} {r} 0C{r} -{h} {h} -{r} 0 -{r}"
        f"C-{h} -{r} -{r} -{h} -{r} 0C-{r} {h} -{h} {r} 0 {r}z"
    )


def marker(kind: str, size: float) -> str:
    """Outline of a marker of matplotlib's kinds `o s ^ v > D`, around a point."""
    half, diagonal = size / 2, size / 2 * 2**0.5
    if kind == "o":
        return circle(half)
    corners: dict[str, Sequence[Point]] = {
        "s": [(-half, half), (half, half), (half, -half), (-half, -half)],
        "^": [(0, -half), (-half, half), (half, half)],
        "v": [(0, half), (half, -half), (-half, -half)],
        ">": [(half, 0), (-half, -half), (-half, half)],
        "D": [(0, diagonal), (diagonal, 0), (0, -diagonal), (-diagonal, 0)],
    }
    return path_of(corners[kind]) + "z"
