"""How often `profiler bisect` names the right commit, on histories whose truth is known.

A stand-in takes the place of measuring: visits scatter by 0.5 %, one in twenty takes longer, and a
session shifts all durations together. Verdicts are those of runs, by the same function.

    python benchmarks/history/bisections.py [--histories N]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.analyse.verdicts import compare
from profiler.model import Verdict
from profiler.revisions.bisection import Bisection, CommitChange, Survey, bisect

SEED = 20261128
COMMITS = 33
SCATTER = 0.005
"""Of the ratio of two visits of a block, relative."""
SPIKE_SHARE, SPIKE_SIZE = 0.05, 0.05
SIZE = 0.02
"""Of a culprit."""
LOOKS = (8, 16, 32)
"""Numbers of blocks after which a session is judged."""
OFFSET = 0.001
"""Deviation of a kernel by where its memory lies in a session, from 50 µs on (docs/verdicts.md)."""


@dataclass
class History:
    """Durations of commits, as logarithms, and which of them fail to build."""

    levels: np.ndarray
    broken: frozenset[int] = frozenset()
    drift: float = 0.005
    """Standard deviation of what a session does to all durations alike."""
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    sessions: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    """What was measured, with the number of the attempt."""

    def prepare(self, places: Sequence[int]) -> list[str | None]:
        """A program of its own for each commit that builds."""
        return [None if place in self.broken else f"program {place}" for place in places]

    def measure(self, places: Sequence[int], attempt: int) -> Survey:
        """One session of interleaved blocks, judged by the verdicts of runs."""
        self.sessions.append((tuple(places), attempt))
        blocks = LOOKS[-1] * (2 if attempt else 1)
        shape = (len(places), blocks)
        spikes = self.generator.uniform(size=shape) < SPIKE_SHARE
        noise = self.generator.normal(0, SCATTER / math.sqrt(2), shape)
        noise += spikes * self.generator.exponential(SPIKE_SIZE, shape)
        times = self.levels[list(places)][:, None] + noise + self.generator.normal(0, self.drift)
        times += self.generator.normal(0, OFFSET, (len(places), 1))
        looks = (*(count for count in LOOKS if count < blocks), blocks)
        for look in looks:
            ratios = np.diff(times[:, :look], axis=0)
            changes = judged([*ratios, times[-1, :look] - times[0, :look]], len(looks))
            if not any(change.is_open for change in changes):
                break
        return Survey(tuple(changes[:-1]), changes[-1])


def judged(log_ratios: Sequence[np.ndarray], looks: int) -> list[CommitChange]:
    """Changes by the log ratios of blocks, judged together."""
    frame = pd.concat(
        [pd.DataFrame({"pair": pair, "log_ratio": row}) for pair, row in enumerate(log_ratios)]
    )
    pairs = pd.DataFrame({"session_sd": OFFSET}, index=range(len(log_ratios)))
    verdicts = compare(frame, pairs, looks=looks)
    return [
        CommitChange(Verdict(row.verdict), row.ratio, row.ratio_low, row.ratio_high)
        for row in verdicts.itertuples()
    ]


def one_culprit(generator: np.random.Generator, size: float) -> tuple[np.ndarray, set[int]]:
    """Levels of a history with one culprit, and its place."""
    place = int(generator.integers(1, COMMITS))
    levels = np.zeros(COMMITS)
    levels[place:] += math.log1p(size)
    return levels, {place}


def two_culprits(generator: np.random.Generator, size: float) -> tuple[np.ndarray, set[int]]:
    """Levels of a history with two culprits, and their places."""
    places = generator.choice(np.arange(1, COMMITS), 2, replace=False)
    levels = np.zeros(COMMITS)
    for place in places:
        levels[place:] += math.log1p(size)
    return levels, {int(place) for place in places}


def reverted(generator: np.random.Generator, size: float) -> tuple[np.ndarray, set[int]]:
    """Levels with a culprit that is reverted and lands again, 5 commits or more apart."""
    first = int(generator.integers(1, COMMITS - 10))
    back = int(generator.integers(first + 5, COMMITS - 5))
    again = int(generator.integers(back + 5, COMMITS))
    levels = np.zeros(COMMITS)
    for place, sign in ((first, 1), (back, -1), (again, 1)):
        levels[place:] += sign * math.log1p(size)
    return levels, {first, again}


def no_culprit(generator: np.random.Generator, size: float) -> tuple[np.ndarray, set[int]]:
    """Levels of a history in which nothing changed."""
    del generator, size
    return np.zeros(COMMITS), set()


Kind = Callable[[np.random.Generator, float], tuple[np.ndarray, set[int]]]


@dataclass(frozen=True)
class Score:
    """How bisections of histories of one kind ended."""

    histories: int
    found: int
    """Histories whose culprits were all named, and no other commit."""
    wrong: int
    """Histories in which a commit was named that is no culprit."""
    sessions: tuple[int, ...]


def scored(kind: Kind, histories: int, *, size: float, drift: float, failing: int = 0) -> Score:
    """Bisect histories of a kind; culprits do not fail to build."""
    outcomes: Counter[str] = Counter()
    sessions = []
    for number in range(histories):
        generator = np.random.default_rng([SEED, number])
        levels, culprits = kind(generator, size)
        others = [place for place in range(1, COMMITS - 1) if not is_needed(place, culprits)]
        broken = frozenset(generator.choice(others, failing, replace=False).tolist())
        history = History(levels, broken, drift, generator)
        found = bisect(COMMITS, history.prepare, history.measure)
        named = {step.after for step in found.culprits}
        outcomes["found"] += named == culprits
        outcomes["wrong"] += bool(named - culprits)
        sessions.append(found.sessions)
    return Score(histories, outcomes["found"], outcomes["wrong"], tuple(sessions))


def is_needed(place: int, culprits: set[int]) -> bool:
    """Whether a commit has to build for a culprit to be told from its neighbours."""
    return place in culprits or place + 1 in culprits


KINDS: Mapping[str, tuple[Kind, int, int]] = {
    "one culprit": (one_culprit, 500, 0),
    "three commits that do not build": (one_culprit, 200, 3),
    "reverted and landed again": (reverted, 200, 0),
    "two culprits": (two_culprits, 200, 0),
    "no culprit": (no_culprit, 200, 0),
}
"""Kind, how many histories, and how many of their commits fail."""


def outcome(bisection: Bisection) -> tuple[tuple[int, int, str], ...]:
    """What a bisection says, without its numbers."""
    return tuple((step.before, step.after, step.state.value) for step in bisection.steps)


def main() -> None:
    """Print a table of all kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=None)
    asked = parser.parse_args().histories
    print("| history | drift of a run | named, and no other | a wrong one named | sessions |")
    print("|---|---|---|---|---|")
    for name, (kind, histories, failing) in KINDS.items():
        for drift in (0.005, 0.01):
            score = scored(kind, asked or histories, size=SIZE, drift=drift, failing=failing)
            print(
                f"| {name} | {100 * drift:g} % | {score.found} of {score.histories} | "
                f"{score.wrong} | {np.median(score.sessions):g}, {max(score.sessions)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
