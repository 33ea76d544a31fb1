"""What problems are called: the parameters that tell them apart, as short as they can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profiler.model import Problem, Variant
from profiler.render.numbers import TIMES
from profiler.report import Report


def readable(report: Report) -> Report:
    """Shorten generated problem names: `m=16,n=512,dtype=fp16` is `16 \u00d7 512 fp16`.

    Names that a spec gives stay as they are. What is the same in all problems is left out. Where
    values alone would not tell the problems apart or could not be read, keys stay, and get room
    after the commas so that lines can break there.
    """
    problems = {cell.problem.id: cell.problem for cell in report.plan.cells}
    names = _names(tuple(problems.values()))
    cells = tuple(
        replace(cell, problem=replace(cell.problem, name=names[cell.problem.id]))
        for cell in report.plan.cells
    )
    return replace(report, plan=replace(report.plan, cells=cells))


def problem_key(problems: Sequence[Problem]) -> str:
    """Say what stands in short names, in their own form: keys joined as values are; else ""."""
    keys = _short_keys(problems)
    short = {one.id: _joined(one.params, keys) for one in problems} if keys else {}
    if not short or any(one.name != short[one.id] for one in problems):
        return ""
    return _joined(problems[0].params, keys, words=True)


def varying(items: Iterable[Variant | Problem]) -> tuple[str, ...]:
    """Name the parameters that differ among variants or problems, in the order of first mention."""
    rows = [dict(item.params) for item in items]
    keys = dict.fromkeys(key for row in rows for key in row)
    return tuple(key for key in keys if len({_hashable(row.get(key)) for row in rows}) > 1)


def distinct(items: Iterable[Variant | Problem], key: str) -> tuple[Any, ...]:
    """List the different values of a parameter; numbers in their order, else by first mention."""
    values = list(
        {_hashable(item.params.get(key)): item.params.get(key) for item in items}.values()
    )
    if all(is_number(value) for value in values):
        values.sort(key=lambda value: float(value or 0))
    return tuple(values)


def is_number(value: object) -> bool:
    """Whether a parameter is a quantity (a yes or no is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(problems: Sequence[Problem]) -> Mapping[str, str]:
    keys = _short_keys(problems) if all(map(_is_generated, problems)) else ()
    if keys:
        return {one.id: _joined(one.params, keys) for one in problems}
    told = _told_apart_by(problems)
    return {one.id: _spaced(one, told) if _is_generated(one) else one.name for one in problems}


def _told_apart_by(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Keys that generated names need; all of them where problems have different ones."""
    if all(map(_is_generated, problems)) and len({tuple(one.params) for one in problems}) == 1:
        return varying(problems)
    return ()


def _spaced(problem: Problem, keys: Sequence[str]) -> str:
    """A generated name with room after its commas: of these keys, or of all where none is named."""
    parts = zip(problem.params, problem.name.split(","), strict=True)
    return ", ".join(part for key, part in parts if not keys or key in keys)


def _is_generated(problem: Problem) -> bool:
    """Whether a name is the list of the parameters."""
    parts = problem.name.split(",")
    return len(parts) == len(problem.params) and all(
        part.startswith(f"{key}=") for part, key in zip(parts, problem.params, strict=True)
    )


def _short_keys(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Keys whose values alone make names that can be read and that differ; else none."""
    if not problems or len({tuple(one.params) for one in problems}) > 1:
        return ()
    keys = varying(problems) if len(problems) > 1 else tuple(problems[0].params)
    if len(keys) < 2 or not all(_speaks(one.params[key]) for one in problems for key in keys):
        return ()
    kinds = {tuple(is_number(one.params[key]) for key in keys) for one in problems}
    names = {_joined(one.params, keys) for one in problems}
    return keys if len(kinds) == 1 and len(names) == len(problems) else ()


def _speaks(value: object) -> bool:
    """Whether a value says what it is without its key: sizes and words do, yes and 0.1 do not."""
    return isinstance(value, int | str) and not isinstance(value, bool) and value != ""


def _joined(params: Mapping[str, Any], keys: Sequence[str], *, words: bool = False) -> str:
    """Join sizes by a sign of multiplication, everything else by a space."""
    text = ""
    for before, key in zip((None, *keys), keys, strict=False):
        sizes = before is not None and is_number(params[before]) and is_number(params[key])
        joint = "" if before is None else f" {TIMES} " if sizes else " "
        text += f"{joint}{key if words else params[key]}"
    return text


def _hashable(value: object) -> tuple[str, object]:
    # 1, 1.0 and True are equal in Python, but different words in a spec.
    return type(value).__name__, value
