"""Primitives of figures: shapes in points, y downwards; sizes, widths of texts, places of panels.

Figures of them take a tenth of the time of those of matplotlib.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup
from matplotlib.font_manager import FontProperties, findfont, get_font

from profiler.render.figures import styles
from profiler.render.words import numbers
from profiler.render.words.names import shorten

Element = ElementTree.Element
Point = tuple[float, float]


def set_mark(element: Element, variant: int, cell: int | None = None) -> None:
    """Name the variant, if any, and the cell that a shape shows: the page's script lights it up."""
    if variant >= 0:
        element.set("class", "mark")
        element.set("data-variant", str(variant))
        if cell is not None:
            element.set("data-cell", str(cell))


class Mark(NamedTuple):
    """Number in a figure, as a bar or a dot; NaN where it is missing."""

    name: str
    """Text of its row, or of the series that it belongs to."""
    value: float
    low: float = math.nan
    high: float = math.nan
    text: str = ""
    """Text beside the mark."""
    role: str = "other"
    """`best`, `baseline`, `series-1` … or `other`; `ink` where it is no variant's."""
    variant: int = -1
    """Number of its variant, by which the page's script lights up marks and rows together."""
    cell: int | None = None
    """Number of its cell."""
    place: float = math.nan
    """Where it stands on the axis that its value is not on: a size, or the number of a row."""

    @property
    def colour(self) -> str:
        """Colour of its role."""
        return styles.colour_of(self.role)

    def divided_by(self, divisor: float) -> Mark:
        """The mark with its numbers in another unit."""
        ends = (self.value / divisor, self.low / divisor, self.high / divisor)
        return self._replace(value=ends[0], low=ends[1], high=ends[2])


def ends_of(marks: Iterable[Mark]) -> list[float]:
    """Values of marks, each with both ends of its interval."""
    return [end for mark in marks for end in (mark.value, mark.low, mark.high)]


class Drawing:
    """Shapes on a page of `width` by `height` points."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.root = Element("svg", viewBox=f"0 0 {styles.number(width)} {styles.number(height)}")
        self._symbols: dict[str, str] = {}
        """Id of each symbol by its path."""

    def group(self, css: str = "") -> Element:
        """A group of shapes, with a class or none."""
        return ElementTree.SubElement(self.root, "g", {"class": css} if css else {})

    def path(self, points: Sequence[Point], style: str, parent: Element | None = None) -> Element:
        """A line through points."""
        return ElementTree.SubElement(
            self._inside(parent), "path", {"d": styles.path_of(points), "style": style}
        )

    def rectangle(self, corner: Point, opposite: Point, style: str) -> Element:
        """A filled rectangle between two corners."""
        (left, top), (right, bottom) = corner, opposite
        return self.area([(left, top), (right, top), (right, bottom), (left, bottom)], style)

    def area(self, corners: Sequence[Point], style: str) -> Element:
        """A filled area between corners."""
        outline = {"d": styles.path_of(corners) + "z", "style": style}
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
        x, y = map(styles.number, at)
        attributes = {"x": x, "y": y, "href": f"#{self._symbols[outline]}", "style": style}
        return ElementTree.SubElement(parent, "use", attributes)

    def dots(
        self,
        outline: str,
        points: Iterable[Point],
        marks: Iterable[Mark],
        style: Callable[[str], str] | None = None,
    ) -> None:
        """A symbol at the point of each mark, in its colour."""
        style = style or styles.symbol
        for at, mark in zip(points, marks, strict=True):
            set_mark(self.symbol(outline, at, style(mark.colour)), mark.variant, mark.cell)

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
        x, y = map(styles.number, at)
        attributes = {"x": x, "y": y, "style": style}
        if degrees:
            attributes["transform"] = f"rotate({styles.number(-degrees)} {x} {y})"
        element = ElementTree.SubElement(self._inside(parent), "text", attributes)
        element.text = text
        return element

    def _inside(self, parent: Element | None) -> Element:
        return self.root if parent is None else parent


# ---- sizes and widths of texts -------------------------------------------------------------------


POINTS = 72.0
"""Points per inch."""
WIDTH_IN = 13.0
ROW_IN = 0.21
HEAD_IN = 0.15
FOOT_IN = 0.48
PANEL_COLUMNS = 4
FEW_DECADES = 300
ROOM = 1.6
"""Factor between a logarithmic axis's end and the point next to it."""
_HANDLE_IN = 0.55
"""Width of a legend's handle and the gap to the next column."""
_FONT_SIZE = 9.0
LEGEND_SIZE = 8.5
_LACKING = 1.15
"""Width of a letter that matplotlib's font lacks, such as a Chinese one, by its size."""
_MEASURED_SIZE = 100.0
_FIXED_POINT = 65536
"""FreeType's unit of widths that are not hinted, by the size."""
LOG_FROM = 5.0
"""Values that span more than this factor are drawn on a log scale."""


def scaled_label(label: str, unit: str, largest: float) -> tuple[float, str]:
    """Divisor of values that suits the largest, and the label of their axis with that unit."""
    divisor, name = numbers.scale(largest, unit)
    return divisor, f"{label} ({name})" if name else label


def text_width_in(text: str, size: float = _FONT_SIZE) -> float:
    """Width of a text in inches, in a font that is wider than those of pages."""
    return size / POINTS * sum(map(_advance, text))


