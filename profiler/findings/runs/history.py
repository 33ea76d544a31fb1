"""The best of an experiment over its runs, and whether a run is slower than the one before it.

From the numbers that each run has printed, not from its samples: `profiler compare` asks those.
Both use the ratio to the baseline of the same run, so that what slows a whole run moves neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.comparison.run_entries import ProblemBest, RunEntry
from profiler.model import MARGIN_PCT, Verdict


@dataclass(frozen=True)
class BestChange:
    """The best of each problem in a run relative to the run before it."""

    older: RunEntry
    verdicts: Mapping[str, Verdict]
    """By problem; those that both runs have."""
    worst: float
    """Largest ratio newer ÷ older of a problem that is SLOWER, else of all."""

    @property
    def slower(self) -> int:
        """Number of problems whose best became slower."""
        return sum(verdict is Verdict.SLOWER for verdict in self.verdicts.values())

    @property
    def verdict(self) -> Verdict:
        """SLOWER where a problem is, else FASTER where one is; SAME only where all are."""
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR):
            if verdict in self.verdicts.values():
                return verdict
        return Verdict.SAME


@dataclass(frozen=True)
class BestPoint:
    """Geometric mean over the problems of a run: the best relative to the baseline."""

    entry: RunEntry
    ratio: float
    low: float
    high: float
    """95 % interval: errors at different problems are independent."""


def changes(entries: Sequence[RunEntry]) -> dict[str, BestChange]:
    """Change of each run, by its folder, to the run before it with which it can be compared.

    `entries` are those of one experiment, the newest first. Replays are left out.
    """
    found: dict[str, BestChange] = {}
    # The newest run so far by what makes runs comparable: walking back over all takes n².
    newest: dict[tuple[object, ...], tuple[int, RunEntry]] = {}
    for number, entry in enumerate(reversed([entry for entry in entries if not entry.replayed])):
        if entry.baseline is None:
            continue
        keys = [(entry.settings, entry.baseline, problem) for problem in _problems(entry)]
        before = max((newest[key] for key in keys if key in newest), key=_number, default=None)
        if before is not None:
            found[entry.folder] = _change(before[1], entry)
        newest.update(dict.fromkeys(keys, (number, entry)))
    return found


def _number(numbered: tuple[int, RunEntry]) -> int:
    return numbered[0]


def _problems(entry: RunEntry) -> set[str]:
    return {best.problem for best in entry.best}


def _question(entry: RunEntry) -> tuple[object, ...]:
    return entry.settings, entry.baseline, _problems(entry)


def _change(older: RunEntry, newer: RunEntry) -> BestChange:
    before = {best.problem: best for best in older.best}
    pairs = [(before[best.problem], best) for best in newer.best if best.problem in before]
    verdicts = {best.problem: _verdict(first, best) for first, best in pairs}
    ratios = {best.problem: best.ratio / first.ratio for first, best in pairs}
    slower = [ratios[name] for name in ratios if verdicts[name] is Verdict.SLOWER]
    return BestChange(older, verdicts, max(slower or ratios.values()))


def _verdict(older: ProblemBest, newer: ProblemBest) -> Verdict:
    """FASTER or SLOWER where the intervals lie further apart than the margin.

    The margin is that of verdicts within a run, with the noise floors of both runs added as
    independent errors are. Intervals that must not touch ask for more than a test would.
    """
    floors = math.hypot(math.log1p(older.noise_floor), math.log1p(newer.noise_floor))
    margin = math.exp(max(math.log1p(MARGIN_PCT / 100), floors))
    low, high = newer.low / older.high, newer.high / older.low
    if low > margin:
        return Verdict.SLOWER
    if high < 1 / margin:
        return Verdict.FASTER
    return Verdict.SAME if 1 / margin < low <= high < margin else Verdict.UNCLEAR


def best_over_time(entries: Sequence[RunEntry]) -> tuple[BestPoint, ...]:
    """The runs of one experiment that ask what its newest asks, the oldest first.

    That is: on the same problems, against the same baseline, under the same settings.
    """
    measured = [entry for entry in entries if entry.best and not entry.replayed]
    if not measured:
        return ()
    asked = _question(measured[0])
    alike = [entry for entry in measured if _question(entry) == asked]
    return tuple(point_of(entry) for entry in reversed(alike))


def point_of(entry: RunEntry) -> BestPoint:
    """The best of a run over its problems; the run must have some."""
    count = len(entry.best)
    middle = sum(math.log(best.ratio) for best in entry.best) / count
    below = math.hypot(*(math.log(best.ratio / best.low) for best in entry.best)) / count
    above = math.hypot(*(math.log(best.high / best.ratio) for best in entry.best)) / count
    return BestPoint(entry, math.exp(middle), math.exp(middle - below), math.exp(middle + above))
