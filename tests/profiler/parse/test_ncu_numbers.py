import math

import pytest

from profiler.parse.ncu_numbers import (
    C_LOCALE,
    CONTINENTAL,
    MISSING,
    NumberStyle,
    detect_style,
    parse_number,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("180,992", 180992),
        ("3,198,730,382.65", 3198730382.65),
        ("117.344", 117.344),
        ("0", 0),
        ("-0.157", -0.157),
        ("2.5e+06", 2.5e6),
        ("(!) 12.5", 12.5),
        (" 7 ", 7),
    ],
)
def test_numbers_of_the_c_locale(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", [*MISSING, "  ", "(!)  nan", "1e999"])
def test_words_for_nothing_are_missing(text):
    number = parse_number(text)
    assert number is not None
    assert math.isnan(number)


@pytest.mark.parametrize(
    "text", ["PolicySpread", "all", "(32, 4, 1)", "1_000", "infinity", "-", "e"]
)
def test_words_are_no_numbers(text):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("cells", "style"),
    [
        (["117.344", "1"], C_LOCALE),
        (["117.344", "27.595.520", "65,77"], CONTINENTAL),
        (["2.147.483.647"], CONTINENTAL),
        (["73,20"], CONTINENTAL),
        (["1.234,5"], CONTINENTAL),
        (["1,234,567"], C_LOCALE),
        (["1,234", "73.20"], C_LOCALE),
        (["1,234"], C_LOCALE),
        (["1\u202f234\u202f567", "73,20"], NumberStyle(".", ",", spaced=True)),
        (["1\u00a0234"], NumberStyle(spaced=True)),
        (["1'234'567.5"], NumberStyle(spaced=True)),
        (["1\ufffd234\ufffd567,25"], NumberStyle(".", ",", spaced=True)),
        (["NVIDIA H200", "no data", ""], C_LOCALE),
    ],
)
def test_style_is_told_from_numbers_that_can_be_read_one_way_only(cells, style):
    assert detect_style(cells) == style


def test_other_locales():
    assert parse_number("117.344", CONTINENTAL) == 117344
    assert parse_number("65,77", CONTINENTAL) == 65.77
    assert parse_number("1\u202f234,5", NumberStyle(".", ",", spaced=True)) == 1234.5
