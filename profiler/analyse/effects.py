"""Effects of one parameter: variants that differ in nothing else, compared pair by pair.

Serves any other step from one variant to another too: a `ParameterStep` only holds pairs. At the
end, comparisons without a test: static facts, means of ratios.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

import numpy as np
import pandas as pd

from profiler.analyse.intervals import Floats, group_intervals
from profiler.analyse.judge import Judge
from profiler.analyse.verdicts import COLUMNS, compare, make_unclear, overturned_by_launches
from profiler.model import Variant

Value = str | int | float | bool | None
BlockValues = Mapping[tuple[str, str], Mapping[int, float]]
"""By (variant id, problem id): the value of one metric in each block."""
Medians = Mapping[tuple[str, str], float]
"""By (variant id, problem id): the median of one metric; finite."""

NAN = float("nan")


@dataclass(frozen=True)
class ParameterStep:
    """One change of one parameter, and every pair of variants that differs in nothing else."""

    parameter: str
    before: Value
    after: Value
    """None where the parameter is not set."""
    pairs: tuple[tuple[Variant, Variant], ...]
    """(before, after)."""


@dataclass(frozen=True)
class Effect:
    """A step at one problem: value after ÷ value before."""

    problem: str
    pairs: int
    """Pairs of which both variants have a value; 0: the numbers are NaN."""
    ratio: float = NAN
    """Geometric mean of the ratios of the pairs."""
    low: float = NAN
    high: float = NAN
    """95 % interval of `ratio`, each pair block by block; NaN below three blocks that all pairs
    share."""
    smallest: float = NAN
    largest: float = NAN
    """Ratios of the pairs."""


@dataclass(frozen=True)
class CounterChange:
    """A counter before and after a step at one problem: means over the pairs that have both."""

    pairs: int
    before: float = NAN
    after: float = NAN


def steps(
    variants: Sequence[Variant], parameters: Iterable[str] | None = None
) -> tuple[ParameterStep, ...]:
    """Every step between two values of a parameter that at least one pair makes.

    Without `parameters`, those of all variants in the order of first mention. Values go up, what
    is not set or not a number by first mention before them.
    """
    keys = dict.fromkeys(key for variant in variants for key in variant.params)
    step_keys = keys if parameters is None else [key for key in parameters if key in keys]
    return tuple(step for key in step_keys for step in _steps_of(variants, key))


def _steps_of(variants: Sequence[Variant], key: str) -> list[ParameterStep]:
    """Steps between two values of one parameter, by the place of these values."""
    order = {_type_and_value(value): place for place, value in enumerate(_values(variants, key))}
    groups: dict[object, list[Variant]] = {}
    for variant in variants:
        other_params = (
            (name, _type_and_value(value)) for name, value in variant.params.items() if name != key
        )
        groups.setdefault(frozenset(other_params), []).append(variant)
    pairs_by_places: dict[tuple[int, int], list[tuple[Variant, Variant]]] = {}
    for group in groups.values():
        ordered = sorted(group, key=lambda variant: order[_type_and_value(variant.params.get(key))])
        for before, after in itertools.combinations(ordered, 2):
            places = (
                order[_type_and_value(before.params.get(key))],
                order[_type_and_value(after.params.get(key))],
            )
            if places[0] != places[1]:
                pairs_by_places.setdefault(places, []).append((before, after))
    return [
        ParameterStep(key, pairs[0][0].params.get(key), pairs[0][1].params.get(key), tuple(pairs))
        for _, pairs in sorted(pairs_by_places.items(), key=lambda item: item[0])
    ]


def _values(variants: Sequence[Variant], key: str) -> list[Value]:
    """Distinct values of a parameter: those that are no numbers by first mention, then numbers."""
    values = [variant.params.get(key) for variant in variants]
    distinct = {_type_and_value(value): value for value in values}.values()
    return sorted(distinct, key=lambda value: value if isinstance(value, int | float) else -np.inf)


def _type_and_value(value: Value) -> tuple[str, Value]:
    # 1, 1.0 and True are equal in Python, but different words in a spec.
    return type(value).__name__, value


def effects(
    parameter_steps: Sequence[ParameterStep], values: BlockValues, problems: Sequence[str]
) -> tuple[tuple[Effect, ...], ...]:
    """Effect of each step at each problem (ids), in this order.

    A pair counts where both variants have positive values in blocks that they share. Its ratio is
    the quotient of both medians over these blocks, as in the verdict of a pair, so that dividing
    the medians on a page gives the ratio on it. The interval is that of the median over blocks of
    the mean log ratio over pairs: noise that all pairs of a block share cancels out. It is widened
    to the mean of the quotients where that lies outside.
    """
    pairs = [
        [_block_ratios(pair, problem, values) for pair in step.pairs]
        for step in parameter_steps
        for problem in problems
    ]
    measured = [[pair for pair in of_step if pair] for of_step in pairs]
    shared = [_shared_blocks([by_block for by_block, _ in of_step]) for of_step in measured]
    low, high = group_intervals(np.concatenate([*shared, []]), np.array([len(s) for s in shared]))
    names = [problem for _ in parameter_steps for problem in problems]
    flat = [
        _effect(name, [quotient for _, quotient in of_step], (float(a), float(b)))
        for name, of_step, a, b in zip(names, measured, low, high, strict=True)
    ]
    width = len(problems)
    return tuple(tuple(flat[width * i : width * (i + 1)]) for i in range(len(parameter_steps)))


def _block_ratios(
    pair: tuple[Variant, Variant], problem: str, values: BlockValues
) -> tuple[Mapping[int, float], float] | None:
    """Log ratio of a pair by block, and the log of the quotient of its medians in these blocks.

    None without common blocks or with a value not above 0.
    """
    before, after = (values.get((variant.id, problem), {}) for variant in pair)
    common = [block for block in before if block in after]
    if not common or any(before[block] <= 0 or after[block] <= 0 for block in common):
        return None
    medians = [median(side[block] for block in common) for side in (after, before)]
    by_block = {block: float(np.log(after[block] / before[block])) for block in common}
    return by_block, float(np.log(medians[0] / medians[1]))


def _shared_blocks(rows: Sequence[Mapping[int, float]]) -> Floats:
    """Mean log ratio over the pairs (blocks,), in each block that all pairs have."""
    common = [block for block in rows[0] if all(block in row for row in rows)] if rows else []
    return np.array([np.mean([row[block] for row in rows]) for block in common], dtype=np.float64)


def _effect(problem: str, quotients: Sequence[float], interval: tuple[float, float]) -> Effect:
    """Effect of a step; `quotients` and `interval` are logs of ratios."""
    if not quotients:
        return Effect(problem, 0)
    centre = float(np.mean(quotients))
    return Effect(
        problem,
        len(quotients),
        ratio=float(np.exp(centre)),
        low=float(np.exp(min(interval[0], centre))),
        high=float(np.exp(max(interval[1], centre))),
        smallest=float(np.exp(min(quotients))),
        largest=float(np.exp(max(quotients))),
    )


def judge_steps(
    parameter_steps: Sequence[ParameterStep],
    judge: Judge,
    cells: Mapping[tuple[str, str], str],
    problems: Sequence[str],
) -> pd.DataFrame:
    """Verdict of each step at each problem (ids), in this order: durations after ÷ before.

    `cells` are ids by (variant id, problem id), of the cells that may be compared. The tested value
    is the mean log ratio over the pairs of a step, in the blocks that all of its pairs share: as
    `effects` has it. The steps of a problem are judged together. Columns: `problem`, then
    `verdicts.COLUMNS`.
    """
    places = [(step, problem) for step in parameter_steps for problem in problems]
    rows = pd.DataFrame({"problem": [problem for _, problem in places]}, dtype=object)
    rows["noise_floor"] = rows["problem"].map(judge.floors["duration_ns"])
    rows["cycles_noise_floor"] = rows["problem"].map(judge.floors["cycles"])
    rows["session_sd"] = rows["problem"].map(judge.session_sds_of_problems)
    rows["family"] = rows["problem"]
    pairs = pd.DataFrame(
        [
            (row, cells[after.id, problem], cells[before.id, problem])
            for row, (step, problem) in enumerate(places)
            for before, after in step.pairs
            if (before.id, problem) in cells and (after.id, problem) in cells
        ],
        columns=["pair", "cell", "against"],
    )
    rules = judge.rules
    blocks = _mean_ratios(pairs, judge)
    verdicts = compare(blocks, rows, delta=rules.delta, looks=rules.looks)
    verdicts = rows[["problem"]].join(verdicts[list(COLUMNS)])
    launches = _mean_launches(pairs, judge)
    make_unclear(verdicts, overturned_by_launches(verdicts.join(launches)))
    return verdicts


def _mean_launches(pairs: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Means over the pairs of each row of what `overturned_by_launches` asks of launches."""
    launches = judge.launch_facts(pairs)
    medians = judge.times.groupby("cell")["duration_ns"].median()
    launches["median"] = launches["cell"].map(medians)
    launches["against_median"] = launches["against"].map(medians)
    names = launches.columns.difference(pairs.columns)
    means: pd.DataFrame = launches.groupby("pair")[list(names)].mean()
    return means


