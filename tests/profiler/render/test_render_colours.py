"""The palette of the page: contrast by the formula of WCAG 2.1, in light and in dark."""

import re
from importlib.resources import files

import pytest

from profiler.render.timeline.still_figure import PHASE_NAMES

CSS = files("profiler.render").joinpath("assets/page.css").read_text(encoding="utf-8")
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", CSS
    )
}
TEXT = 4.5  # WCAG 2.1, 1.4.3
GRAPHICS = 3.0  # WCAG 2.1, 1.4.11


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        *((ink, ground) for ink in ("ink", "muted", "link") for ground in ("page", "panel")),
        *(("ink", ground) for ground in ("warn-panel", "note-panel", "lit")),
        *((ink, "page") for ink in ("best", "baseline", "bad", "good")),
        ("muted", "lit"),
        ("link", "lit"),
        ("bad", "panel"),
        ("good", "panel"),
        ("replayed-ink", "replayed"),
        *((f"h{step}-ink", f"h{step}") for step in range(-6, 7)),
        *((f"b{step}-ink", f"b{step}") for step in range(7)),
    ],
)
def test_text_can_be_read(ink, ground):
    light, dark = zip(PAIRS[ink], PAIRS[ground], strict=True)
    assert contrast(*light) >= TEXT
    assert contrast(*dark) >= TEXT


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("mark", ["other", *PHASE_NAMES])
def test_marks_stand_out_from_the_page(mark, scheme):
    assert contrast(PAIRS[mark][scheme], PAIRS["page"][scheme]) >= GRAPHICS


TIMELINE = files("profiler.render").joinpath("assets/timeline.css").read_text(encoding="utf-8")
TINT = 0.3
"""Opacity of a bar of a timeline that words stand on: of the still figure and of the script's."""


def tinted(colour, ground):
    pairs = ((int(one[i : i + 2], 16) for i in (1, 3, 5)) for one in (colour, ground))
    mixed = (round(TINT * top + (1 - TINT) * below) for top, below in zip(*pairs, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("phase", [*PHASE_NAMES, "other", "muted"])
def test_words_on_the_bars_of_a_timeline_can_be_read(phase, scheme):
    ground = tinted(PAIRS[phase][scheme], PAIRS["page"][scheme])
    assert contrast(PAIRS["ink"][scheme], ground) >= TEXT


def test_the_style_of_timelines_uses_the_pages_colours():
    used = set(re.findall(r"var\(--([\w-]+)", TIMELINE)) - {"phase", "depth"}
    assert used <= set(PAIRS)
    assert not re.search(r"#[0-9a-f]{3,6}\b", TIMELINE)
    for name in PHASE_NAMES:
        assert f".p-{name} {{ --phase: var(--{name}); }}" in TIMELINE


def test_better_is_blue_and_worse_is_orange():
    for step in range(2, 7):
        for scheme in (0, 1):
            red, _, blue = (int(PAIRS[f"h-{step}"][scheme][i : i + 2], 16) for i in (1, 3, 5))
            assert blue > red
            red, _, blue = (int(PAIRS[f"h{step}"][scheme][i : i + 2], 16) for i in (1, 3, 5))
            assert red > blue


def test_every_class_of_the_heat_map_has_its_colours():
    for step in range(-6, 7):
        assert f".h{step} {{ --cell: var(--h{step}); color: var(--h{step}-ink); }}" in CSS


def test_every_variable_that_is_used_is_defined():
    given_by_elements = {"cell", "w", "depth"}
    used = set(re.findall(r"var\(--([\w-]+)", CSS)) - given_by_elements
    assert used <= set(PAIRS)
