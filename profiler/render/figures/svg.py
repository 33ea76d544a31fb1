"""From a drawing to SVG that can stand many times in one page."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from profiler.render.figures.drawing import POINTS, text_width_in

if TYPE_CHECKING:
    from profiler.render.figures.drawing import Drawing

_FONT_SIZE = re.compile(r"([\d.]+)px")
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
    size = float(match[1]) if (match := _FONT_SIZE.search(style)) else 0.0
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
