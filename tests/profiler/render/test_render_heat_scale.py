"""Scales of colours for ratios: they fit their numbers, and say where they are clipped."""

import math

import pytest

from profiler.render.tables.heats import scale_of


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.0, "h0"), (1.01, "h0"), (0.9, "h-2"), (0.2, "h-6"), (4.0, "h6"), (1.1, "h1")],
)
def test_heat_classes_are_symmetric(ratio, expected):
    scale = scale_of([0.25, 1.0, 4.0])
    assert scale.css(ratio) == expected
    mirrored = expected.replace("h-", "h") if "-" in expected else expected.replace("h", "h-")
    assert scale.css(1 / ratio) == (mirrored if expected != "h0" else "h0")


def test_a_scale_of_colours_fits_its_numbers_and_says_where_it_is_clipped():
    near = scale_of([0.99, 1.0, 1.2])
    assert near.step(1.2) == 5, "a fifth is far, where nothing else is further"
    assert near.legend == ((-1, "<0.996"), (0, "1"), (1, ">1.004"), (2, ">1.02"),
                           (3, ">1.04"), (4, ">1.09"), (5, ">1.16"))  # fmt: skip
    assert not near.clipped
    far = scale_of([*[0.5] * 30, 0.01, 0.9])
    assert far.clipped == "clipped at 0.50 (1 cell beyond, to 0.01\u00d7)"
    assert scale_of([math.nan]).legend == ((0, "1"),)
