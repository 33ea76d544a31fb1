"""Problems in words: by their names where they are few, else by what they have in common."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from profiler.model import Problem, Scalar
from profiler.render.words.comparisons import value_name

_NAMED = 2
"""Problems that are named; more are counted."""
_VALUES_NAMED = 2
"""Values of a parameter that are named where all of the problems have one of them."""

Condition = tuple[str, frozenset[str]]
"""In words, and the ids of the problems that keep it."""


def places(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`1024 x 256`; `the 4 with dtype=float16`; `14, all with dim0 ≤ 512`; `14` without such."""
    if 0 < len(found) <= _NAMED:
        return " and ".join(problem.name for problem in found)
    condition, kept = common_condition(found, problems)
    if not condition:
        return f"{len(found)}{_frequent_value(found, problems)}"
    exactly = len(kept) == len(found)
    return f"{f'the {len(found)} with' if exactly else f'{len(found)}, all with'} {condition}"


def where(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`with seq_len=512`, where a condition tells these from the others; else `at` the places."""
    condition, kept = common_condition(found, problems)
    return f"with {condition}" if len(kept) == len(found) else f"at {places(found, problems)}"


def common_condition(found: Sequence[Problem], problems: Sequence[Problem]) -> Condition:
    """The condition on one or two parameters that all of `found`, and the fewest others, keep.

    Without words where half of the others keep it: it tells nothing then.
    """
    if not found:
        return "", frozenset()
    single = {key: list(_conditions(key, found, problems)) for key in found[0].params}
    both = (
        (f"{one[0]} and {other[0]}", one[1] & other[1])
        for first, second in combinations(single, 2)
        for one in single[first]
        for other in single[second]
    )
    candidates = [*(each for every in single.values() for each in every), *both]
    words, kept = min(
        candidates,
        key=lambda condition: (len(condition[1]), condition[0].count(" and ")),
        default=("", frozenset[str]()),
    )
    is_telling = 2 * (len(kept) - len(found)) < len(problems) - len(found)
    return (words, kept) if is_telling else ("", frozenset())


def _conditions(
    key: str, found: Sequence[Problem], problems: Sequence[Problem]
) -> Iterator[Condition]:
    """Conditions on a parameter that all of `found` keep; none where one of them has none."""
    values = {problem.id: problem.params[key] for problem in problems if key in problem.params}
    own = {values.get(problem.id) for problem in found}
    if None in own:
        return
    if own == set(values.values()):
        if len(values) < len(problems):
            yield key, frozenset(values)
        return
    if len(own) <= _VALUES_NAMED:
        words = f"{key}={' or '.join(map(value_name, sorted(own, key=_order)))}"
        yield words, frozenset(each for each, value in values.items() if value in own)
    numbers = {each: value for each, value in values.items() if isinstance(value, int | float)}
    if len(numbers) == len(values):
        ends = [numbers[problem.id] for problem in found]
        least, most = min(ends), max(ends)
        for sign, end, keeps in (("\u2264", most, operator.le), ("\u2265", least, operator.ge)):
            kept = frozenset(problem for problem in values if keeps(numbers[problem], end))
            yield f"{key} {sign} {value_name(end)}", kept


def _order(value: Scalar) -> tuple[float, str]:
    """Key that sorts numbers by their size, and before all else."""
    return (float(value), "") if isinstance(value, int | float) else (math.inf, str(value))


def _frequent_value(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`, 6 of them with dim1=128`: a value twice as frequent there as elsewhere, of a third."""
    here, everywhere = map(_counted_values, (found, problems))
    for (key, value), count in here.most_common():
        expected = everywhere[key, value] * len(found) / len(problems)
        if 3 * count >= len(found) and count >= 2 * expected:
            return f", {count} of them with {key}={value_name(value)}"
    return ""


def _counted_values(problems: Iterable[Problem]) -> Counter[tuple[str, Scalar]]:
    return Counter(
        (key, value)
        for problem in problems
        for key, value in problem.params.items()
        if not isinstance(value, float)
    )
