"""Trends of each cell, and of each variant over its problems, in the runs of an experiment.

A cell is followed by its ratio to the baseline of the same run where all runs have one baseline:
what moves the machine moves both. The baseline itself is followed by its time, and so tells the
machine from the kernels: where baseline and variants moved together the machine did, its driver or
versions; where ratios moved and the baseline did not, the kernels did; where all ratios moved
against the baseline, the baseline's kernel did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import geometric_mean

import numpy as np
import numpy.typing as npt

from profiler.analyse.between_runs import shifts
from profiler.analyse.change_points import MOST_RUNS, change_points
from profiler.analyse.intervals import COVERED, DEVIATION_OF_MAD, session_sds
from profiler.collect.registry import duration_metrics
from profiler.history.answers import Answer, HistoryRun
from profiler.model import MARGIN_PCT

Floats = npt.NDArray[np.float64]

_HALF_WIDTH = 1.96
"""Half the width of a 95 % interval, in standard errors."""
_LEAST_ERROR = 1e-9
"""Least error of a number, because counters may be equal in all runs."""


class ChangeCause(StrEnum):
    """Cause of a cell's change."""

    KERNEL = "kernel"
    BASELINE = "baseline"
    """The baseline's kernel, which moves the ratios of all other cells."""
    MACHINE = "machine"
    """Machine, driver or versions: baseline and variants moved together."""


@dataclass(frozen=True)
class LevelChange:
    """A new level of a cell."""

    before: int
    """The last run of the old level, by its place in the history."""
    first: int
    """The first run of the new one."""
    ratio: float
    """New level by old one; of durations above 1 is slower."""
    ratio_low: float
    ratio_high: float
    cause: ChangeCause = ChangeCause.KERNEL

    @property
    def is_notable(self) -> bool:
        """Whether a change is reported: half the verdicts' margin or more, and beyond its error."""
        large = abs(math.log(self.ratio)) >= math.log1p(MARGIN_PCT / 100) / 2
        return large and (self.ratio_low > 1 or self.ratio_high < 1)


@dataclass(frozen=True)
class Trend:
    """One cell over the runs."""

    cell: str
    variant: str
    problem: str
    is_baseline: bool
    is_relative: bool
    """Whether the followed number is the ratio to the baseline."""
    answers: Mapping[int, Answer]
    """By the place of the run in the history, the oldest first."""
    changes: tuple[LevelChange, ...] = ()
    cells: int = 1
    """Number of cells in the mean."""

    def value(self, run: int) -> float:
        """The followed number in a run: a ratio or a time."""
        return self.ends(run)[1]

    def ends(self, run: int) -> tuple[float | None, float, float | None]:
        """Low end, followed number and high end of a run; None where the ends are not known."""
        answer = self.answers[run]
        if self.is_relative:
            return answer.ratio_low, answer.ratio or math.nan, answer.ratio_high
        return answer.low, answer.value, answer.high

    @property
    def since(self) -> int:
        """The first run of the present level."""
        return self.changes[-1].first if self.changes else next(iter(self.answers))


