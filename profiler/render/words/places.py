"""Problems in words: by their names where they are few, else by what they have in common."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from profiler.model import Problem, Scalar
from profiler.planning.problem_names import is_number
from profiler.render.words.comparisons import value_name

_NAMED = 2
"""Problems that are named; more are counted."""
_PARTS = 2
"""Conditions that problems are told by where they have none in common."""
_VALUES_NAMED = 2
"""Values of a parameter that are named where all of the problems have one of them."""

Condition = tuple[str, frozenset[str]]
"""In words, and the ids of the problems that keep it."""


def places(selected: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`1024 x 256`; `the 4 with dtype=float16`; `14, all with dim0 ≤ 512`; `14` without such."""
    if len(selected) <= _NAMED:
        return names_or_count(selected)
    condition, having_condition = common_condition(selected, problems)
    if not condition:
        clauses = _condition_clauses(selected, problems) if len(selected) < len(problems) else ""
        return f"{len(selected)}{clauses}"
    exactly = len(having_condition) == len(selected)
    return f"{f'the {len(selected)} with' if exactly else f'{len(selected)}, all with'} {condition}"


def names_or_count(selected: Sequence[Problem]) -> str:
    """Names of one or two problems; the number of more."""
    few = len(selected) <= _NAMED
    return " and ".join(problem.name for problem in selected) if few else str(len(selected))


def where(selected: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`with seq_len=512` where none of the others keep that; else `at 23, all with dim0 ≤ 64`."""
    condition, having_condition = common_condition(selected, problems)
    if len(having_condition) == len(selected):
        return f"with {condition}"
    return f"at {names_or_count(selected)}{f', all with {condition}' if condition else ''}"


def common_condition(selected: Sequence[Problem], problems: Sequence[Problem]) -> Condition:
    """The condition on one or two parameters that all of `found`, and the fewest others, keep.

    Without words where half of the others keep it: it tells nothing then.
    """
    if not selected:
        return "", frozenset()
    by_key = [list(_conditions(key, selected, problems)) for key in selected[0].params]
    condition_words, having_condition = min(
        _single_and_paired(by_key),
        key=lambda condition: (len(condition[1]), condition[0].count(" and ")),
        default=("", frozenset[str]()),
    )
    is_telling = 2 * (len(having_condition) - len(selected)) < len(problems) - len(selected)
    return (condition_words, having_condition) if is_telling else ("", frozenset())


def _single_and_paired(by_key: Sequence[Sequence[Condition]]) -> Iterator[Condition]:
    """Every condition, and every two on different parameters."""
    for conditions in by_key:
        yield from conditions
    for first, second in combinations(by_key, 2):
        for first_words, first_ids in first:
            for second_words, second_ids in second:
                yield f"{first_words} and {second_words}", first_ids & second_ids


def _conditions(
    key: str, selected: Sequence[Problem], problems: Sequence[Problem]
) -> Iterator[Condition]:
    """Conditions on a parameter that all of `found` keep; none where one of them has none."""
    values = _values(key, problems)
    selected_values = {values.get(problem.id) for problem in selected}
    if None in selected_values:
        return
    if selected_values == set(values.values()):
        if len(values) < len(problems):
            yield key, frozenset(values)
        return
    if len(selected_values) <= _VALUES_NAMED:
        condition_words = (
            f"{key}={' or '.join(map(value_name, sorted(selected_values, key=_order)))}"
        )
        yield (
            condition_words,
            frozenset(
                problem_id for problem_id, value in values.items() if value in selected_values
            ),
        )
    yield from _bounds(key, values, selected_values)


def _bounds(
    key: str, values: Mapping[str, Scalar], bounded_values: Collection[Scalar | None]
) -> Iterator[Condition]:
    """The conditions that numbers are at most the largest of some, and at least the least."""
    numbers = {problem: value for problem, value in values.items() if is_number(value)}
    if len(numbers) < len(values):
        return
    ends = [value for value in bounded_values if is_number(value)]
    most, least = max(ends), min(ends)
    for sign, end, keeps in (("\u2264", most, operator.le), ("\u2265", least, operator.ge)):
        within_bound = frozenset(problem for problem, value in numbers.items() if keeps(value, end))
        yield f"{key} {sign} {value_name(end)}", within_bound


def _values(key: str, problems: Sequence[Problem]) -> dict[str, Scalar]:
    """The value of a parameter by the id of the problem, where it has one."""
    return {problem.id: problem.params[key] for problem in problems if key in problem.params}


def _order(value: Scalar) -> tuple[float, str]:
    """Key that sorts numbers by their size, and before all else."""
    return (value, "") if is_number(value) else (math.inf, str(value))


def _condition_clauses(selected: Sequence[Problem], problems: Sequence[Problem]) -> str:
    """`: 6 of the 10 with dim1=128, the 5 with dim0 \u2265 512, 3 others`; empty without such."""
    conditions = [
        *_single_and_paired([_value_conditions(key, problems) for key in selected[0].params])
    ]
    remaining = {problem.id: problem for problem in selected}
    clauses: list[str] = []
    while len(clauses) < _PARTS and len(remaining) > _NAMED:
        condition, having_condition = max(
            conditions,
            key=lambda case: (2 * len(case[1] & remaining.keys()) - len(case[1]), -len(case[0])),
        )
        covered = having_condition & remaining.keys()
        if 2 * len(covered) <= len(having_condition) or 3 * len(covered) < len(selected):
            break
        covered_words = (
            f"the {len(covered)}"
            if covered == having_condition
            else f"{len(covered)} of the {len(having_condition)}"
        )
        clauses.append(f"{covered_words} with {condition}")
        remaining = {
            id_: problem for id_, problem in remaining.items() if id_ not in having_condition
        }
    if 2 * len(remaining) >= len(selected):
        return ""
    if remaining:
        clauses.append(
            names_or_count([*remaining.values()]) + (" others" if len(remaining) > _NAMED else "")
        )
    return f": {', '.join(clauses)}"


def _value_conditions(key: str, problems: Sequence[Problem]) -> list[Condition]:
    """Conditions on each value that a parameter has, but for those that all problems keep."""
    values = _values(key, problems)
    conditions = [
        condition
        for value in dict.fromkeys(values.values())
        for condition in (
            (f"{key}={value_name(value)}", _problems_with(values, value)),
            *_bounds(key, values, [value]),
        )
    ]
    return [condition for condition in conditions if len(condition[1]) < len(problems)]


def _problems_with(values: Mapping[str, Scalar], value: Scalar) -> frozenset[str]:
    return frozenset(problem for problem, problem_value in values.items() if problem_value == value)
