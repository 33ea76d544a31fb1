"""How often each rule is wrong, on times whose truth is known.

Times are drawn as GPUs give them: noise with a long right tail, some visits that take much longer,
and a drift over the run. Cycles share a part of all that. The rules see nothing else.

    python benchmarks/verdicts/simulate.py [--trials N] [--csv PATH]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from profiler.analyse.verdicts import (  # noqa: E402 - the path has to be set first
    LOOKS,
    compare,
    find_contenders,
    noise_floors,
    undecided_pairs,
)
from profiler.model import Verdict  # noqa: E402

Floats = npt.NDArray[np.float64]
Verdicts = npt.NDArray[np.object_]

SEED = 20260101
EFFECTS = (0.0, 0.01, 0.02, 0.05)
"""How much slower the candidate is."""
FAMILY = 80
"""Variants of the largest sweep that the project ships."""
MOST = max(LOOKS)
FALSE_BAR, FOUND_BAR = 0.01, 0.95

SPIKE_SIZE, SLOW_SIZE = 0.05, 0.3
"""How much longer visits of a tail take on average, and those of a second mode."""
LARGEST_DRIFT = 0.02
SHARED = 0.5
"""Share of the noise and of the drift that cycles see too; the rest is the clock."""


@dataclass(frozen=True)
class Machine:
    """Noise of the simulated times."""

    name: str
    scatter: float
    """Standard deviation of one visit, relative. Recordings on an H200: 0.0004 to 0.006 for the
    kernels of attention, 0.001 to 0.012 for softmax above 5 µs, 0.02 below."""
    ticks: float = 0.0
    """Step of the timer, relative to the duration: ncu counts in steps of 32 ns."""
    spike_share: float = 0.05
    """Share of the visits that take longer, on average by 5 %."""
    slow_share: float = 0.0
    """Share of the visits in a second mode, 30 % slower."""


TYPICAL = Machine("typical", 0.005)
OTHERS = (
    Machine("quiet, 0.1 %", 0.001),
    Machine("noisy, 1 %", 0.01),
    Machine("5 µs kernel, 2 % and 32 ns ticks", 0.02, 32 / 5000),
)


@dataclass(frozen=True)
class Measured:
    """Logarithms of times and cycles, each (trials, arms, blocks)."""

    time: Floats
    cycles: Floats


def measure(
    generator: np.random.Generator, speeds: Floats, when: Floats, machine: Machine = TYPICAL
) -> Measured:
    """Times of arms that take `speeds` (trials, arms), visited at `when` (trials, arms, blocks)."""

    def noise(share: float) -> Floats:
        # Two exponential delays: skewness 1.4.
        size = float(np.sqrt(share / 2)) * machine.scatter
        return generator.gamma(2, size, when.shape)

    spikes = generator.exponential(SPIKE_SIZE, when.shape)
    spikes *= generator.random(when.shape) < machine.spike_share
    if machine.slow_share:
        slow = generator.random(when.shape) < machine.slow_share
        spikes += np.log1p(SLOW_SIZE) * slow
    drift = generator.uniform(0, LARGEST_DRIFT, (len(when), 1, 1)) * when
    both = np.log(speeds)[:, :, np.newaxis] + spikes + noise(SHARED) + SHARED * drift
    time = both + noise(1 - SHARED) + (1 - SHARED) * drift
    cycles = both + noise((1 - SHARED) / 2)
    if machine.ticks:
        time = np.log(np.rint(np.exp(time) / machine.ticks) * machine.ticks)
    return Measured(time, cycles)


def interleaved(
    generator: np.random.Generator, trials: int, arms: int, batches: Sequence[int]
) -> Floats:
    """When each arm is visited, 0 to 1: every arm once per block, in random order."""
    blocks = sum(batches)
    within = generator.permuted(np.tile(np.arange(arms), (trials, blocks, 1)), axis=2)
    slots = within.transpose(0, 2, 1) + arms * np.arange(blocks)
    return slots / (arms * blocks)


def one_after_the_other(
    generator: np.random.Generator,  # noqa: ARG001 - one signature for both orders
    trials: int,
    arms: int,
    batches: Sequence[int],
) -> Floats:
    """When each arm is visited, 0 to 1: all of A and then all of B, within each batch of blocks."""
    parts = []
    for start, size in zip(np.cumsum([0, *batches]), batches, strict=False):
        parts.append(arms * start + np.arange(arms * size).reshape(arms, size))
    slots = np.concatenate(parts, axis=1) / (arms * sum(batches))
    return np.broadcast_to(slots, (trials, *slots.shape))


Order = Callable[[np.random.Generator, int, int, Sequence[int]], Floats]
ORDERS: dict[str, Order] = {
    "interleaved": interleaved,
    "all A, then all B": one_after_the_other,
}


# The rules of others, on two arms: 0 is the reference, 1 the candidate.


def decided(faster: npt.NDArray[np.bool_], slower: npt.NDArray[np.bool_]) -> Verdicts:
    """Verdicts of a rule that calls everything else the same."""
    verdicts = np.empty(len(faster), dtype=object)
    verdicts.fill(Verdict.SAME)
    verdicts[faster] = Verdict.FASTER
    verdicts[slower] = Verdict.SLOWER
    return verdicts


def plain_mean(measured: Measured) -> Verdicts:
    """Another mean by more than 1 %."""
    mean = np.exp(measured.time).mean(axis=2)
    change = mean[:, 1] / mean[:, 0] - 1
    return decided(change < -0.01, change > 0.01)


def nvbench_legacy(measured: Measured) -> Verdicts:
    """Another mean by more than the smaller relative standard deviation.

    nvbench_compare_legacy.py of NVIDIA/nvbench; so described in its issue #316.
    """
    times = np.exp(measured.time)
    mean = times.mean(axis=2)
    noise = (times.std(axis=2, ddof=1) / mean).min(axis=1)
    change = mean[:, 1] / mean[:, 0] - 1
    return decided(change < -noise, change > noise)


NVBENCH_GAP = 0.005
NVBENCH_TOLERANCE = np.log1p(0.005)
NVBENCH_COVERAGE = 0.97


def nvbench_robust(measured: Measured) -> Verdicts:
    """Disjoint intervals from minimum to third quartile, in time and in cycles.

    nvbench_compare_robust.py of NVIDIA/nvbench with its default preset, as its page
    docs/nvbench_compare_robust.md (pull request #386) describes it for runs with `--jsonbin`:
    FAST and SLOW need a gap of 0.5 % in both, SAME needs 97 % of the samples of either run within
    0.5 % of one of the other in both; all else is ambiguous.
    """
    sides = [_gap(log) for log in (measured.time, measured.cycles)]
    verdicts = decided(
        (sides[0] < 0) & (sides[1] < 0),
        (sides[0] > 0) & (sides[1] > 0),
    )
    covered = _covered(measured.time) & _covered(measured.cycles)
    verdicts[(sides[0] != 0) & (verdicts == Verdict.SAME)] = Verdict.UNCLEAR
    verdicts[(sides[0] == 0) & ~covered] = Verdict.UNCLEAR
    return verdicts


def _gap(log: Floats) -> npt.NDArray[np.int64]:
    """-1 where the candidate's interval is clearly below, +1 where it is above, else 0."""
    low, high = log.min(axis=2), np.quantile(log, 0.75, axis=2, method="nearest")
    below = low[:, 0] - high[:, 1] >= np.log1p(NVBENCH_GAP)
    above = low[:, 1] - high[:, 0] >= np.log1p(NVBENCH_GAP)
    sides: npt.NDArray[np.int64] = above.astype(np.int64) - below.astype(np.int64)
    return sides


def _covered(log: Floats) -> npt.NDArray[np.bool_]:
    distance = np.abs(log[:, 0, :, np.newaxis] - log[:, 1, np.newaxis, :])
    shares = [(distance.min(axis=axis) <= NVBENCH_TOLERANCE).mean(axis=1) for axis in (1, 2)]
    covered: npt.NDArray[np.bool_] = np.minimum(*shares) >= NVBENCH_COVERAGE
    return covered


RULES: dict[str, Callable[[Measured], Verdicts]] = {
    "plain mean, 1 %": plain_mean,
    "NVBench legacy": nvbench_legacy,
    "NVBench robust": nvbench_robust,
}


# Ours: A and A' are the first two arms, every further one is a candidate.


def sequential(measured: Measured) -> tuple[Verdicts, npt.NDArray[np.int64]]:
    """Verdicts and blocks used, each (trials, candidates); the candidates of a trial are a family.

    After each look the open pairs go on. A and A' are in every block that any pair of the trial is.
    """
    trials, arms, _ = measured.time.shape
    count = trials * (arms - 2)
    trial = np.repeat(np.arange(trials), arms - 2)
    used = np.full(count, LOOKS[0])
    for look in LOOKS:
        floors = [_floors(log, look) for log in (measured.time, measured.cycles)]
        blocks = pd.concat(
            [_blocks(measured, np.flatnonzero(used == size), size) for size in np.unique(used)]
        )
        pairs = pd.DataFrame(
            {
                "noise_floor": floors[0][trial],
                "cycles_noise_floor": floors[1][trial],
                "family": trial,
            }
        )
        verdicts = compare(blocks, pairs, looks=len(LOOKS))
        if look == MOST:
            break
        used[undecided_pairs(verdicts).to_numpy()] = LOOKS[LOOKS.index(look) + 1]
    shape = (trials, arms - 2)
    return verdicts["verdict"].to_numpy().reshape(shape), used.reshape(shape)


def _floors(log: Floats, blocks: int) -> Floats:
    differences = log[:, 1, :blocks] - log[:, 0, :blocks]
    trial = np.repeat(np.arange(len(log)), blocks)
    return noise_floors(pd.Series(differences.ravel()), pd.Series(trial)).to_numpy()


def _blocks(measured: Measured, pairs: npt.NDArray[np.int64], size: int) -> pd.DataFrame:
    trial, candidate = np.divmod(pairs, measured.time.shape[1] - 2)

    def ratios(log: Floats) -> Floats:
        return (log[trial, candidate + 2, :size] - log[trial, 0, :size]).ravel()

    return pd.DataFrame(
        {
            "pair": np.repeat(pairs, size),
            "block": np.tile(np.arange(size), len(pairs)),
            "log_ratio": ratios(measured.time),
            "log_cycles": ratios(measured.cycles),
        }
    )


BATCHES = tuple(np.diff([0, *LOOKS]).tolist())
"""Blocks that each look adds."""


@dataclass(frozen=True)
class Row:
    """One rule on one kind of data: a line of the CSV."""

    rule: str
    order: str
    machine: str
    effect: float
    comparisons: int
    faster: float
    slower: float
    same: float
    unclear: float
    blocks: float


def summarised(
    names: tuple[str, str, str], effect: float, verdicts: Verdicts, blocks: float
) -> Row:
    """Shares of the verdicts."""

    def share(verdict: Verdict) -> float:
        return float((verdicts == verdict).mean())

    return Row(
        *names,
        effect=effect,
        comparisons=verdicts.size,
        faster=share(Verdict.FASTER),
        slower=share(Verdict.SLOWER),
        same=share(Verdict.SAME),
        unclear=share(Verdict.UNCLEAR),
        blocks=blocks,
    )


def ours(
    generator: np.random.Generator, order: str, trials: int, effect: float, machine: Machine
) -> Row:
    """One pair a trial, judged by the looks."""
    speeds = np.tile([1.0, 1.0, 1.0 + effect], (trials, 1))
    when = ORDERS[order](generator, trials, 3, BATCHES)
    verdicts, used = sequential(measure(generator, speeds, when, machine))
    return summarised(("this project", order, machine.name), effect, verdicts, float(used.mean()))


def ours_of_many(
    generator: np.random.Generator, trials: int, different: int, effect: float
) -> tuple[Row, float]:
    """80 pairs a trial, of which some differ: how these are judged.

    Also the share of trials that call at least one of the other pairs FASTER or SLOWER.
    """
    speeds = np.ones((trials, FAMILY + 2))
    speeds[:, 2 : 2 + different] += effect
    when = interleaved(generator, trials, FAMILY + 2, BATCHES)
    verdicts, used = sequential(measure(generator, speeds, when))
    equal = verdicts[:, different:] if effect else verdicts
    wrong = ((equal == Verdict.FASTER) | (equal == Verdict.SLOWER)).any(axis=1).mean()
    judged = verdicts[:, :different] if effect else verdicts
    name = f"this project, {different} of {FAMILY} pairs differ"
    names = (name, "interleaved", TYPICAL.name)
    return summarised(names, effect, judged, float(used.mean())), float(wrong)


def theirs(
    generator: np.random.Generator, which: tuple[str, str, int], trials: int, effect: float
) -> Row:
    """A rule of others in an order, with a fixed number of samples a side."""
    rule, order, size = which
    speeds = np.tile([1.0, 1.0 + effect], (trials, 1))
    verdicts = RULES[rule](measure(generator, speeds, ORDERS[order](generator, trials, 2, [size])))
    return summarised((rule, order, TYPICAL.name), effect, verdicts, size)


@dataclass(frozen=True)
class Race:
    """Result of sweeps of 80 variants in which only contenders go on."""

    launches: float
    """Share of the launches of 32 blocks for everyone."""
    in_the_end: float
    """Contenders after the last look."""
    fastest_stays: float
    """Share of the sweeps in which the truly fastest variant never left."""


def race(generator: np.random.Generator, trials: int, spread: float) -> Race:
    """Sweeps whose variants have speeds with this standard deviation (of the logarithm)."""
    speeds = np.exp(generator.normal(0, spread, (trials, FAMILY)))
    when = interleaved(generator, trials, FAMILY, BATCHES)
    times = np.exp(measure(generator, speeds, when).time)
    running = np.ones((trials, FAMILY), dtype=bool)
    launches = 0
    for look, batch in zip(LOOKS, BATCHES, strict=True):
        launches += int(running.sum()) * batch
        trial, variant = np.nonzero(running)
        frame = pd.DataFrame(
            {
                "problem": np.repeat(trial, look),
                "variant": np.repeat(variant, look),
                "block": np.tile(np.arange(look), len(trial)),
                "duration_ns": times[trial, variant, :look].ravel(),
            }
        )
        contenders = find_contenders(frame)
        left = contenders[~contenders["contender"]]
        running[left["problem"], left["variant"]] = False
    best = running[np.arange(trials), speeds.argmin(axis=1)]
    share = launches / (trials * FAMILY * MOST)
    return Race(share, float(running.sum(axis=1).mean()), float(best.mean()))


def table(rows: Sequence[Row]) -> str:
    """The rows of each rule, order and number of samples as one line of Markdown."""
    head = [
        "rule",
        "order",
        "blocks: A/A; 2 %",
        "A/A called FASTER or SLOWER",
        "A/A called SAME",
        *(f"{100 * effect:.0f} % slower found" for effect in EFFECTS[1:]),
    ]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    groups: dict[tuple[str, str, float], dict[float, Row]] = {}
    for row in rows:
        fixed = 0.0 if row.rule.startswith("this project") else row.blocks
        rule = row.rule if row.machine == TYPICAL.name else f"{row.rule}; {row.machine}"
        groups.setdefault((rule, row.order, fixed), {})[row.effect] = row
    for (rule, order, _), group in groups.items():
        null = group[0.0]
        cells = [
            rule,
            order,
            f"{null.blocks:.1f}; {group[0.02].blocks:.1f}",
            f"{100 * (null.faster + null.slower):.2f} %",
            f"{100 * null.same:.1f} %",
            *(f"{100 * group[effect].slower:.1f} %" for effect in EFFECTS[1:]),
        ]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


SPREADS = (0.0, 0.01, 0.02, 0.05, 0.2)


def races(generator: np.random.Generator, trials: int) -> str:
    """Races by the spread of the variants, as a Markdown table."""
    lines = ["| spread | launches | contenders in the end | fastest kept |", "|---|---|---|---|"]
    for spread in SPREADS:
        result = race(generator, trials, spread)
        lines.append(
            f"| {100 * spread:.0f} % | {100 * result.launches:.0f} % | {result.in_the_end:.1f} "
            f"| {100 * result.fastest_stays:.1f} % |"
        )
    return "\n".join(lines)


def main() -> int:
    """Simulate, print the tables, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000, help="trials of each line")
    parser.add_argument("--csv", type=Path, default=Path(__file__).with_name("simulation.csv"))
    given = parser.parse_args()
    generator = np.random.default_rng(SEED)
    trials, families = given.trials, max(1, given.trials // 20)

    rows = [
        ours(generator, order, trials, effect, TYPICAL) for order in ORDERS for effect in EFFECTS
    ]
    many = [
        ours_of_many(generator, families, different, effect)
        for different in (1, 3 * FAMILY // 4)
        for effect in EFFECTS
    ]
    rows += [row for row, _ in many]
    rows += [
        theirs(generator, (rule, order, size), trials, effect)
        for rule in RULES
        for order in ORDERS
        for size in (LOOKS[0], MOST)
        for effect in EFFECTS
    ]
    print(table(rows))
    wrong = sum(share for _, share in many) / len(many)
    print(f"\nFamilies of {FAMILY} that call an equal pair FASTER or SLOWER: {100 * wrong:.2f} %\n")

    machines = [
        ours(generator, "interleaved", trials, effect, machine)
        for machine in OTHERS
        for effect in EFFECTS
    ]
    print(table(machines))
    print(f"\n{races(generator, families)}")

    pd.DataFrame(rows + machines).to_csv(given.csv, index=False, float_format="%.6g")
    null, slowed = rows[0], rows[EFFECTS.index(0.02)]
    held = null.faster + null.slower <= FALSE_BAR and slowed.slower >= FOUND_BAR
    bars = f"at most {FALSE_BAR:.0%} of A/A wrong, at least {FOUND_BAR:.0%} of 2 % found"
    print(f"\n{'Held' if held else 'NOT HELD'}: {bars}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