def with_changes(trends: Sequence[Trend], metric: str) -> tuple[Trend, ...]:
    """Trends with their changes; trends with the same runs are computed together."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, trend in enumerate(trends):
        if all(trend.value(run) > 0 for run in trend.answers):
            groups.setdefault(tuple(trend.answers), []).append(place)
    followed = list(trends)
    for runs, places in groups.items():
        series = np.array([[math.log(trends[p].value(run)) for run in runs] for p in places])
        errors = np.array([_errors(trends[place], metric) for place in places])
        for place, changes in zip(places, changes_of(series, errors, runs), strict=True):
            followed[place] = replace(trends[place], changes=changes)
    return tuple(followed)


def _errors(trend: Trend, metric: str) -> Floats:
    """Standard error of the log of each number (runs,): from its blocks, or of a session."""
    floor = session_sd(trend, metric)
    widths = np.array([_width(*trend.ends(run)) for run in trend.answers]) / (2 * _HALF_WIDTH)
    # The intervals of runs have the session in them, in quadrature.
    of_blocks = np.sqrt(np.fmax(widths**2 - floor**2, 0.0))
    errors: Floats = np.fmax(of_blocks, max(floor, _LEAST_ERROR))
    return errors


def _width(low: float | None, value: float, high: float | None) -> float:
    return math.log(high / low) if low and high and 0 < low <= value <= high else 0.0


def session_sd(trend: Trend, metric: str) -> float:
    """Standard deviation of unchanged durations between sessions."""
    if metric not in duration_metrics().values():
        return 0.0
    shortest = min(
        answer.value / max(1.0, answer.ratio or 1.0) for answer in trend.answers.values()
    )
    # Where arrays lie differs from problem to problem.
    return float(session_sds(np.array([shortest]))[0]) / math.sqrt(trend.cells)


def changes_of(
    series: Floats, errors: Floats, runs: Sequence[int]
) -> Iterator[tuple[LevelChange, ...]]:
    """Significant changes of each row of logarithms (count, runs).

    `errors` (count, runs): as `change_points` takes them.
    """
    for row, points in zip(series, change_points(series, errors), strict=True):
        level_bounds = (0, *points, len(row))
        changes = (
            _change(row[begin:at], row[at:end], runs[at - 1], runs[at])
            for begin, at, end in zip(
                level_bounds, level_bounds[1:], level_bounds[2:], strict=False
            )
        )
        yield tuple(change for change in changes if change.is_notable)


def _change(older: Floats, newer: Floats, before: int, first: int) -> LevelChange:
    moved = shifts(newer[np.newaxis], older[np.newaxis])
    ratio, low, high = (float(np.exp(end[0])) for end in (moved.middle, moved.low, moved.high))
    return LevelChange(before, first, ratio, low, high)


# ---- what moved a cell: its kernel, the baseline's, or machine, driver and versions --------------


_NEAR = 1
"""Most runs between changes of one event in two series: noise shifts them by one."""
MOST_TOGETHER = 0.5
"""Share of cells moving together above which they have a common cause."""
FEWEST_TOGETHER = 3


def with_causes(trends: Sequence[Trend]) -> tuple[Trend, ...]:
    """Trends with the cause of each change."""
    by_problem: dict[str, list[Trend]] = {}
    for trend in trends:
        by_problem.setdefault(trend.problem, []).append(trend)

    def caused(trend: Trend) -> Trend:
        beside = by_problem[trend.problem]
        changes = (replace(change, cause=_cause(trend, change, beside)) for change in trend.changes)
        return replace(trend, changes=tuple(changes))

    return tuple(map(caused, trends))


def _cause(trend: Trend, change: LevelChange, beside: Sequence[Trend]) -> ChangeCause:
    """Cause of a cell's change, by other changes at its problem at the same time."""
    same_kind = [neighbour for neighbour in beside if neighbour.is_relative == trend.is_relative]
    if trend.is_baseline:
        against = [neighbour for neighbour in beside if neighbour.is_relative]
        share = _share(against, change, lambda ratio: ratio * change.ratio)
        return ChangeCause.BASELINE if share > MOST_TOGETHER else ChangeCause.MACHINE
    if trend.is_relative:
        baseline = [neighbour for neighbour in beside if neighbour.is_baseline]
        moved_share = _share(baseline, change, lambda ratio: ratio * change.ratio)
        together = len(same_kind) >= FEWEST_TOGETHER or moved_share
        common_share = _share(same_kind, change, lambda ratio: ratio / change.ratio)
        return (
            ChangeCause.BASELINE
            if moved_share and together and common_share > MOST_TOGETHER
            else ChangeCause.KERNEL
        )
    common_share = _share(same_kind, change, lambda ratio: ratio / change.ratio)
    together = len(same_kind) >= FEWEST_TOGETHER and common_share > MOST_TOGETHER
    return ChangeCause.MACHINE if together else ChangeCause.KERNEL


