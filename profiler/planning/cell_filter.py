"""Cells and problems that a text names, for `--only`, `--problem` and `--explain` alike.

`--only 'columns=4096,algorithm=online|warp'`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from profiler.errors import UsageError
from profiler.model import Cell, Params, Problem, Scalar
from profiler.planning.matrix import value_text
from profiler.planning.problem_names import short_names
from profiler.planning.spec.items import are_equal
from profiler.planning.spec.source import parse_value
from profiler.planning.spec.values import did_you_mean

MAX_SHOWN_VALUES = 12
NO_LABELS: Mapping[str, str] = MappingProxyType({})

_IDENTITIES: dict[str, Callable[[Cell], tuple[str, ...]]] = {
    "variant": lambda cell: (cell.variant.name, cell.variant.id),
    "problem": lambda cell: (cell.problem.name, cell.problem.id),
    "cell": lambda cell: (cell.id,),
    "tag": lambda cell: cell.variant.tags,
}

_PROBLEM_TERM = r"((?:^|,)\s*problem\s*=\s*(?:[^,]*\|\s*)?)"
"""Beginning of a term about problems."""


_Term = tuple[str, tuple[str, ...]]
"""A key and its wanted values."""


def select_cells(
    cells: Sequence[Cell],
    only: str,
    baseline: str | None,
    labels: Mapping[str, str] = NO_LABELS,
) -> tuple[Cell, ...]:
    """The cells that a filter names, and the baseline's on the same problems.

    `a=1,b=2` asks for both, `a=1|2` for either. Keys are parameters, `variant` and `problem` (name
    or id), `cell` (id), and `tag` (of a variant). `labels`: what pages call a
    variant, by its id; `variant` takes them too. Raises `UsageError` for a key that does not exist,
    and where nothing matches.
    """
    terms = [_parse(term) for term in _with_ids(only, cells).split(",")]
    _check_keys(terms, cells, only)
    matching = {
        cell.id for cell in cells if all(_matches_cell(term, cell, labels) for term in terms)
    }
    if not matching:
        raise UsageError(f"{only}: no cell matches", remedy=_remedy(cells, terms, labels))
    problems = {cell.problem.id for cell in cells if cell.id in matching}
    return tuple(
        cell
        for cell in cells
        if cell.id in matching or (cell.variant.id == baseline and cell.problem.id in problems)
    )


def _with_ids(only: str, cells: Sequence[Cell]) -> str:
    """A filter with ids in place of problem names, whose commas do not end a term."""
    if "problem" not in only:
        return only
    problems = {cell.problem.id: cell.problem for cell in cells}
    names = spellings(tuple(problems.values()))
    before = ""
    while before != only:  # the names after the first of a term, once that one has no commas
        before = only
        for id_, of_problem in names.items():
            name = "|".join(map(re.escape, of_problem))
            only = re.sub(rf"{_PROBLEM_TERM}(?:{name})(?=\s*(?:[,|]|$))", rf"\g<1>{id_}", only)
    return only


def _parse(term: str) -> _Term:
    key, equals, alternatives = term.partition("=")
    if not equals or not key.strip() or not alternatives.strip():
        raise UsageError(f"'{term}' names no cells: it must look like key=value or key=one|other")
    return key.strip(), tuple(value.strip() for value in alternatives.split("|"))


def _matches_cell(term: _Term, cell: Cell, labels: Mapping[str, str]) -> bool:
    key, alternatives = term
    if key == "variant" and labels.get(cell.variant.id) in alternatives:
        return True
    if key in _IDENTITIES and any(name in alternatives for name in _IDENTITIES[key](cell)):
        return True
    params = _params(cell)  # one may be called `tag` or `cell`
    return key in params and any(is_value(value, params[key]) for value in alternatives)


def _check_keys(terms: Sequence[_Term], cells: Sequence[Cell], only: str) -> None:
    """Raise `UsageError` for a key that no cell has."""
    keys = {*_IDENTITIES, *(key for cell in cells for key in _params(cell))}
    for key, _ in terms:
        if key not in keys:
            raise UsageError(f"{only}: no cell has '{key}'{did_you_mean(key, keys)}")


def _params(cell: Cell) -> Params:
    return {**cell.variant.params, **cell.problem.params}


def _remedy(cells: Sequence[Cell], terms: Sequence[_Term], labels: Mapping[str, str]) -> str:
    """Values of the first key that no cell matches, or a hint that only the combination fails."""
    for term in terms:
        if not any(_matches_cell(term, cell, labels) for cell in cells):
            values = dict.fromkeys(text for cell in cells for text in _texts(term[0], cell))
            listed_values = [
                *list(values)[:MAX_SHOWN_VALUES],
                *["…"][: len(values) > MAX_SHOWN_VALUES],
            ]
            if not listed_values:
                return f"No variant has a {term[0]}."
            return f"{term[0]} is one of: {', '.join(listed_values)}"
    return "Each of these matches something, but nothing matches all of them."


def _texts(key: str, cell: Cell) -> tuple[str, ...]:
    params = _params(cell)
    texts = (value_text(params[key]),) if key in params else ()
    names = _IDENTITIES[key](cell) if key in _IDENTITIES else ()
    return (*texts, *names[: None if key == "tag" else 1])


def problems_called(problems: Sequence[Problem], text: str) -> tuple[Problem, ...]:
    """Problems that a text names, in their order; empty where it names none.

    The problem with this id or name, as plans or pages write it; else all problems with the given
    parameters, `seq_len=512` or `seq_len=512,head_dim=128`.
    """
    names = spellings(problems)
    text = text.strip()
    exact = tuple(problem for problem in problems if text in names[problem.id])
    if exact:
        return exact
    terms = [term.partition("=") for term in text.split(",")]
    text_by_key = {key.strip(): value.strip() for key, equals, value in terms if equals}
    if len(text_by_key) < len(terms):
        return ()
    return tuple(problem for problem in problems if _has_parameters(problem, text_by_key))


def spellings(problems: Sequence[Problem]) -> Mapping[str, tuple[str, ...]]:
    """Id, name and short name by problem id: the names on plans and pages."""
    short_name_of = short_names(problems)
    return {
        problem.id: (problem.id, problem.name, short_name_of[problem.id]) for problem in problems
    }


_parsed = lru_cache(maxsize=64)(parse_value)
"""A text that is asked of the parameters of thousands of cells is parsed once."""


def is_value(text: str, value: Scalar) -> bool:
    """Whether a text stands for a value, as printed or as a spec writes it (`1e3`)."""
    if text == value_text(value):
        return True
    try:
        return are_equal(_parsed(text), value)
    except ValueError:
        return False


def _has_parameters(problem: Problem, text_by_key: Mapping[str, str]) -> bool:
    params = problem.params
    return all(key in params and is_value(text, params[key]) for key, text in text_by_key.items())
