import pytest

from profiler.metrics.units import base_unit, is_known


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
    assert base_unit(unit).unit == base
    assert base_unit(unit).factor == pytest.approx(factor, rel=1e-15)


def test_base_units_are_their_own_base():
    for unit in ("ns", "byte", "hz", "%", "inst", "byte/s", "sector/s", "byte/cycle", "warp"):
        assert base_unit(unit) == base_unit(base_unit(unit).unit)
        assert base_unit(unit).factor == 1


def test_base_units_of_times_are_exact():
    assert 180.544 * base_unit("us").factor == 180544


def test_known_units_tell_a_bracket_from_a_unit():
    assert is_known("ns")
    assert is_known("Mbyte")
    assert is_known("byte/second")
    assert is_known("%")
    assert not is_known("instance 1")
    assert not is_known("")