@cache
def _advance(letter: str) -> float:
    """Width of a letter in matplotlib's font, by its size."""
    font = get_font(findfont(FontProperties("DejaVu Sans")))
    number = font.get_char_index(ord(letter))
    if not number:
        return _LACKING
    font.set_size(_MEASURED_SIZE, POINTS)
    return float(font.load_glyph(number).linearHoriAdvance) / _FIXED_POINT / _MEASURED_SIZE


def widest_in(texts: Iterable[str], size: float = _FONT_SIZE) -> float:
    """Width of the widest text in inches; 0 without any."""
    return max((text_width_in(text, size) for text in texts), default=0.0)


def fitted(text: str, room_in: float, size: float = _FONT_SIZE) -> str:
    """A text as wide as there is room for: its middle is left out where it is wider."""
    length = len(text)
    while length > 3 and text_width_in(shorten(text, length), size) > room_in:
        length -= 1
    return shorten(text, length)


def legend_columns(texts: Sequence[str], width_in: float) -> int:
    """Most columns, up to six, that are not wider together than the figure."""
    widths = np.array([text_width_in(text, LEGEND_SIZE) for text in texts])
    for columns in range(min(6, len(texts)), 1, -1):
        by_column = np.array_split(widths, columns)
        if sum(float(part.max()) for part in by_column) + _HANDLE_IN * columns <= width_in:
            return columns
    return 1


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values are positive and so far apart that a linear axis would flatten them."""
    present = [value for value in values if not math.isnan(value)]
    return bool(present) and min(present) > 0 and max(present) / min(present) > LOG_FROM


# ---- as SVG --------------------------------------------------------------------------------------


_SIZE_IN_PIXELS = re.compile(r"([\d.]+)px")
_ANCHOR = re.compile(r"text-anchor: (\w+)")
_ROTATION = re.compile(r"rotate\((-?[\d.]+)")
_DESCENT = 0.3
"""How far letters reach below their line, by their size."""
_POINTS_TO_PIXELS = 4 / 3  # CSS: 96 px and 72 pt an inch


def to_svg(
    drawing: Drawing,
    prefix: str,
    label: str,
    description: str,
    hovers: Mapping[int, str] = MappingProxyType({}),
) -> Markup:
    """Inline SVG of a drawing.

    `prefix` must be unique in the page: all ids get it. `label` names the figure for those who
    cannot see it, `description` says what it shows. `hovers`: by number of a variant, what the
    page's script shows after its name at a mark. Nothing is clipped: figures set their limits such
    that everything lies inside.
    """
    root = drawing.root
    for element in root.iter():
        _rename(element, prefix)
        hover = hovers.get(int(element.get("data-variant", "-1")))
        if hover:
            element.set("data-hover", hover)
    _make_room(root)
    rules = _share_styles(root)
    _dress(root, label, description)
    sheet = ElementTree.Element("style")
    sheet.text = "".join(f".{name}{{{text}}}" for name, text in rules.items())
    root.insert(0, sheet)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _make_room(root: ElementTree.Element) -> None:
    """Widen the view box to hold all text: labels of several axes may stand below their figure."""
    left, top, width, height = map(float, root.get("viewBox", "0 0 1 1").split())
    boxes = [_text_box(text) for text in root.iter("text")]
    least_x = min([left, *(box[0] for box in boxes)])
    least_y = min([top, *(box[1] for box in boxes)])
    most_x = max([left + width, *(box[2] for box in boxes)])
    most_y = max([top + height, *(box[3] for box in boxes)])
    sizes = (least_x, least_y, most_x - least_x, most_y - least_y)
    root.set("viewBox", " ".join(f"{round(size, 2):g}" for size in sizes))


def _text_box(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text in the figure's font, whose letters are wide."""
    style = text.get("style", "")
    size = float(match[1]) if (match := _SIZE_IN_PIXELS.search(style)) else 0.0
    width = text_width_in(text.text or "", size) * POINTS
    anchor = match[1] if (match := _ANCHOR.search(style)) else "start"
    start = -width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
    match = _ROTATION.search(text.get("transform", ""))
    turn = math.radians(float(match[1])) if match else 0.0
    x, y = float(text.get("x", 0)), float(text.get("y", 0))
    corners = [
        (
            x + along * math.cos(turn) - down * math.sin(turn),
            y + along * math.sin(turn) + down * math.cos(turn),
        )
        for along in (start, start + width)
        for down in (-size, _DESCENT * size)
    ]
    across, upright = zip(*corners, strict=True)
    return min(across), min(upright), max(across), max(upright)


def _share_styles(root: ElementTree.Element) -> dict[str, str]:
    """Replace styles by classes and return the rules.

    A class is named by its own declarations: figures of one page that share a name share the rule.
    """
    rules: dict[str, str] = {}
    for element in root.iter():
        declarations = element.attrib.pop("style", None)
        if declarations:
            name = f"s{hashlib.sha256(declarations.encode()).hexdigest()[:6]}"
            rules[name] = declarations
            element.set("class", f"{element.get('class', '')} {name}".strip())
    return rules


def _rename(element: ElementTree.Element, prefix: str) -> None:
    """Prefix ids, and what points at them."""
    if "id" in element.attrib:
        element.set("id", f"{prefix}-{element.attrib['id']}")
    if "href" in element.attrib:
        element.set("href", element.attrib["href"].replace("#", f"#{prefix}-", 1))


def _dress(root: ElementTree.Element, label: str, description: str) -> None:
    view_box = root.get("viewBox", "0 0 1 1")
    width = float(view_box.split()[2]) * _POINTS_TO_PIXELS
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": view_box,
            "style": f"max-width:{width:.0f}px",
            "role": "img",
            "aria-label": f"{label}. {description}",
        }
    )