def _mean_ratios(pairs: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Mean log ratio over the pairs of each row, by the blocks that all pairs with data share."""
    ratios = judge.paired_ratios(pairs).rename(columns={"pair": "number"})
    ratios["pair"] = ratios["number"].map(pairs["pair"])
    all_pairs = ratios.groupby("pair")["number"].nunique()
    grouped = ratios.groupby(["pair", "block"])[["log_ratio", "log_cycles"]]
    counts = grouped.count()
    expected_pairs = all_pairs.reindex(counts.index.get_level_values("pair")).to_numpy()
    # A mean that lacks a pair is of another quantity; NaN, not a mean of the other pairs.
    return grouped.mean().where(counts.eq(expected_pairs, axis=0)).reset_index()


def over_problems(by_problem: Sequence[Effect]) -> Effect:
    """Effect of a step over all problems that have a pair: geometric mean, extremes, all pairs.

    Without an interval: the problems are chosen, not sampled.
    """
    measured = [effect for effect in by_problem if effect.pairs]
    if not measured:
        return Effect("", 0)
    return Effect(
        "",
        sum(effect.pairs for effect in measured),
        ratio=geometric_mean(effect.ratio for effect in measured),
        smallest=min(effect.smallest for effect in measured),
        largest=max(effect.largest for effect in measured),
    )


def counter_changes(
    step: ParameterStep, medians: Medians, problems: Sequence[str]
) -> tuple[CounterChange, ...]:
    """Mean of a counter before and after a step, by problem.

    Values are averaged before they are divided: no ratio of a change is a mean of ratios.
    """
    return tuple(_counter_change(step, medians, problem) for problem in problems)


def _counter_change(step: ParameterStep, medians: Medians, problem: str) -> CounterChange:
    pair_medians = [
        (medians[before.id, problem], medians[after.id, problem])
        for before, after in step.pairs
        if (before.id, problem) in medians and (after.id, problem) in medians
    ]
    if not pair_medians:
        return CounterChange(0)
    before, after = np.mean(np.array(pair_medians, dtype=np.float64), axis=0)
    return CounterChange(len(pair_medians), float(before), float(after))


@dataclass(frozen=True)
class MeanRatio:
    """Geometric mean of ratios, with the smallest and the largest of them."""

    mean: float
    smallest: float
    largest: float
    count: int


def mean_ratio(ratios: Iterable[float]) -> MeanRatio | None:
    """Geometric mean of the ratios that are positive; None without any."""
    positive = [ratio for ratio in ratios if ratio > 0]
    if not positive:
        return None
    return MeanRatio(geometric_mean(positive), min(positive), max(positive), len(positive))
