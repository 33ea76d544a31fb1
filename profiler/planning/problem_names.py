"""Short names of problems: the differing parameters, as short as is readable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from profiler.model import Problem, Variant
from profiler.runner.protocol import LAUNCHER

_TIMES = "\u00d7"


def short_names(problems: Sequence[Problem]) -> Mapping[str, str]:
    """Short names by problem id: `m=16,n=512,dtype=fp16` is `16 \u00d7 512 fp16`.

    Names that a spec gives stay as they are. Where values alone would not tell the problems apart
    or could not be read, keys stay, and get room after the commas so that lines can break there.
    What is the same in all problems is left out.
    """
    all_generated = all(map(_is_generated, problems))
    if all_generated and (keys := _short_keys(problems)):
        return {problem.id: _joined_values(problem.params, keys) for problem in problems}
    omitted_keys = _same_everywhere(problems) if all_generated else frozenset()
    return {problem.id: _with_keys(problem, omitted_keys) for problem in problems}


def problem_key(problems: Sequence[Problem]) -> str:
    """Keys of short names, joined like their values; "" where names are not short.

    Of a single word no key is needed.
    """
    keys = _short_keys(problems)
    if len(keys) < 2 or any(p.name != _joined_values(p.params, keys) for p in problems):
        return ""
    return _joined_values(problems[0].params, keys, show_keys=True)


def telling_parameters(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Parameters that distinguish problems: those of short names, else all that differ."""
    return (_short_keys(problems) if len(problems) > 1 else ()) or varying_parameters(problems)


def named_parameters(items: Iterable[Variant | Problem]) -> tuple[str, ...]:
    """Parameters of variants or problems, in the order of first mention; no digest of a launch."""
    keys = dict.fromkeys(key for item in items for key in item.params)
    return tuple(key for key in keys if key != LAUNCHER)


def varying_parameters(items: Collection[Variant | Problem]) -> tuple[str, ...]:
    """Parameters that differ among variants or problems, in the order of first mention."""
    return tuple(key for key in named_parameters(items) if len(distinct_values(items, key)) > 1)


def distinct_values(items: Iterable[Variant | Problem], key: str) -> tuple[Any, ...]:
    """Distinct values of a parameter: numbers ascending, else by first mention."""
    values = [item.params.get(key) for item in items]
    # 1, 1.0 and True are equal in Python, but different words in a spec.
    values = list({(type(value).__name__, value): value for value in values}.values())
    if all(is_number(value) for value in values):
        values.sort(key=lambda value: float(value or 0))
    return tuple(values)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a parameter is a quantity (a yes or no is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_keys(problem: Problem, omitted_keys: frozenset[str]) -> str:
    if not _is_generated(problem):
        return problem.name
    parts = zip(problem.params, problem.name.split(","), strict=True)
    return ", ".join(part for key, part in parts if key not in omitted_keys)


def _same_everywhere(problems: Sequence[Problem]) -> frozenset[str]:
    """Parameters that are equal everywhere and so omitted; empty where names would get too short.

    One key is enough among problems that have the same ones.
    """
    differing = set(varying_parameters(problems))
    fewest_keys = 2 if _differ_in_keys(problems) else 1
    if any(len(differing.intersection(problem.params)) < fewest_keys for problem in problems):
        return frozenset()
    return frozenset(key for problem in problems for key in problem.params if key not in differing)


def _is_generated(problem: Problem) -> bool:
    """Whether a name is the list of the parameters."""
    parts = problem.name.split(",")
    return len(parts) == len(problem.params) and all(
        part.startswith(f"{key}=") for part, key in zip(parts, problem.params, strict=True)
    )


def _short_keys(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Keys whose values alone make readable, distinct names; empty without such keys.

    Where problems have different parameters, those that all have may be enough: operators of one
    size each are told apart by the operator. A single value is not read without its key, unless it
    is a word that stands for other parameters as well.
    """
    if not problems:
        return ()
    candidates = varying_parameters(problems) if len(problems) > 1 else tuple(problems[0].params)
    keys = tuple(key for key in candidates if all(key in problem.params for problem in problems))
    readable = _can_be_read(problems, keys) and _are_of_one_form(problems, keys)
    names = {_joined_values(problem.params, keys) for problem in problems}
    return keys if readable and len(names) == len(problems) else ()


def _can_be_read(problems: Sequence[Problem], keys: Sequence[str]) -> bool:
    values = [problem.params[key] for problem in problems for key in keys]
    has_word = any(isinstance(value, str) for value in values)
    is_single_word = len(keys) == 1 and has_word and _differ_in_keys(problems)
    return all(map(_is_readable_alone, values)) and (len(keys) >= 2 or is_single_word)


def _are_of_one_form(problems: Sequence[Problem], keys: Sequence[str]) -> bool:
    """Whether each key has numbers at all problems, or words at all problems."""
    return len({tuple(is_number(problem.params[key]) for key in keys) for problem in problems}) == 1


def _is_readable_alone(value: object) -> bool:
    """Whether a value is clear without its key: sizes and words are, yes and 0.1 are not."""
    return isinstance(value, int | str) and not isinstance(value, bool) and value != ""


def _differ_in_keys(problems: Sequence[Problem]) -> bool:
    return len({frozenset(problem.params) for problem in problems}) > 1


def _joined_values(
    params: Mapping[str, Any], keys: Sequence[str], *, show_keys: bool = False
) -> str:
    """Values in one text: sizes joined by a multiplication sign, others by a space."""
    text = ""
    for before, key in zip((None, *keys), keys, strict=False):
        sizes = before is not None and is_number(params[before]) and is_number(params[key])
        joint = "" if before is None else f" {_TIMES} " if sizes else " "
        text += f"{joint}{key if show_keys else params[key]}"
    return text
