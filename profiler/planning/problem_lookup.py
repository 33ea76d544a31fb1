"""Which problems a text means: one answer for `--problem`, `--explain` and `--only problem=…`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from profiler.model import Problem, Scalar
from profiler.planning.matrix import value_text
from profiler.planning.problem_names import short_names
from profiler.planning.spec.rules import same
from profiler.planning.spec.source import parse_value


def problems_called(problems: Sequence[Problem], text: str) -> tuple[Problem, ...]:
    """Problems that a text means, in their order; none where it means nothing.

    That is the one with this id or name, as plans or as pages write it; else all that have the
    parameters that are named, `seq_len=512` or `seq_len=512,head_dim=128`.
    """
    names = spellings(problems)
    text = text.strip()
    exact = tuple(problem for problem in problems if text in names[problem.id])
    if exact:
        return exact
    terms = [term.partition("=") for term in text.split(",")]
    wanted = {key.strip(): value.strip() for key, equals, value in terms if equals}
    if len(wanted) < len(terms):
        return ()
    return tuple(problem for problem in problems if _has(problem, wanted))


def spellings(problems: Sequence[Problem]) -> Mapping[str, tuple[str, ...]]:
    """Id, name and short name by problem id: what plans and pages call each."""
    short = short_names(problems)
    return {problem.id: (problem.id, problem.name, short[problem.id]) for problem in problems}


_parsed = lru_cache(maxsize=64)(parse_value)
"""A text that is asked of the parameters of thousands of cells is parsed once."""


def is_value(text: str, value: Scalar) -> bool:
    """Whether a text means a value: as it is printed, or as a spec writes it (`1e3`)."""
    if text == value_text(value):
        return True
    try:
        return same(_parsed(text), value)
    except ValueError:
        return False


def _has(problem: Problem, wanted: Mapping[str, str]) -> bool:
    params = problem.params
    return all(key in params and is_value(text, params[key]) for key, text in wanted.items())
