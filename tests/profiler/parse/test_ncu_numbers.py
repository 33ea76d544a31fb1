import math

import pytest

from profiler.parse.ncu_numbers import (
    C_LOCALE,
    CONTINENTAL,
    MISSING,
    NumberStyle,
    base_unit,
    detect_style,
    is_known_unit,
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


@pytest.mark.parametrize("text", [*MISSING, "  ", "(!)  nan"])
def test_words_for_nothing_are_missing(text):
    number = parse_number(text)
    assert number is not None
    assert math.isnan(number)


@pytest.mark.parametrize(
    "text", ["PolicySpread", "all", "(32, 4, 1)", "1_000", "infinity", "-", "e", "1e999"]
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


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("", "", 1),
        ("%", "%", 1),
        ("ns", "ns", 1),
        ("nsecond", "ns", 1),
        ("us", "ns", 1e3),
        ("usecond", "ns", 1e3),
        ("µs", "ns", 1e3),
        ("ms", "ns", 1e6),
        ("msecond", "ns", 1e6),
        ("second", "ns", 1e9),
        ("byte", "byte", 1),
        ("Kbyte", "byte", 1e3),
        ("Mbyte", "byte", 1e6),
        ("Gbyte", "byte", 1e9),
        ("Tbyte", "byte", 1e12),
        ("hz", "hz", 1),
        ("Mhz", "hz", 1e6),
        ("Ghz", "hz", 1e9),
        ("GHz", "hz", 1e9),
        ("cycle/second", "hz", 1),
        ("cycle/nsecond", "hz", 1e9),
        ("cycle/usecond", "hz", 1e6),
        ("byte/s", "byte/s", 1),
        ("byte/second", "byte/s", 1),
        ("Gbyte/s", "byte/s", 1e9),
        ("Gbyte/second", "byte/s", 1e9),
        ("sector/us", "sector/s", 1e6),
        ("sector/ns", "sector/s", 1e9),
        ("sector/ms", "sector/s", 1e3),
        ("inst/cycle", "inst/cycle", 1),
        ("Kbyte/cycle", "byte/cycle", 1e3),
        ("Kbyte/block", "byte/block", 1e3),
        ("%/Kbyte", "%/byte", 1e-3),
        ("%/register", "%/register", 1),
        ("register/thread", "register/thread", 1),
        ("sectors", "sector", 1),
        ("branches", "branches", 1),
        ("Kelvin", "Kelvin", 1),
        ("SM", "SM", 1),
        ("/", "/", 1),
    ],
)
def test_base_unit(unit, base, factor):
    assert base_unit(unit) == (base, pytest.approx(factor, rel=1e-15))


def test_base_units_are_their_own_base():
    for unit in ("ns", "byte", "hz", "%", "inst", "byte/s", "sector/s", "byte/cycle", "warp"):
        assert base_unit(unit) == (unit, 1)


def test_base_units_of_times_are_exact():
    assert 180.544 * base_unit("us")[1] == 180544


def test_known_units_tell_a_bracket_from_a_unit():
    assert is_known_unit("ns")
    assert is_known_unit("Mbyte")
    assert is_known_unit("byte/second")
    assert is_known_unit("%")
    assert not is_known_unit("instance 1")
    assert not is_known_unit("")
