"""Sentences on parts of an experiment of functions that change nothing: parameters, tolerances."""

from __future__ import annotations

import difflib
import dis
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from profiler.runner.experiment import (
    ALMOST,
    Experiment,
    Function,
    Parameters,
    VariantFunction,
    defaults_of,
    name_of_value,
    parameters_of,
)
from profiler.runner.variant_options import VariantOptions

_OF_PROBLEMS = frozenset({"inputs", "outputs", "flops", "bytes"})
"""Roles of functions that get the parameters of the problem alone."""
_READ_ALL = frozenset({"locals", "vars", "eval", "exec"})
"""Functions by which another reads parameters that it does not name."""


def unused_parts(experiment: Experiment) -> list[str]:
    """A sentence for each parameter, of problems or of variants, and part that changes nothing."""
    sentences = [
        *_of_problems(experiment),
        *_of_variants(experiment.variants.values()),
        *map(_repeated, experiment.variants.values()),
        *_misspelled(experiment),
        *_beside_check(experiment),
    ]
    return list(filter(None, sentences))


def _repeated(variant: VariantFunction) -> str:
    """Sentence on a variant that is given twice with different options; empty without one."""
    options_by_parameters: dict[str, VariantOptions] = {}
    for parameters, options in variant.combinations():
        key = repr({name: _text(parameters[name]) for name in sorted(parameters)})
        if options_by_parameters.setdefault(key, options) != options:
            return (
                f"{variant.name} is marked twice with the same parameters: only the options of the "
                "decorator next to the function are used. Give one of them another name=."
            )
    return ""


def _misspelled(experiment: Experiment) -> Iterator[str]:
    """Sentences on arguments that nothing gives, and that are almost a problem's parameter.

    Of functions that get nothing else; arguments of a variant may be inputs.
    """
    problems = experiment.problems
    mappings = [problems] if isinstance(problems, Mapping) else problems or ()
    given = {str(name) for mapping in mappings if isinstance(mapping, Mapping) for name in mapping}
    for role in _OF_PROBLEMS & experiment.functions.keys():
        function = experiment.functions[role]
        others = given.difference(parameters_of(function))
        for name, _ in defaults_of(function):
            close = difflib.get_close_matches(name, others, n=1, cutoff=ALMOST)
            if close and name not in given:
                yield f"Nothing gives {role} its argument '{name}'; did you mean '{close[0]}'?"


def _beside_check(experiment: Experiment) -> Iterator[str]:
    """Sentences on what a check of all variants makes needless."""
    for name, parts in {"reference": experiment.functions, "tolerance": experiment.fields}.items():
        if name in parts and "check" in experiment.functions:
            yield f"The {name} is not used: the check alone says which results are right."
    for variant in experiment.variants.values():
        for _, options in variant.uses:
            has_check = options.check is not None or "check" in experiment.functions
            if has_check and options.tolerance is not None:
                yield (
                    f"The tolerance of {variant.name} is not used: a check alone says which of its "
                    "results are right."
                )


def _of_problems(experiment: Experiment) -> Iterator[str]:
    roles = (experiment.functions.get(role) for role in ("inputs", "outputs"))
    functions = [
        *(function for function in roles if function is not None),
        *(variant.function for variant in experiment.variants.values()),
    ]
    for name in _repeating_names(experiment.problems, functions):
        yield (
            f"The parameter '{name}' changes no launch: neither the inputs nor a variant read it, "
            "and problems that differ by it alone are the same."
        )


def _repeating_names(problems: Any, functions: Sequence[Function]) -> list[str]:
    """Names of unread parameters of which several problems have all that is read in common."""
    if isinstance(problems, Mapping):
        return [
            name
            for name, values in problems.items()
            if _differ(values) and not _is_read(name, functions)
        ]
    mappings = [problem for problem in problems or () if isinstance(problem, Mapping)]
    names = dict.fromkeys(name for problem in mappings for name in problem)
    unread = [name for name in names if not _is_read(name, functions)]
    alike: dict[str, list[Parameters]] = {}
    for problem in mappings:
        read = {name: _text(problem[name]) for name in names if name in problem}
        key = repr({name: text for name, text in read.items() if name not in unread})
        alike.setdefault(key, []).append(problem)
    return [
        name
        for name in unread
        if any(_differ([problem.get(name) for problem in group]) for group in alike.values())
    ]


def _of_variants(variants: Iterable[VariantFunction]) -> Iterator[str]:
    for variant in variants:
        grids = (grid for grid, _ in variant.uses)
        names = {name: None for grid in grids for name in grid if _differ(grid[name])}
        for name in names:
            if not _is_read(name, [variant.function]):
                yield (
                    f"The parameter '{name}' changes no launch: {variant.name} does not read it, "
                    "and variants that differ by it alone are the same."
                )


def _differ(values: Any) -> bool:
    """Whether a parameter has several values."""
    return isinstance(values, list | tuple | range) and len(set(map(_text, values))) > 1


def _text(value: Any) -> str:
    return name_of_value(value) or repr(value)


def _is_read(name: str, functions: Iterable[Function]) -> bool:
    return any(_reads(function, name) for function in functions)


def _reads(function: Function, name: str) -> bool:
    """Whether a function reads a parameter; True also where that cannot be seen."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return True
    parameters = inspect.signature(function).parameters
    others = (p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD)
    local_name = name if name in parameters else next(others, None)
    if local_name is None:
        return False
    loads = [step.argval for step in dis.get_instructions(code) if "LOAD_" in step.opname]
    # Since Python 3.13 one instruction may load two names.
    loaded = {name for names in loads for name in (names if isinstance(names, tuple) else [names])}
    return local_name in {*code.co_cellvars, *loaded} or not _READ_ALL.isdisjoint(code.co_names)
