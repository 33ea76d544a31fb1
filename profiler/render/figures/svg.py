"""From a matplotlib figure to SVG that can stand many times in one page, in light and in dark."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TextIO
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from profiler.render.figures.fonts import font_of, text_size

if TYPE_CHECKING:
    from profiler.render.figures.drawing import Drawing

# Figures are drawn in these colours and nothing else; each stands for a CSS variable, so that the
# page's light and dark schemes reach into the figures. The values are arbitrary and never seen.
INK = "#010203"
MUTED = "#040506"
GRID = "#070809"
BEST = "#0a0b0c"
BASELINE = "#0d0e0f"
OTHER = "#101112"
SERIES = ("#131415", "#161718", "#191a1b", "#1c1d1e")
HEAT_STEPS = range(-6, 7)
"""Classes of ratios, as the style sheet has them: far less (-6) to far more (6)."""
HEAT: Mapping[int, str] = {step: f"#2020{0x30 + step:02x}" for step in HEAT_STEPS}
HEAT_INK: Mapping[int, str] = {step: f"#3030{0x40 + step:02x}" for step in HEAT_STEPS}
"""Colour of text on each class."""

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    BEST: "--best",
    BASELINE: "--baseline",
    OTHER: "--other",
    SERIES[0]: "--series-1",
    SERIES[1]: "--series-2",
    SERIES[2]: "--series-3",
    SERIES[3]: "--series-4",
    **{colour: f"--h{step}" for step, colour in HEAT.items()},
    **{colour: f"--h{step}-ink" for step, colour in HEAT_INK.items()},
}
_MARK = "mark"
_MARKS = "marks"
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # real text: selectable, searchable, in the page's font
    "svg.hashsalt": "profiler",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titley": 1.0,  # placing titles by what is below them costs a tenth of the time
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.formatter.useoffset": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.bottom": False,  # grid lines show where the labels belong
    "ytick.left": False,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.parse_math": False,  # a `$` in a kernel name is a `$`
}

_MARK_ID = re.compile(rf"{_MARK}-(\d+(?:\.\d+)?)")
_COLOUR = re.compile("|".join(map(re.escape, _VARIABLES)), re.IGNORECASE)
_FONT = re.compile(r"font-family: [^;]*(?:; )?")
_FONT_SHORTHAND = re.compile(r"(font: (?:[\w.]+ )*?[\d.]+px) [^;]*")
_NUMBER = re.compile(r"-?\d+\.\d+")
_SPACE = re.compile(r"\s+")
_ROOM_AT_LETTER = re.compile(r" ?([A-Za-z]) ?")
_LABEL_GROUPS = ("matplotlib.axis", "legend")
"""Ids of groups of labels as matplotlib writes them, without their number."""
LABELS = "labels"
"""Class of a group of labels no two of which are equal."""
_FONT_SIZE = re.compile(r"([\d.]+)px")
_ANCHOR = re.compile(r"text-anchor: (\w+)")
_ROTATION = re.compile(r"rotate\((-?[\d.]+)")
_DESCENT = 0.3
"""How far letters reach below their line, by their size."""
_MEASURED_SIZE = 100.0
_FIXED_POINT = 65536
"""FreeType's unit of widths that are not hinted, by the size."""
_NO_ROTATION = re.compile(r"rotate\(-?0 [^)]*\)")
_INVISIBLE = "fill: none"
_LEFT_OUT = ("metadata", "style", "clipPath")
_POINTS_AN_INCH = 72
_POINTS_TO_PIXELS = 4 / 3  # CSS: 96 px and 72 pt an inch


def style() -> Any:
    """Give the settings under which every figure must be made and drawn."""
    return dict(_STYLE)


def mark(index: int, cell: int | None = None) -> str:
    """Id of what belongs to a variant, and shows a cell: the page's script lights it up."""
    return f"{_MARK}-{index}" if cell is None else f"{_MARK}-{index}.{cell}"


def marks(indices: Iterable[int], cells: Iterable[int] | None = None) -> str:
    """Make the gid of a collection whose parts belong to one variant each, in this order.

    `cells`: number of the cell that each part shows, where it shows one.
    """
    parts: Iterable[str] = map(str, indices)
    if cells is not None:
        parts = (f"{part}.{cell}" for part, cell in zip(parts, cells, strict=True))
    return "-".join((_MARKS, *parts))


def variable(colour: str) -> str:
    """The CSS variable that a colour of figures stands for."""
    return f"var({_VARIABLES[colour]})"


def to_svg(
    figure: Figure | Drawing,
    prefix: str,
    label: str,
    description: str,
    hovers: Mapping[int, str] = MappingProxyType({}),
) -> Markup:
    """Inline SVG of a figure.

    `prefix` must be unique in the page: all ids get it. `label` names the figure for those who
    cannot see it, `description` says what it shows. `hovers`: by number of a variant, what the
    page's script shows after its name at a mark. Nothing is clipped: figures set their limits such
    that everything lies inside.
    """
    root = _shapes(figure) if isinstance(figure, Figure) else figure.root
    referenced = set(_references(root))
    for element in root.iter():
        _rename(element, prefix, referenced)
        hover = hovers.get(int(element.get("data-variant", "-1")))
        if hover:
            element.set("data-hover", hover)
    _make_room(root)
    rules = _share_styles(root)
    _dress(root, label, description)
    _add_rules(root, rules)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _shapes(figure: Figure) -> ElementTree.Element:
    """What matplotlib draws of a figure, in the colours of the page."""
    stream = io.StringIO()
    with mpl.rc_context(style()):
        _draw(figure, stream)
    root = ElementTree.fromstring(stream.getvalue())  # noqa: S314 - written by matplotlib just now
    _strip(root)
    for element in root.iter():
        _restyle(element)
    _flatten(root)
    return root