def _share(
    trends: Sequence[Trend], change: LevelChange, remaining_ratio: Callable[[float], float]
) -> float:
    """Share of trends that changed at the same time with a small `remaining_ratio`."""
    if not trends:
        return 0.0
    small_log = abs(math.log(change.ratio)) / 2
    moved_alike = [
        any(
            abs(other_change.first - change.first) <= _NEAR
            and abs(math.log(remaining_ratio(other_change.ratio))) <= small_log
            for other_change in trend.changes
        )
        for trend in trends
    ]
    return sum(moved_alike) / len(moved_alike)


# ---- over the runs of an experiment --------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """The runs of one experiment on one kind of machine, the oldest first."""

    experiment: str
    metric: str
    machine: str
    runs: tuple[HistoryRun, ...]
    trends: tuple[Trend, ...]
    variants: tuple[Trend, ...]
    """A trend of each variant over its problems, if several: common changes stand out of the noise
    of each."""
    other_machines: tuple[str, ...]
    """Kinds of machines of its runs that are left out."""
    redefined: tuple[str, ...]
    """Names of problems that had other parameters in earlier runs, which no trend has."""

    @property
    def changed(self) -> tuple[Trend, ...]:
        """Trends whose level changed: variants over their problems, then cells."""
        return tuple(trend for trend in (*self.variants, *self.trends) if trend.changes)

    def differences(self, older_run: int, newer_run: int) -> Iterator[str]:
        """Differences of two runs in words: commit, card, versions."""
        older, newer = self.runs[older_run], self.runs[newer_run]
        if older.commit != newer.commit:
            yield f"commit {older.commit or 'unknown'} \u2192 {newer.commit or 'unknown'}"
        if older.card.lower() != newer.card.lower():
            yield "another card"
        for field in sorted({*older.versions, *newer.versions}):
            before, after = older.versions.get(field), newer.versions.get(field)
            if before != after and before and after:
                yield f"{field} {before} \u2192 {after}"


def find_history(
    runs: Sequence[HistoryRun], metric: str, machine: str | None = None
) -> History | None:
    """History with trends of every cell; None where no run has the metric.

    `machine`: part of the name of a kind of machine; None: the newest run's kind.
    """
    kinds = list(dict.fromkeys(run.machine for run in reversed(runs)))
    matching_kinds = [kind for kind in kinds if machine is None or machine.lower() in kind.lower()]
    if not matching_kinds:
        return None
    of_machine = [run for run in runs if run.machine == matching_kinds[0]][-MOST_RUNS:]
    params = {name: text for run in of_machine for name, text in run.problems.items()}
    redefined: dict[str, None] = {}
    for place, run in enumerate(of_machine):
        others = {name for name, text in run.problems.items() if text != params[name]}
        redefined |= dict.fromkeys(sorted(others))
        answers = tuple(answer for answer in run.answers if answer.problem not in others)
        of_machine[place] = replace(run, answers=answers)
    trends = tuple(_trends(of_machine))
    return History(
        experiment=of_machine[-1].experiment,
        metric=metric,
        machine=matching_kinds[0],
        runs=tuple(of_machine),
        trends=with_causes(with_changes(trends, metric)),
        variants=with_causes(with_changes(tuple(_variant_trends(trends)), metric)),
        other_machines=tuple(kind for kind in kinds if kind != matching_kinds[0]),
        redefined=tuple(redefined),
    )


