"""Numbers as people read them; the raw number always stands beside them in the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

MISSING = "\u2013"
MINUS = "\u2212"
TIMES = "\N{MULTIPLICATION SIGN}"
_NARROW_SPACE = "\u202f"
_DIGITS = 4
_EXACT_BELOW = 1_000_000
_FEWER = 0.01
"""A ratio below this would lose its digits in three decimals."""

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "us": ((1e6, "s"), (1e3, "ms"), (1, "µs")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "byte": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "GB/s": ((1e3, "TB/s"), (1, "GB/s"), (1e-3, "MB/s")),
    "op": ((1e12, "Top"), (1e9, "Gop"), (1e6, "Mop"), (1, "op")),
    "op/s": ((1e12, "Top/s"), (1e9, "Gop/s"), (1e6, "Mop/s"), (1, "op/s")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1, "FLOP")),
    "TFLOP/s": ((1e3, "PFLOP/s"), (1, "TFLOP/s"), (1e-3, "GFLOP/s"), (1e-6, "MFLOP/s")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1, "Hz")),
    "MHz": ((1e3, "GHz"), (1, "MHz")),
    "GHz": ((1, "GHz"), (1e-3, "MHz")),
    "W": ((1, "W"), (1e-3, "mW")),
    "J": ((1, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "GFLOP/J": ((1e3, "TFLOP/J"), (1, "GFLOP/J")),
    "GB/J": ((1, "GB/J"), (1e-3, "MB/J")),
    "°C": ((1, "°C"),),
}
_ALIASES = {
    "bytes": "byte",
    "B": "byte",
    "B/s": "byte/s",
    "bytes/s": "byte/s",
    "GB_per_s": "GB/s",
    "TFLOPS": "TFLOP/s",
    "tflop/s": "TFLOP/s",
    "hz": "Hz",
    "percent": "%",
    "pct": "%",
}
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1, ""))


def is_missing(value: float | None) -> bool:
    """Whether there is no number (None, NaN or infinite)."""
    return value is None or not math.isfinite(value)


def significant(value: float, digits: int = _DIGITS) -> str:
    """Write a number with this many significant digits, without an exponent where it fits."""
    if value == 0:
        return "0"
    value = rounded(value, digits)
    if 1e-4 <= abs(value) <= 10**digits:
        return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.{digits}g}"


def rounded(value: float, digits: int = _DIGITS) -> float:
    """Round to significant digits; done first, so that 999.99 us becomes 1.000 ms."""
    return float(f"{value:.{digits - 1}e}")


def show(value: float | None, unit: str = "") -> str:
    """Write a value in the prefix that reads best: 412300 ns is `412.3 µs`; no number is a dash."""
    if value is None or is_missing(value):
        return MISSING
    unit = _ALIASES.get(unit, unit)
    if unit == "%":
        return f"{value:.1f}{_NARROW_SPACE}%"
    if unit in _SCALES:
        size, name = scale(abs(rounded(value)), unit)
        is_integer = size == 1 and value == int(value)
        text = str(int(value)) if is_integer else significant(value / size)
        return f"{text}{_NARROW_SPACE}{name}"
    return _count(value)


def share(part: float) -> str:
    """Write a share in percent: 0.623 is `62.3 %`."""
    return show(100 * part, "%")


def says_unit(unit: str) -> bool:
    """Whether `show` writes the unit; of counts it does not."""
    unit = _ALIASES.get(unit, unit)
    return unit == "%" or unit in _SCALES


def steps(unit: str) -> tuple[tuple[float, str], ...]:
    """Divisors and unit names in which `show` writes a unit, the largest first."""
    unit = _ALIASES.get(unit, unit)
    return ((1.0, "%"),) if unit == "%" else _SCALES[unit]


def scale(largest: float, unit: str) -> tuple[float, str]:
    """Find the divisor and unit name that suit a largest value, for a column or an axis."""
    unit = _ALIASES.get(unit, unit)
    if unit in _SCALES:
        steps = _SCALES[unit]
        return next(((size, name) for size, name in steps if largest >= size), steps[-1])
    if unit == "%":
        return 1.0, "%"
    size, prefix = next(
        ((size, name) for size, name in _COUNTS if largest >= max(size, _EXACT_BELOW)), (1.0, "")
    )
    return size, f"{prefix} {unit}".strip()


def column(values: Sequence[float], unit: str) -> tuple[str, tuple[str, ...]]:
    """Write values in one prefix, for a column whose head has the unit: `µs`, (`3.312`, `12.40`).

    The prefix is that of the value in the middle; no number is a dash.
    """
    sizes = [abs(value) for value in values if not is_missing(value) and value]
    size, name = scale(rounded(median(sizes)) if sizes else 0.0, unit)
    digits = 1 if name == "%" else None
    return name, tuple(
        MISSING if is_missing(value) else _in_column(value / size, digits) for value in values
    )


def _in_column(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == int(value) or abs(value) >= 10 ** (_DIGITS - 1):
        return f"{value:.0f}"
    return significant(value)


def ratio(value: float | None) -> str:
    """Write a ratio to a baseline with the sign of multiplication: 0.620 times."""
    if value is None or is_missing(value):
        return MISSING
    if abs(value) >= 1000:
        return f"{value:.0f}{TIMES}"
    if abs(value) < _FEWER:
        return significant(value, 3) + TIMES
    return (f"{value:.3f}" if abs(value) < 9.9995 else significant(value, 3)) + TIMES


def plain_ratio(value: float) -> str:
    """Write a ratio without the sign of multiplication, as a table has many of them."""
    return ratio(value).removesuffix(TIMES)


def short_ratio(value: float) -> str:
    """Write a ratio for a narrow cell: two decimals, and no sign of multiplication."""
    if value < _FEWER / 2:
        return significant(value, 1)
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 9.995 else significant(value, 3)


def change(value: float) -> str:
    """Write a factor by which a counter changed; of a tiny one how many times fewer."""
    if 0 < value < _FEWER:
        return f"{_count(rounded(1 / value, 3))}{TIMES} fewer"
    return ratio(value)


def signed(value: float) -> str:
    """Write a difference with its sign and one decimal: `+0.8`."""
    return f"{value:+.1f}".replace("-", MINUS)


def signed_time(ns: float) -> str:
    """Write a difference of two times with its sign: plus makes the first of two longer."""
    return f"{'+' if ns >= 0 else MINUS}{show(abs(ns), 'ns')}"


def interval(low: float | None, high: float | None, unit: str | None = None) -> str:
    """Write an interval as `[low, high]`; without a unit, of ratios. Empty where there is none."""
    if low is None or high is None or is_missing(low) or is_missing(high):
        return ""
    if unit is None:
        return f"[{plain_ratio(low)}, {plain_ratio(high)}]"
    return f"[{show(low, unit)}, {show(high, unit)}]"


def half_width(value: float | None, low: float | None, high: float | None) -> str:
    """Write half the width of an interval in percent of the value: `±0.4 %`; above 100 a factor."""
    if value is None or low is None or high is None or value == 0:
        return ""
    if any(is_missing(number) for number in (value, low, high)):
        return ""
    part = abs((high - low) / value) / 2
    return f"±{ratio(part) if part > 1 else share(part)}"


def seconds(value: float) -> str:
    """Write a wall time: `3.2 s`, `4 min 05 s`, `1 h 02 min`."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest_s = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def raw(value: float) -> str:
    """Write a number for machines: whole numbers in full, others to six significant digits."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def _count(value: float) -> str:
    if abs(value) >= _EXACT_BELOW:
        size, prefix = next((size, name) for size, name in _COUNTS if abs(value) >= size)
        return f"{significant(value / size)}{_NARROW_SPACE}{prefix}"
    if value == int(value) or abs(value) >= 1000:
        return f"{round(value):,}".replace(",", _NARROW_SPACE)
    return f"{value:.{_DIGITS}g}"