def _draw(figure: Figure, stream: TextIO) -> None:
    """Write a figure as matplotlib's `savefig` does."""
    image_dpi = figure.dpi
    figure.dpi = _POINTS_AN_INCH
    width, height = figure.get_size_inches() * _POINTS_AN_INCH
    make: Any = _Renderer  # matplotlib has no types for it
    renderer = make(width, height, stream, image_dpi=image_dpi, metadata={"Date": None})
    figure.draw(renderer)
    renderer.finalize()


class _Renderer(RendererSVG):
    """Writes a figure, and measures its texts with the font in memory."""

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool | Literal["TeX"]
    ) -> tuple[float, float, float]:
        """Size of a text in points."""
        del ismath  # no text is a formula
        return text_size(s, prop)


def _strip(root: ElementTree.Element) -> None:
    """Remove what only a file needs: namespaces, metadata, clips, style sheets, white space."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        element.attrib.pop("clip-path", None)
        if element.tag not in {"text", "tspan"}:
            element.text = None
        for name in [name for name in element.attrib if name.startswith("{")]:
            element.attrib[name.rpartition("}")[2]] = element.attrib.pop(name)
        for child in list(element):
            if child.tag.rpartition("}")[2] in _LEFT_OUT:
                element.remove(child)


def _flatten(parent: ElementTree.Element) -> None:
    """Remove invisible elements, and replace groups that only hold others by their children.

    The labels of an axis and those of a legend stay together: no two in one group may be equal.
    """
    children: list[ElementTree.Element] = []
    for child in parent:
        _flatten(child)
        identifier = child.get("id", "")
        if identifier.rpartition("_")[0] in _LABEL_GROUPS:
            child.set("class", LABELS)
        if child.tag == "g" and set(child.attrib) <= {"id"} and not identifier.startswith(_MARK):
            children.extend(child)
        elif child.get("style") != _INVISIBLE and not (child.tag == "defs" and not len(child)):
            children.append(child)
    parent[:] = children


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
    size = float(match[1]) if (match := _FONT_SIZE.search(style)) else 0.0
    width = _width(text.text or "", size)
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


def _width(text: str, size: float) -> float:
    """Width of a text in the font that comes with matplotlib, in points."""
    return sum(map(_advance, text)) * size


@cache
def _advance(letter: str) -> float:
    """Width of a letter, by the size of the text; that of a box where the font lacks it."""
    font = font_of(FontProperties("DejaVu Sans"), letter)
    font.set_size(_MEASURED_SIZE, 72)
    glyph = font.load_glyph(font.get_char_index(ord(letter)))
    return float(glyph.linearHoriAdvance) / _FIXED_POINT / _MEASURED_SIZE


def _references(root: ElementTree.Element) -> Iterator[str]:
    for element in root.iter():
        target = element.get("href", "")
        if target.startswith("#"):
            yield target[1:]


def _restyle(element: ElementTree.Element) -> None:
    if "style" in element.attrib:
        text = _FONT.sub("", _FONT_SHORTHAND.sub(r"\1 inherit", element.attrib["style"]))
        element.set(
            "style", _COLOUR.sub(lambda match: f"var({_VARIABLES[match[0].lower()]})", text)
        )
    for name in ("d", "x", "y", "transform"):
        if name in element.attrib:
            text = _SPACE.sub(" ", element.attrib[name]).strip()
            element.set(name, _NUMBER.sub(_two_decimals, text))
    if "d" in element.attrib:
        element.set("d", _ROOM_AT_LETTER.sub(r"\1", element.attrib["d"]))
    if _NO_ROTATION.fullmatch(element.get("transform", "")):
        del element.attrib["transform"]


def _two_decimals(match: re.Match[str]) -> str:
    """Write a coordinate to a hundredth of a point, which no screen can show."""
    return f"{round(float(match[0]), 2):g}"


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


def _add_rules(root: ElementTree.Element, rules: dict[str, str]) -> None:
    sheet = ElementTree.Element("style")
    sheet.text = "".join(f".{name}{{{text}}}" for name, text in rules.items())
    root.insert(0, sheet)


def _rename(element: ElementTree.Element, prefix: str, referenced: Set[str]) -> None:
    """Prefix the ids that are pointed at, drop the others, and turn our gids into data."""
    identifier = element.attrib.pop("id", "")
    if match := _MARK_ID.fullmatch(identifier):
        _set_mark(element, match[1])
    elif identifier.startswith(f"{_MARKS}-"):
        _mark_parts(element, identifier.split("-")[1:])
    elif identifier in referenced:
        element.set("id", f"{prefix}-{identifier}")
    if "href" in element.attrib:
        element.set("href", element.attrib["href"].replace("#", f"#{prefix}-", 1))


def _mark_parts(collection: ElementTree.Element, indices: Sequence[str]) -> None:
    """Name the variant on each part of a collection; matplotlib writes them in its order."""
    parts = [element for element in collection.iter() if element.tag == "use"]
    if not parts:
        parts = [element for element in collection.iter() if element.tag == "path"]
    if len(parts) == len(indices):
        for part, index in zip(parts, indices, strict=True):
            _set_mark(part, index)


def _set_mark(element: ElementTree.Element, index: str) -> None:
    """Name the variant, and the cell, that an element shows."""
    variant, _, cell = index.partition(".")
    element.set("class", _MARK)
    element.set("data-variant", variant)
    if cell:
        element.set("data-cell", cell)


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