def _trends(runs: Sequence[HistoryRun]) -> Iterable[Trend]:
    by_cell: dict[str, dict[int, Answer]] = {}
    for number, run in enumerate(runs):
        for answer in run.answers:
            by_cell.setdefault(answer.cell, {})[number] = answer
    baselines = [run.baseline for run in runs]
    for cell, answers in by_cell.items():
        newest = answers[max(answers)]
        used_baselines = {baselines[number] for number in answers}
        baseline = used_baselines.pop() if len(used_baselines) == 1 else None
        is_baseline = baseline is not None and cell.startswith(f"{baseline}..")
        has_ratios = all((answer.ratio or 0) > 0 for answer in answers.values())
        relative = baseline is not None and not is_baseline and has_ratios
        yield Trend(cell, newest.variant, newest.problem, is_baseline, relative, answers)


def _variant_trends(trends: Sequence[Trend]) -> Iterator[Trend]:
    """Trends of the geometric mean ratio to the baseline, for variants with several problems."""
    groups: dict[tuple[str, tuple[int, ...]], list[Trend]] = {}
    for trend in trends:
        if trend.is_relative:
            groups.setdefault((trend.variant, tuple(trend.answers)), []).append(trend)
    for (variant, runs), cells in groups.items():
        if len(cells) > 1:
            problem = f"over {len(cells)} problems"
            answers = {run: _mean([cell.answers[run] for cell in cells], problem) for run in runs}
            yield Trend("", variant, problem, False, True, answers, cells=len(cells))


def _mean(answers: Sequence[Answer], problem: str) -> Answer:
    """Geometric means of a run's ratios, whose errors are independent, and of its times."""
    ratios = [(answer.ratio, answer.ratio_low, answer.ratio_high) for answer in answers]
    middles, lows, highs = np.log([[end or math.nan for end in ends] for ends in ratios]).T
    middle = middles.mean()
    low = middle - np.hypot.reduce(middles - lows) / len(answers)
    high = middle + np.hypot.reduce(highs - middles) / len(answers)
    return answers[0]._replace(
        problem=problem,
        value=geometric_mean(answer.value for answer in answers),
        low=None,
        high=None,
        ratio=math.exp(middle),
        ratio_low=math.exp(low) if math.isfinite(low) else None,
        ratio_high=math.exp(high) if math.isfinite(high) else None,
        verdict=None,
    )


# ---- the newest run, or the base of a gate, against its own past ---------------------------------


_CELL_MARGIN = 0.03
"""By which one cell of one run has to be off: 504 unchanged ones on seven cards were by 2.8 % at
most (benchmarks/history), and no other run says that it is still so."""
_PAST_RUNS = 20
"""Most earlier runs that define usual values."""
_MACHINE_MARGIN = 0.02
"""Change of a baseline against its own past, over its cells: cards of one model differ by less."""


@dataclass(frozen=True)
class Control:
    """The newest run against the runs before it."""

    past_runs: int
    """Number of earlier runs that define usual values."""
    baseline: float | None
    """Its baseline's time by the usual one, geometric mean over the problems; None without one."""
    baseline_moved: bool
    """Whether that is further than sessions differ by."""
    moved_cells: tuple[tuple[Trend, float], ...]
    """Cells whose ratio (time, without a baseline) is off, by how much, the slowest first."""
    cells: int
    noise_floor: float | None
    usual_noise_floor: float | None
    """A/A noise floor of the baseline in the newest run, and usually."""

    @property
    def cause(self) -> ChangeCause | None:
        """Machine, baseline or kernel, whichever moved; None without a change."""
        most = (
            len(self.moved_cells) > MOST_TOGETHER * self.cells
            and len(self.moved_cells) >= FEWEST_TOGETHER
        )
        if not self.moved_cells and not self.baseline_moved:
            return None
        if self.baseline is None:
            return ChangeCause.MACHINE if most else ChangeCause.KERNEL
        if self.baseline_moved:
            against = most and all((r < 1) == (self.baseline > 1) for _, r in self.moved_cells)
            return ChangeCause.BASELINE if against else ChangeCause.MACHINE
        return ChangeCause.KERNEL


