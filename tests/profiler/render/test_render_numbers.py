"""Numbers as people read them."""

import math

import pytest

from profiler.metrics.queries import labels
from profiler.render.tables.rows import with_unit
from profiler.render.words import numbers

SPACE = "\u202f"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (412_300, "ns", f"412.3{SPACE}\u00b5s"),
        (93, "ns", f"93{SPACE}ns"),
        (93.44, "ns", f"93.44{SPACE}ns"),
        (2000, "ns", f"2.000{SPACE}\u00b5s"),
        (999_999.96, "ns", f"1.000{SPACE}ms"),
        (0, "ns", f"0{SPACE}ns"),
        (3.91e12, "byte/s", f"3.910{SPACE}TB/s"),
        (3910, "GB/s", f"3.910{SPACE}TB/s"),
        (147_934_720, "byte", f"147.9{SPACE}MB"),
        (73.24, "%", f"73.2{SPACE}%"),
        (-0.157, "%", f"-0.2{SPACE}%"),
        (168, "register/thread", "168"),
        (16_884_023, "inst", f"16.88{SPACE}M"),
        (285_601.4, "cycle", f"285{SPACE}601"),
        (0.05321, "warp/issue", "0.05321"),
        (1.973, "GHz", f"1.973{SPACE}GHz"),
        (370.6e12, "op/s", f"370.6{SPACE}Top/s"),
    ],
)
def test_shows_the_prefix_that_reads_best(value, unit, text):
    assert numbers.show(value, unit) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_missing_is_a_dash_and_never_zero(value):
    assert numbers.show(value, "ns") == "\u2013"
    assert numbers.ratio(value) == "\u2013"


def test_a_metric_called_by_its_unit_has_no_other_unit_in_its_head():
    """A column of GFLOP/s was once called TFLOP/s (GFLOP/s)."""
    rate, cycles = labels(("tflops", "cycles"))
    assert with_unit(rate, "GFLOP/s") == "GFLOP/s"
    assert with_unit(rate, "TFLOP/s") == "TFLOP/s"
    assert with_unit(cycles, "M cycle") == "Cycles (M cycle)"


def test_ratios_and_intervals():
    assert numbers.ratio(0.6204) == "0.620\u00d7"
    assert numbers.ratio(41.26) == "41.3\u00d7"
    assert [numbers.ratio(value) for value in (9.9996, 999.6)] == ["10.0\u00d7", "1000\u00d7"]
    shown = [numbers.short_ratio(value) for value in (0.0042, 0.62, 9.996, 999.6, 64800)]
    assert shown == ["0.004", "0.62", "10.0", "1000", "64800"]
    assert numbers.interval(0.61, 0.6304) == "[0.610, 0.630]"
    assert numbers.interval(1000, 2000, "ns") == f"[1.000{SPACE}\u00b5s, 2.000{SPACE}\u00b5s]"
    assert numbers.interval(math.nan, 2.0) == ""
    assert numbers.half_width(100, 99, 101) == f"\u00b11.0{SPACE}%"
    assert numbers.half_width(100, 20, 1420) == "\u00b17.000\u00d7"
    assert numbers.half_width(100, math.nan, 101) == ""
    assert numbers.half_width(0, 0, 0) == ""


def test_no_ratio_is_rounded_to_nothing():
    assert numbers.ratio(0.00042) == "0.000420\u00d7"
    assert numbers.change(1 / 1203) == f"1{SPACE}200\u00d7 fewer"
    assert numbers.change(1 / 133) == "133\u00d7 fewer"


def test_seconds_read_as_a_clock():
    assert numbers.seconds(3.21) == "3.2 s"
    assert numbers.seconds(245) == "4 min 05 s"
    assert numbers.seconds(3725) == "1 h 02 min"


@pytest.mark.parametrize("value", [0.1, 1 / 3, 123456789.0, 2**53, -4.5e-7, 1e300])
def test_raw_numbers_keep_six_digits(value):
    assert float(numbers.raw(value)) == pytest.approx(value, rel=5e-6)
    assert numbers.raw(123456789.0) == "123456789"


def test_columns_have_one_unit_and_numbers_that_sort():
    unit, texts = numbers.column([3312.0, math.nan, 12400.0, 1.02e6], "ns")
    assert unit == "\u00b5s"
    assert texts == ("3.312", numbers.MISSING, "12.40", "1020")
    assert numbers.column([6490.0, 14641.25, 0.0], "") == ("", ("6490", "14641", "0"))
    assert numbers.column([49.96, math.nan], "%") == ("%", ("50.0", numbers.MISSING))
    assert numbers.column([math.nan], "byte")[1] == (numbers.MISSING,)


def test_units_of_counts_have_to_be_said_elsewhere():
    for unit in ("ns", "byte", "pct", "TFLOP/s"):
        assert numbers.says_unit(unit)
        assert not numbers.show(1.0, unit).isdigit()
    assert not numbers.says_unit("register/thread")
    assert numbers.show(80.0, "register/thread") == "80"


def test_axes_take_one_unit_for_all_values():
    assert numbers.scale(2.5e6, "ns") == (1e6, "ms")
    assert numbers.scale(12.0, "%") == (1.0, "%")
    assert numbers.scale(3e7, "inst") == (1e6, "M inst")
    assert numbers.scale(0.0, "ns") == (1.0, "ns")
