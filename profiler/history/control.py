"""The newest run, or the base of a gate, against its own past: the machine or the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.analyse.intervals import COVERED
from profiler.history.trends import (
    FEWEST_TOGETHER,
    MOST_TOGETHER,
    Cause,
    History,
    Trend,
    session_sd,
)
from profiler.model import MARGIN_PCT

_CELL_MARGIN = 0.03
"""By which one cell of one run has to be off: 504 unchanged ones on seven cards were by 2.8 % at
most (docs/history.md), and no other run says that it is still so."""
_PAST_RUNS = 20
"""Runs before the newest that say what is usual."""
_MACHINE_MARGIN = 0.02
"""Change of a baseline against its own past, over its cells: cards of one model differ by less."""


@dataclass(frozen=True)
class Control:
    """The newest run against the runs before it."""

    past: int
    """How many runs before it say what is usual."""
    baseline: float | None
    """Its baseline's time by the usual one, geometric mean over the problems; None without one."""
    baseline_moved: bool
    """Whether that is further than sessions differ by."""
    moved: tuple[tuple[Trend, float], ...]
    """Cells whose ratio (time, without a baseline) is off, by how much, the slowest first."""
    cells: int
    noise_floor: float | None
    usual_noise_floor: float | None
    """A/A: how far the baseline strays from itself in the newest run, and usually."""

    @property
    def cause(self) -> Cause | None:
        """Machine, baseline or kernel, whichever moved; None where nothing did."""
        most = len(self.moved) > MOST_TOGETHER * self.cells and len(self.moved) >= FEWEST_TOGETHER
        if self.baseline is None:
            return None if not self.moved else Cause.MACHINE if most else Cause.KERNEL
        if self.baseline_moved:
            against = most and all((r < 1) == (self.baseline > 1) for _, r in self.moved)
            return Cause.BASELINE if against else Cause.MACHINE
        return Cause.KERNEL if self.moved else None


def find_control(history: History) -> Control | None:
    """What is unusual in the newest run; None without a run before it."""
    newest = len(history.runs) - 1
    offs: list[tuple[Trend, float, bool]] = []
    for trend in history.trends:
        past = [run for run in trend.answers if trend.since <= run < newest][-_PAST_RUNS:]
        if newest not in trend.answers or trend.since == newest:
            past = []
        values = np.array([trend.value(run) for run in past])
        if not len(values) or not (values > 0).all() or not trend.value(newest) > 0:
            continue
        usual = np.log(values)
        off = math.log(trend.value(newest)) - float(np.median(usual))
        spread = 1.4826 * float(np.median(np.abs(usual - np.median(usual))))
        scatter = max(session_sd(trend, history.metric) * math.sqrt(1 + 1 / len(values)), spread)
        margin = MARGIN_PCT / 100 if trend.is_baseline else _CELL_MARGIN
        limit = max(COVERED * scatter, math.log1p(margin))
        offs.append((trend, off, abs(off) > limit))
    if not offs:
        return None
    baselines = [(off, beyond) for trend, off, beyond in offs if trend.is_baseline]
    cells = [(trend, math.exp(off), beyond) for trend, off, beyond in offs if not trend.is_baseline]
    floors = [_noise_floor(history, run) for run in range(newest + 1)]
    known = [floor for floor in floors[:-1] if floor is not None]
    return Control(
        past=newest,
        baseline=math.exp(np.mean([off for off, _ in baselines])) if baselines else None,
        baseline_moved=2 * sum(beyond for _, beyond in baselines) > len(baselines),
        moved=tuple(
            sorted(
                ((trend, ratio) for trend, ratio, beyond in cells if beyond),
                key=lambda pair: -pair[1],
            )
        ),
        cells=len(cells),
        noise_floor=floors[-1],
        usual_noise_floor=float(np.median(known)) if known else None,
    )


def _noise_floor(history: History, run: int) -> float | None:
    """Median A/A noise floor of a run over its cells."""
    of_run = (trend.answers.get(run) for trend in history.trends)
    floors = [answer.noise_floor for answer in of_run if answer and answer.noise_floor is not None]
    return float(np.median(floors)) if floors else None


# ---- two revisions of one session ----------------------------------------------------------------


def moved_together(ratios: Sequence[float], cells: int) -> Iterator[tuple[int, float]]:
    """How many of so many cells moved to one side, and their mean ratio, where most of them did.

    `ratios`: of the cells that moved.
    """
    for side in (
        [ratio for ratio in ratios if ratio > 1],
        [ratio for ratio in ratios if ratio < 1],
    ):
        if len(side) >= FEWEST_TOGETHER and len(side) > MOST_TOGETHER * cells:
            yield len(side), math.exp(float(np.mean(np.log(side))))


def by_usual(times: Mapping[tuple[str, str], float], history: History) -> float | None:
    """Times by those that the same cells usually have, in the middle; None where none has one.

    `times`: by variant and problem. Usual is the median of a cell's level of today.
    """
    logarithms = []
    for trend in history.trends:
        runs = [run for run in trend.answers if run >= trend.since][-_PAST_RUNS:]
        usual = float(np.median([trend.answers[run].value for run in runs]))
        time = times.get((trend.variant, trend.problem), 0.0)
        if time > 0:
            logarithms.append(math.log(time / usual))
    return math.exp(float(np.median(logarithms))) if logarithms else None


def is_usual(factor: float) -> bool:
    """Whether times that are so much of the usual ones tell of no other machine."""
    return abs(math.log(factor)) <= math.log1p(_MACHINE_MARGIN)
