"""Colours of ratios: a scale that fits the numbers it is for, and says where it is clipped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from profiler.render.words import numbers

_ENDS = (1.25, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Ratios at which the last class of a scale may begin."""
_SHARES = (0.016, 0.07, 0.18, 0.38, 0.65, 1.0)
"""Edges of the classes as shares of the last, on a log scale: the finer, the nearer to 1."""
_UNLIKE_ONE = 0.0005
"""Difference from 1 that three decimals show."""
_INSIDE = 0.9
"""Share of the numbers that a scale must tell apart; what lies further out has its last colour."""


@dataclass(frozen=True)
class RatioScale:
    """Seven classes of ratios each way: `h-6` (far less) over `h0` to `h6` (far more)."""

    edges: tuple[float, ...]
    """Of |log2 ratio|, between the classes."""
    clipped: str = ""
    """Clause on the numbers that the last classes clip; empty where there are none."""
    first: int = -len(_SHARES)
    last: int = len(_SHARES)
    """The least and the greatest class that any of the numbers has; 0 lies between them."""

    def step(self, ratio: float) -> int:
        """Class of a ratio, -6 to 6."""
        logarithm = math.log2(ratio)
        step = sum(abs(logarithm) >= edge for edge in self.edges)
        return -step if logarithm < 0 else step

    def css(self, ratio: float, *, lower_is_better: bool = True) -> str:
        """CSS class of a ratio; where higher is better, that of its reciprocal."""
        if not ratio > 0:
            return "none"
        return f"h{self.step(ratio if lower_is_better else 1 / ratio)}"

    @property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """Classes from the least to the greatest that any number has, and where each begins."""
        last = len(self.edges)
        begins = {
            step: f"<{_text(2 ** -self.edges[-step - 1])}"
            if step < 0
            else f">{_text(2 ** self.edges[step - 1])}"
            for step in range(-last, last + 1)
            if step
        } | {0: "1"}
        return tuple((step, begins[step]) for step in range(self.first, self.last + 1))


def scale_of(ratios: Iterable[float]) -> RatioScale:
    """The scale that fits ratios; those that are missing do not count."""
    present = [ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)]
    sizes = sorted(abs(math.log2(ratio)) for ratio in present)
    typical = sizes[math.ceil(_INSIDE * len(sizes)) - 1] if sizes else 0.0
    end = next((end for end in _ENDS if typical <= math.log2(end)), _ENDS[-1])
    edges = tuple(share * math.log2(end) for share in _SHARES)
    beyond = [ratio for ratio in present if abs(math.log2(ratio)) > edges[-1]]
    steps = [RatioScale(edges).step(ratio) for ratio in present] or [0]
    return RatioScale(edges, _clipped(beyond, end), min([0, *steps]), max([0, *steps]))


def _clipped(beyond: list[float], end: float) -> str:
    """Where the scale is clipped, and how far the numbers beyond go, on each side that has any."""
    below = [ratio for ratio in beyond if ratio < 1]
    above = [ratio for ratio in beyond if ratio > 1]
    sides = [_beyond(below, 1 / end, min(below))] if below else []
    sides += [_beyond(above, end, max(above))] if above else []
    return ", ".join(sides)


def _beyond(ratios: list[float], end: float, furthest: float) -> str:
    cells = f"{len(ratios)} cell{'s' if len(ratios) > 1 else ''}"
    return f"clipped at {_text(end)} ({cells} beyond, to {_text(furthest)}{numbers.TIMES})"


def _text(ratio: float) -> str:
    if _UNLIKE_ONE <= abs(ratio - 1) < 0.005:
        return f"{ratio:.3f}"  # with two decimals both edges beside 1 would read 1.00
    return f"{ratio:.2f}" if ratio < 10 else numbers.significant(ratio, 3)
