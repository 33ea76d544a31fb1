"""Problems in words: by their names where they are few, else by what they have in common."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeGuard

from profiler.model import Problem, Scalar
from profiler.render.words.comparisons import value_name

_NAMED = 2
"""Problems that are named; more are counted."""
_PARTS = 2
"""Conditions that problems are told by where they have none in common."""
_VALUES_NAMED = 2
"""Values of a parameter that are named where all of the problems have one of them."""

Condition = tuple[str, frozenset[str]]
"""In words, and the ids of the problems that keep it."""


def places(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`1024 x 256`; `the 4 with dtype=float16`; `14, all with dim0 ≤ 512`; `14` without such."""
    if len(found) <= _NAMED:
        return named(found)
    condition, kept = common_condition(found, problems)
    if not condition:
        return f"{len(found)}{_parts(found, problems) if len(found) < len(problems) else ''}"
    exactly = len(kept) == len(found)
    return f"{f'the {len(found)} with' if exactly else f'{len(found)}, all with'} {condition}"


def named(found: Sequence[Problem]) -> str:
    """Names of one or two problems; the number of more."""
    few = len(found) <= _NAMED
    return " and ".join(problem.name for problem in found) if few else str(len(found))


def where(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`with seq_len=512` where none of the others keep that; else `at 23, all with dim0 ≤ 64`."""
    condition, kept = common_condition(found, problems)
    if len(kept) == len(found):
        return f"with {condition}"
    return f"at {named(found)}{f', all with {condition}' if condition else ''}"


def common_condition(found: Sequence[Problem], problems: Sequence[Problem]) -> Condition:
    """The condition on one or two parameters that all of `found`, and the fewest others, keep.

    Without words where half of the others keep it: it tells nothing then.
    """
    if not found:
        return "", frozenset()
    by_key = [list(_conditions(key, found, problems)) for key in found[0].params]
    words, kept = min(
        _alone_and_paired(by_key),
        key=lambda condition: (len(condition[1]), condition[0].count(" and ")),
        default=("", frozenset[str]()),
    )
    is_telling = 2 * (len(kept) - len(found)) < len(problems) - len(found)
    return (words, kept) if is_telling else ("", frozenset())


def _alone_and_paired(by_key: Sequence[Sequence[Condition]]) -> Iterator[Condition]:
    """Every condition, and every two on different parameters."""
    for conditions in by_key:
        yield from conditions
    for first, second in combinations(by_key, 2):
        for words, kept in first:
            for more_words, kept_too in second:
                yield f"{words} and {more_words}", kept & kept_too


def _conditions(
    key: str, found: Sequence[Problem], problems: Sequence[Problem]
) -> Iterator[Condition]:
    """Conditions on a parameter that all of `found` keep; none where one of them has none."""
    values = _values(key, problems)
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
    yield from _bounds(key, values, own)


def _bounds(
    key: str, values: Mapping[str, Scalar], of: Collection[Scalar | None]
) -> Iterator[Condition]:
    """The conditions that numbers are at most the largest of some, and at least the least."""
    numbers = {problem: value for problem, value in values.items() if _is_number(value)}
    if len(numbers) < len(values):
        return
    ends = [value for value in of if _is_number(value)]
    most, least = max(ends), min(ends)
    for sign, end, keeps in (("\u2264", most, operator.le), ("\u2265", least, operator.ge)):
        kept = frozenset(problem for problem, value in numbers.items() if keeps(value, end))
        yield f"{key} {sign} {value_name(end)}", kept


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def _values(key: str, problems: Sequence[Problem]) -> dict[str, Scalar]:
    """The value of a parameter by the id of the problem, where it has one."""
    return {problem.id: problem.params[key] for problem in problems if key in problem.params}


def _order(value: Scalar) -> tuple[float, str]:
    """Key that sorts numbers by their size, and before all else."""
    return (value, "") if _is_number(value) else (math.inf, str(value))


def _parts(found: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`: 6 of the 10 with dim1=128, the 5 with dim0 \u2265 512, 3 others`; empty without such."""
    conditions = [*_alone_and_paired([_of_values(key, problems) for key in found[0].params])]
    left = {problem.id: problem for problem in found}
    words: list[str] = []
    while len(words) < _PARTS and len(left) > _NAMED:
        condition, kept = max(
            conditions,
            key=lambda each: (2 * len(each[1] & left.keys()) - len(each[1]), -len(each[0])),
        )
        here = kept & left.keys()
        if 2 * len(here) <= len(kept) or 3 * len(here) < len(found):
            break
        of = f"the {len(here)}" if here == kept else f"{len(here)} of the {len(kept)}"
        words.append(f"{of} with {condition}")
        left = {problem: each for problem, each in left.items() if problem not in kept}
    if 2 * len(left) >= len(found):
        return ""
    if left:
        words.append(named([*left.values()]) + (" others" if len(left) > _NAMED else ""))
    return f": {', '.join(words)}"


def _of_values(key: str, problems: Sequence[Problem]) -> list[Condition]:
    """Conditions on each value that a parameter has, but for those that all problems keep."""
    values = _values(key, problems)
    conditions = [
        condition
        for value in dict.fromkeys(values.values())
        for condition in (
            (f"{key}={value_name(value)}", _having(values, value)),
            *_bounds(key, values, [value]),
        )
    ]
    return [condition for condition in conditions if len(condition[1]) < len(problems)]


def _having(values: Mapping[str, Scalar], value: Scalar) -> frozenset[str]:
    return frozenset(problem for problem, own in values.items() if own == value)