def find_control(history: History) -> Control | None:
    """Unusual changes in the newest run; None without an earlier run."""
    newest = len(history.runs) - 1
    deviations: list[tuple[Trend, float, bool]] = []
    for trend in history.trends:
        past_runs = [run for run in trend.answers if trend.since <= run < newest][-_PAST_RUNS:]
        if newest not in trend.answers or trend.since == newest:
            past_runs = []
        values = np.array([trend.value(run) for run in past_runs])
        if not len(values) or not (values > 0).all() or not trend.value(newest) > 0:
            continue
        usual_logs = np.log(values)
        log_off = math.log(trend.value(newest)) - float(np.median(usual_logs))
        spread = DEVIATION_OF_MAD * float(np.median(np.abs(usual_logs - np.median(usual_logs))))
        errors = dict(zip(trend.answers, _errors(trend, history.metric), strict=True))
        of_past = float(np.median([errors[run] for run in past_runs])) / math.sqrt(len(values))
        scatter = max(math.hypot(errors[newest], of_past), spread)
        margin = MARGIN_PCT / 100 if trend.is_baseline else _CELL_MARGIN
        limit = max(COVERED * scatter, math.log1p(margin))
        deviations.append((trend, log_off, abs(log_off) > limit))
    if not deviations:
        return None
    baselines = [(off, is_beyond) for trend, off, is_beyond in deviations if trend.is_baseline]
    cells = [deviation for deviation in deviations if not deviation[0].is_baseline]
    moved = [(trend, math.exp(off)) for trend, off, is_beyond in cells if is_beyond]
    floors = [_noise_floor(history, run) for run in range(newest + 1)]
    earlier_floors = [floor for floor in floors[:-1] if floor is not None]
    return Control(
        past_runs=newest,
        baseline=math.exp(np.mean([off for off, _ in baselines])) if baselines else None,
        baseline_moved=2 * sum(is_beyond for _, is_beyond in baselines) > len(baselines),
        moved_cells=tuple(sorted(moved, key=lambda pair: -pair[1])),
        cells=len(cells),
        noise_floor=floors[-1],
        usual_noise_floor=float(np.median(earlier_floors)) if earlier_floors else None,
    )


def _noise_floor(history: History, run: int) -> float | None:
    """Median A/A noise floor of a run over its cells."""
    of_run = (trend.answers.get(run) for trend in history.trends)
    floors = [answer.noise_floor for answer in of_run if answer and answer.noise_floor is not None]
    return float(np.median(floors)) if floors else None


# ---- two revisions of one session ----------------------------------------------------------------


def moved_together(ratios: Sequence[float], cells: int) -> Iterator[tuple[int, float]]:
    """Number and mean ratio of cells that moved to one side, if most of `cells` did.

    `ratios`: of the cells that moved.
    """
    for side in (
        [ratio for ratio in ratios if ratio > 1],
        [ratio for ratio in ratios if ratio < 1],
    ):
        if len(side) >= FEWEST_TOGETHER and len(side) > MOST_TOGETHER * cells:
            yield len(side), math.exp(float(np.mean(np.log(side))))


def by_usual(times: Mapping[tuple[str, str], float], history: History) -> float | None:
    """Median ratio of times to the cells' usual times; None without usual times.

    `times`: by variant and problem. Usual is the median of a cell's level of today.
    """
    logarithms = []
    for trend in history.trends:
        runs = [run for run in trend.answers if run >= trend.since][-_PAST_RUNS:]
        usual_time = float(np.median([trend.answers[run].value for run in runs]))
        time = times.get((trend.variant, trend.problem), 0.0)
        if time > 0:
            logarithms.append(math.log(time / usual_time))
    return math.exp(float(np.median(logarithms))) if logarithms else None


def is_usual(factor: float) -> bool:
    """Whether a ratio to the usual times is consistent with the same machine."""
    return abs(math.log(factor)) <= math.log1p(_MACHINE_MARGIN)
