"""An experiment in Python: functions for inputs, variants and reference, and its settings.

Standard library only: a user's file imports it, and so does every process that imports that file.
"""

from __future__ import annotations

import ast
import difflib
import dis
import importlib
import inspect
import itertools
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Integral, Real
from types import ModuleType
from typing import Any, TypeVar, overload

from profiler.runner.variant_options import OPTIONS, ExperimentError, VariantOptions

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
Parameters = Mapping[str, Any]

FUNCTION = "function"
"""Parameter of every variant: the name of its function."""
MAX_COMBINATIONS = 100_000
"""Most combinations: at 25 ms a launch, one block of them would take most of an hour."""
_IMPORTING: ContextVar[bool] = ContextVar("importing", default=False)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_GIVEN_TO_INPUTS = frozenset({"device", "seed"})
ROLES = ("inputs", "outputs", "reference", "check", "flops", "bytes")
"""Functions of an experiment that are no variants."""
_BASELINE = "baseline"
MODEL, NEW_MODEL = "Model", "ModelNew"
"""Class that is the baseline of a task of KernelBench, and how names of the others begin."""
MODEL_INPUTS, _INIT_INPUTS = "get_inputs", "get_init_inputs"
"""Functions of such a task: inputs of the modules' calls, and arguments that make the modules."""
ALMOST = 0.85
"""Least similarity of two names to take one for a misspelling of the other."""
_GIVEN_BY_FUNCTIONS = frozenset({"workload", "variants", "baseline"})
_KEYWORDS = frozenset({"name", "baseline", *OPTIONS})
"""Keywords of the decorator of a variant that are no parameters of the variant."""
_RESERVED = frozenset({FUNCTION, "variant", "problem"})


@dataclass
class VariantFunction:
    """A function that launches variants: one for each combination of its parameters."""

    name: str
    function: Function
    line: int
    uses: list[tuple[Parameters, VariantOptions]] = field(default_factory=list)
    """Of each use of the decorator: parameter → value or list of values, and its options."""
    outer_values: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    """Values that names had when the function was marked, by `_outer_values`; of its check, too."""

    def combinations(self) -> Iterator[tuple[dict[str, Any], VariantOptions]]:
        """Parameters of every variant, in the order of the values, with its options."""
        for grid, options in self.uses:
            values = [_values(value) for value in grid.values()]
            for combination in itertools.product(*values):
                yield dict(zip(grid, combination, strict=True)), options

    def options_of(self, parameters: Parameters) -> VariantOptions:
        """Options of a variant; of the first use where an experiment file made the variant."""
        matching_options = (
            options for variant, options in self.combinations() if variant == parameters
        )
        return next(matching_options, self.uses[0][1])


class Experiment:
    """An experiment as functions of a Python file: inputs, variants, reference.

    `problems`: parameter → value or list of values, of which every combination is a problem; or a
    list of such mappings. All other keyword arguments are keys of the experiment file
    (docs/spec.md), such as `collect`, `tolerance` or `page`.
    """

    def __init__(
        self,
        name: str,
        *,
        problems: Parameters | Iterable[Parameters] | None = None,
        **fields: Any,
    ) -> None:
        for key in _GIVEN_BY_FUNCTIONS.intersection(fields):
            raise ExperimentError(f"{key}: {name} has it from its functions and their decorators")
        caller = sys._getframe(1)
        self.name = name
        if problems is not None and not isinstance(problems, Mapping | str):
            problems = list(problems)  # they are gone through more than once
        self.problems = None if problems in ({}, [{}]) else problems  # one, without parameters
        self.fields = fields
        self.file = _absolute(caller.f_code.co_filename)
        """File or notebook cell that made this experiment."""
        self.line = caller.f_lineno
        self.namespace = caller.f_globals
        """Names of the module or notebook that made this experiment."""
        self.variants: dict[str, VariantFunction] = {}
        """By name of the function."""
        self.baseline: str | None = None
        """Name of the function that ratios refer to; None: the first."""
        self.functions: dict[str, Function] = {}
        """The functions of `ROLES`, as far as given."""
        self.init_inputs: Function | None = None
        """Gives the arguments of the classes that are the variants of a task of KernelBench."""
        self.notes: list[str] = []
        """Sentences on what of the file is not measured."""

    def __repr__(self) -> str:
        return f"<profiler.Experiment {self.name!r} of {len(self.variants)} functions>"

    # ---- decorators ----

    def inputs(self, function: F) -> F:
        """Mark the function that makes the inputs of a problem, from its parameters by name.

        It returns an array, a tuple of the variants' arguments in order, or a mapping of arguments
        by name.
        """
        return self._add("inputs", function)

    def outputs(self, function: F) -> F:
        """Mark the function that allocates the arrays that variants write into.

        It gets what `inputs` gets. They follow the inputs among the arguments of a variant (those
        of a mapping go by name), and are filled with NaN before each check.
        """
        return self._add("outputs", function)

    def reference(self, function: F) -> F:
        """Mark the function that computes the right result, with the arguments of a variant.

        Default: the baseline, on floating-point inputs in float64.
        """
        return self._add("reference", function)

    def check(self, function: F) -> F:
        """Mark the function that tells whether a result is right, in place of the reference.

        It gets the outputs, the inputs, and the parameters of the problem as a mapping; returns
        nothing, or why the result is wrong. A variant may have one of its own (`check=`).
        """
        return self._add("check", function)

    def flops(self, function: F) -> F:
        """Mark the function that gives the number of floating-point operations of a problem."""
        return self._add("flops", function)

    def bytes(self, function: F) -> F:
        """Mark the function that gives the least traffic to device memory, in bytes."""
        return self._add("bytes", function)

    @overload
    def variant(self, function: F, /) -> F: ...
    @overload
    def variant(
        self,
        *,
        name: str | None = None,
        baseline: bool = False,
        setup: bool = False,
        in_place: bool = False,
        check: Function | None = None,
        tolerance: Mapping[str, Any] | None = None,
        when: str | Function | None = None,
        env: Mapping[str, Any] | None = None,
        tags: str | Iterable[str] = (),
        trust: str = "",
        **parameters: Any,
    ) -> Callable[[F], F]: ...
    def variant(
        self, *functions: Any, name: str | None = None, baseline: bool = False, **parameters: Any
    ) -> Any:
        """Mark a function that launches variants, one for each combination of the parameters.

        It takes the inputs, and by name its parameters and the problem's. `setup`: a call
        returns the launch, a function without arguments; compiling and allocating is done once and
        not measured. The other options are those of `VariantOptions` (docs/python.md).
        """
        line = sys._getframe(1).f_lineno
        given = {key: parameters.pop(key) for key in OPTIONS.intersection(parameters)}
        options = VariantOptions(**given)

        def add(function: F) -> F:
            self._add_variant(function, name, parameters, line=line, options=options)
            if baseline:
                self._set_baseline(_name_of(function, name))
            return function

        return add(*functions) if functions else add

    def _add(self, role: str, function: F) -> F:
        if role in self.functions:
            raise ExperimentError(f"{self.name} has two functions for {role}")
        self.functions[role] = function
        return function

    def _set_baseline(self, name: str) -> None:
        if self.baseline not in (None, name):
            raise ExperimentError(f"{self.baseline} and {name} are both called the baseline")
        self.baseline = name

    def _add_variant(
        self,
        function: Function,
        name: str | None,
        grid: Parameters,
        *,
        line: int,
        options: VariantOptions,
    ) -> None:
        name = _name_of(function, name)
        _check_parameters(name, function, grid)
        values = {**_outer_values(options.check), **_outer_values(function)}
        first = self.variants.setdefault(
            name, VariantFunction(name, function, line, outer_values=values)
        )
        if first.function is not function:
            raise ExperimentError(f"two functions are called {name}: give one another name=")
        # In a notebook all functions may be meant to run with what was defined last.
        for other in self.variants.values() if _IMPORTING.get() else ():
            _check_outer_values(other, values)
        first.uses.append((grid, options))

    # ---- description ----

    def description(self) -> dict[str, Any]:
        """JSON-ready description: names, parameters and problems, with lines of the file.

        Raises ExperimentError where a part is missing, or a value has no form in YAML.
        """
        if "inputs" not in self.functions:
            raise ExperimentError(f"{self.name} has no inputs: mark a function with @….inputs")
        if not self.variants:
            raise ExperimentError(f"{self.name} has no variants: mark functions with @….variant")
        if self.problems is None:
            for key in difflib.get_close_matches("problems", self.fields, n=1):
                raise ExperimentError(f"{key}: unknown key; did you mean 'problems'?")
        problems = None if self.problems is None else _plain_problems(self.problems)
        for role in ("inputs", "outputs", "flops", "bytes"):
            if role in self.functions:
                _check_needed(role, self.functions[role], problems)
        self._named_values()  # raises where a name stands for two values
        return {
            "name": self.name,
            "line": self.line,
            "inputs": _first_line(self.functions["inputs"]),
            "fields": json_value(self.fields, "Experiment"),
            "problems": problems,
            "variants": [
                {
                    "name": _variant_name(variant.name, parameters),
                    "params": {FUNCTION: variant.name, **_plain_values(parameters, variant.name)},
                    "note": _first_line(variant.function),
                    **_option_keys(variant.name, options),
                    "line": variant.line,
                }
                for variant in self.variants.values()
                for parameters, options in variant.combinations()
            ],
            "baseline": self._baseline_variant(),
            "has_modules": self.init_inputs is not None,
        }

    def file_values(self, parameters: Parameters) -> dict[str, Any]:
        """Parameters of a variant or problem, with the file's values in place of their names."""
        return {
            key: self._values_by_name.get((key, value), value) for key, value in parameters.items()
        }

    @cached_property
    def _values_by_name(self) -> dict[tuple[str, Any], Any]:
        return self._named_values()

    def _named_values(self) -> dict[tuple[str, Any], Any]:
        """Values that are no text or number, by parameter and name.

        Raises ExperimentError where a parameter has another value of the same name.
        """
        grids = [grid for variant in self.variants.values() for grid, _ in variant.uses]
        if isinstance(self.problems, Mapping):
            grids.append(self.problems)
        values = [(key, value) for grid in grids for key in grid for value in _values(grid[key])]
        if isinstance(self.problems, list):
            problem_mappings = (
                problem for problem in self.problems if isinstance(problem, Mapping)
            )
            values += [pair for problem in problem_mappings for pair in problem.items()]
        named_values = ((key, name_of_value(value), value) for key, value in values)
        by_name: dict[tuple[str, Any], Any] = {
            (key, name): value for key, name, value in named_values if name is not None
        }
        for key, value in values:
            name = value if isinstance(value, str) else name_of_value(value)
            if (key, name) in by_name and not _are_same(by_name[key, name], value):
                raise ExperimentError(
                    f"{key} has two values called {name}: give texts that tell them apart, and "
                    "look the values up by them in the function"
                )
        return by_name

    def baseline_function(self) -> VariantFunction:
        """Function of the variant that ratios refer to."""
        name = next(iter(self.variants)) if self.baseline is None else self.baseline
        return self.variants[name]

    def _baseline_variant(self) -> str | None:
        """Name of the baseline's variant; None where no function is called the baseline."""
        if self.baseline is None:
            return None
        parameters = list(self.variants[self.baseline].combinations())
        if len(parameters) > 1:
            raise ExperimentError(
                f"{self.baseline} is the baseline and stands for {len(parameters)} variants: "
                "give each of its parameters one value"
            )
        return _variant_name(self.baseline, parameters[0][0])

    # ---- running it ----

    def run(self, **options: Any) -> Any:
        """Measure in child processes as the command line does; returns a `profiler.Run`.

        Options are those of `profiler.python.run.run` (docs/python.md).
        """
        if _IMPORTING.get():
            raise ExperimentError(
                f"{self.name}.run() is called while its file is imported to be measured: "
                'put it under `if __name__ == "__main__":`'
            )
        # By name: the package that measures is above this module, and the runner loads none of it.
        module: Any = importlib.import_module("profiler.python.run")
        return module.run(self, **options)


def experiments_in(values: Iterable[Any]) -> list[Experiment]:
    """Experiments among the values of a module or notebook, each once."""
    return list({id(value): value for value in values if isinstance(value, Experiment)}.values())


def experiment_of(module: ModuleType, name: str | None = None) -> Experiment | None:
    """The experiment that a module defines, by its name where it has several; None without one.

    A module without one that has a function `inputs` is one itself (`_experiment_of_functions`), as
    is a task of KernelBench (`_experiment_of_modules`).
    Raises ExperimentError where it has no such experiment, and where it has several and none is
    named.
    """
    experiments = experiments_in(vars(module).values())
    if not experiments and inspect.isfunction(getattr(module, "inputs", None)):
        experiments = [_experiment_of_functions(module)]
    elif not experiments and {MODEL, MODEL_INPUTS} <= vars(module).keys():
        experiments = [_experiment_of_modules(module)]
    names = [experiment.name for experiment in experiments]
    repeated_names = [repeated for repeated in names if names.count(repeated) > 1]
    if repeated_names and name in (None, *repeated_names):
        raise ExperimentError(f"two experiments are called {name or repeated_names[0]}")
    if name is not None and name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = (
            f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(names) or 'none'}"
        )
        raise ExperimentError(f"the file has no experiment {name}{hint}")
    if name is None and len(experiments) > 1:
        file = os.path.basename(experiments[0].file)  # noqa: PTH119 - of text
        raise ExperimentError(
            f"{len(experiments)} experiments in one file ({', '.join(names)}): name one, as in "
            f"{file}:{names[0]}"
        )
    return next((experiment for experiment in experiments if name in (None, experiment.name)), None)


def _experiment_of_functions(module: ModuleType) -> Experiment:
    """An experiment named after its file: every public function that stands there is a variant.

    Without those of `ROLES` and helpers (`_helpers`). A parameter whose default is a list has each
    of its values: of `inputs` they are the problems. The baseline is the function `baseline`, else
    the first.
    Raises ExperimentError where two have one name: Python forgets the first.
    """
    file = _absolute(str(module.__file__))
    body = ast.parse(inspect.getsource(module)).body
    names = [statement.name for statement in body if isinstance(statement, ast.FunctionDef)]
    for name in names:
        if names.count(name) > 1:
            raise ExperimentError(f"two functions are called {name}: give one another name")
    helpers = _helpers(body)
    experiment = Experiment(
        _name_of_file(file),
        problems=dict(defaults_of(vars(module)["inputs"])) or None,
    )
    experiment.file, experiment.line, experiment.namespace = file, 1, vars(module)
    for name, function in vars(module).items():
        if name.startswith("_") or name in helpers or not _is_defined_in(function, module):
            continue
        if name in ROLES:
            experiment.functions[name] = function
            continue
        grid = {key: value for key, value in defaults_of(function) if isinstance(value, list)}
        line = inspect.unwrap(function).__code__.co_firstlineno
        experiment._add_variant(function, name, grid, line=line, options=VariantOptions())
    if _BASELINE in experiment.variants:
        experiment.baseline = _BASELINE
    experiment.notes = list(_notes_on_functions(module, body, experiment))
    return experiment


def _helpers(body: Iterable[ast.stmt]) -> list[str]:
    """Public functions that are no variants.

    Decorators of others, those that cannot be called as the others are (`called_otherwise`), and
    those that take nothing, where `inputs` returns something for variants to take.
    """
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    has_inputs = all(_returns_a_value(f) for f in functions if f.name == "inputs")
    decorators = {name for function in functions for name in _decorator_names(function)}
    others = decorators | called_otherwise(body).keys()
    return [
        function.name
        for function in functions
        if function.name in others or (has_inputs and takes_nothing(function))
        if function.name not in ROLES and not function.name.startswith("_")
    ]


def _decorator_names(function: ast.FunctionDef) -> Iterator[str]:
    """Names of a function's decorators, with or without arguments."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Name):
            yield called.id


def callers_by_name(body: Iterable[ast.stmt]) -> dict[str, str]:
    """First function or class of a file that calls a name, by that name.

    Without functions that take nothing, such as tests of variants.
    """
    callers: dict[str, str] = {}
    for caller in (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)):
        if isinstance(caller, ast.FunctionDef) and takes_nothing(caller):
            continue
        calls = (node.func for node in ast.walk(caller) if isinstance(node, ast.Call))
        for called in (node.id for node in calls if isinstance(node, ast.Name)):
            if called != caller.name:
                callers.setdefault(called, caller.name)
    return callers


def called_otherwise(body: Iterable[ast.stmt]) -> dict[str, str]:
    """A caller of each function that takes another number of inputs than functions nobody calls.

    None where a function may take any number.
    """
    named = {f.name: f for f in body if isinstance(f, ast.FunctionDef) and not takes_nothing(f)}
    inputs = named.get("inputs")
    problem = [] if inputs is None else [argument.arg for argument in _parameters(inputs)]
    counts = {
        name: None if f.args.vararg or f.args.kwarg else _input_count(f, problem)
        for name, f in named.items()
        if not (name.startswith("_") or name in (*ROLES, _BASELINE) or f.decorator_list)
    }
    callers = callers_by_name(body)
    taken = {count for name, count in counts.items() if name not in callers}
    if not taken or None in taken:
        return {}
    return {
        name: callers[name]
        for name, count in counts.items()
        if name in callers and count is not None and count not in taken
    }


def _input_count(function: ast.FunctionDef, problem: Container[str]) -> int:
    """Number of parameters without a default that are not named after those of the problem."""
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args]
    required = places[: len(places) - len(arguments.defaults)]
    required += [
        a for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not d
    ]
    return sum(argument.arg not in problem for argument in required)


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def takes_nothing(function: ast.FunctionDef) -> bool:
    """Whether a function has no parameters, so that it is a helper, which gets no inputs."""
    return not any(ast.iter_child_nodes(function.args))


def _returns_a_value(function: ast.FunctionDef) -> bool:
    returns = (n for n in ast.walk(function) if isinstance(n, ast.Return | ast.Yield))
    return any(node.value is not None for node in returns)


def helper_notes(callers: Mapping[str, str], variants: Container[str]) -> Iterator[str]:
    """Sentences on variants that others call, as they may be helpers; none on `baseline`."""
    for name, caller in callers.items():
        if name in variants and name != _BASELINE:
            yield (
                f"{name} is measured as a variant, and {caller} calls it: the name of a helper "
                "begins with an underscore."
            )


def _experiment_of_modules(module: ModuleType) -> Experiment:
    """An experiment named after its file, whose variants are classes (runner/module_tasks.py)."""
    tasks: Any = importlib.import_module("profiler.runner.module_tasks")  # loads torch
    names = vars(module)
    file = _absolute(str(module.__file__))
    experiment = Experiment(_name_of_file(file))
    experiment.file, experiment.line, experiment.namespace = file, 1, names
    experiment.functions["inputs"] = names[MODEL_INPUTS]
    experiment.init_inputs = names.get(_INIT_INPUTS, list)
    for name, kind in names.items():
        if name == MODEL or name.startswith(NEW_MODEL):
            function = partial(tasks.launch_with_inputs, kind, experiment.init_inputs)
            line = 1 if kind.__module__ != module.__name__ else inspect.getsourcelines(kind)[1]
            options = VariantOptions(setup=True)
            experiment._add_variant(function, name, {}, line=line, options=options)
    experiment.baseline = MODEL
    return experiment


def _notes_on_functions(
    module: ModuleType, body: Sequence[ast.stmt], experiment: Experiment
) -> Iterator[str]:
    """Sentences on functions of a file that are no variants, or may not be meant as such."""
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    read_names = _read_names(body)
    for name in (function.name for function in functions if function.decorator_list):
        value = vars(module).get(name)
        is_private = name.startswith("_") or name in read_names
        if _looks_like_variant(value) and not is_private:
            yield (
                f"{name} is no variant: its decorator makes no function of it, but a "
                f"{type(value).__name__}. A function may call it; a name that begins with an "
                "underscore is never one."
            )
    yield from _notes_on_values(module, body, experiment)
    loops = (statement.body for statement in body if isinstance(statement, ast.For | ast.While))
    for statement in itertools.chain(*loops):
        if isinstance(statement, ast.FunctionDef) and statement.name in experiment.variants:
            yield f"{statement.name} is defined in a loop: only its last definition is measured."
    yield from helper_notes(callers_by_name(body), experiment.variants.keys())
    for name, caller in called_otherwise(body).items():
        yield f"{name} is no variant: {caller} calls it, and it takes another number of inputs."
    for name in _helpers(body):
        if name not in read_names:
            yield f"{name} is no variant: it takes no inputs."
    absent = sorted({*ROLES, _BASELINE} - vars(module).keys())
    for name in experiment.variants:
        for meant in difflib.get_close_matches(name.lower(), absent, n=1, cutoff=ALMOST):
            yield f"{name} is measured as a variant; did you mean {meant}?"


def _notes_on_values(
    module: ModuleType, body: Sequence[ast.stmt], experiment: Experiment
) -> Iterator[str]:
    """Sentences on names that a file gives a function of another's, and does not read."""
    read_names = _read_names(body)
    assigned = (target for statement in body for target in getattr(statement, "targets", ()))
    for name in (target.id for target in assigned if isinstance(target, ast.Name)):
        value = vars(module).get(name)
        is_plain = callable(value) and not (inspect.isclass(value) or hasattr(value, "cache_info"))
        is_private = name.startswith("_") or name in read_names
        if is_plain and not is_private and name not in experiment.variants:
            yield (
                f"{name} is no variant: only functions that the file defines are. A function may "
                "call it."
            )


def _read_names(body: Iterable[ast.stmt]) -> set[str]:
    """Names that a file reads."""
    nodes = itertools.chain(*map(ast.walk, body))
    names = (node for node in nodes if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _looks_like_variant(value: Any) -> bool:
    """Whether a value is called as a function is: no kernel with a grid, and no cached helper."""
    is_kernel, is_cached = hasattr(value, "__getitem__"), hasattr(value, "cache_info")
    return callable(value) and not (inspect.isfunction(value) or is_kernel or is_cached)


def _outer_values(function: Function | None) -> dict[tuple[int, str], Any]:
    """Values of the names that a function looks up outside when it runs, by place and name."""
    plain: Any = function if function is None else inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return {}
    module = plain.__globals__
    loaded = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    values = {(id(module), name): module[name] for name in loaded if name in module}
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        with suppress(ValueError):  # of a name that has no value yet
            values[id(cell), name] = cell.cell_contents
    return values


def _check_outer_values(function: VariantFunction, values: Mapping[tuple[int, str], Any]) -> None:
    """Raise ExperimentError where a name has another value now than when a function was marked."""
    for place, before in function.outer_values.items():
        after = values.get(place, before)
        is_equal = isinstance(before, str | int | float) and before == after
        if before is not None and before is not after and not is_equal:
            name, is_own = place[1], place in _outer_values(function.function)
            header = f"def {function.name}(" if is_own else "check=lambda "
            raise ExperimentError(
                f"{function.name} would {'run' if is_own else 'be checked'} with a later {name}: "
                f"names are looked up when a function runs. Give each {name} a name of its own, or "
                f"bind it: {header}…, {name}={name}{')' * is_own}"
            )


def _name_of_file(file: str) -> str:
    """Name of an experiment from its file's name, in the characters of experiment names."""
    stem = os.path.splitext(os.path.basename(file))[0]  # noqa: PTH119, PTH122 - of text
    plain_stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^\w.-]+", "-", plain_stem).strip("_.-")[:64] or "experiment"


def _is_defined_in(value: Any, module: ModuleType) -> bool:
    """Whether a value is a function that a module defines, and does not import."""
    return inspect.isfunction(value) and value.__module__ == module.__name__


def defaults_of(function: Function) -> Iterator[tuple[str, Any]]:
    """Default values of the parameters of a function that have one, by name."""
    for name, parameter in parameters_of(function).items():
        if parameter.default is not parameter.empty and name not in _GIVEN_TO_INPUTS:
            yield name, parameter.default


@contextmanager
def importing() -> Iterator[None]:
    """Import a user's file inside: `run()` of its experiment raises ExperimentError there."""
    token = _IMPORTING.set(True)
    try:
        yield
    finally:
        _IMPORTING.reset(token)


def json_value(value: Any, where: str) -> Any:
    """JSON of a value: tuples and ranges as lists; ExperimentError for any other type."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Integral | Real):  # of NumPy
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item, f"{where}: {key}") for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [json_value(item, where) for item in value]
    raise ExperimentError(
        f"{where}: {value!r} is no text, number, True, False or None; "
        "give its name, and look it up in the function"
    )


def name_of_value(value: Any) -> str | None:
    """Text for a parameter's value in an experiment file; None where the value itself may stand.

    `64x128` of a tuple, `float16` of a dtype of torch, the name of a function, a class or a member
    of an enumeration, also one of C++ such as `SDPBackend`. None also of what has no name.
    """
    if value is None or isinstance(value, str | bool | int | float | Integral | Real):
        return None
    if isinstance(value, list | tuple):
        return "x".join(str(part) for part in value) or None
    text = str(value)
    return text.removeprefix("torch.") if text.startswith("torch.") else _own_name(value)


def _are_same(value: Any, other_value: Any) -> bool:
    """Whether two values of one name are the same; a list is the same as a tuple of its items."""
    if isinstance(value, list | tuple) and isinstance(other_value, list | tuple):
        return list(value) == list(other_value)
    return value is other_value or (type(value) is type(other_value) and bool(value == other_value))


def _own_name(value: Any) -> str | None:
    own_name = getattr(value, "__name__", None)
    if isinstance(own_name, str) and own_name.isidentifier():
        return own_name
    member_name = getattr(value, "name", None)
    return member_name if isinstance(member_name, str) and member_name else None


def _plain_values(parameters: Parameters, where: str) -> dict[str, Any]:
    """Parameters with a value each, as an experiment file has them."""
    return {
        str(key): name_of_value(value) or json_value(value, f"{where}: {key}")
        for key, value in parameters.items()
    }


def _plain_problems(problems: Any) -> Any:
    """Problems of an experiment file: a mapping to lists of values, or a list of mappings."""
    if not isinstance(problems, Mapping):
        return [
            _plain_values(problem, "problems") if isinstance(problem, Mapping) else problem
            for problem in problems
        ]
    return {
        str(key): [
            name_of_value(value) or json_value(value, f"problems: {key}")
            for value in _values(values)
        ]
        if isinstance(values, list | tuple | range)
        else name_of_value(values) or json_value(values, f"problems: {key}")
        for key, values in problems.items()
    }


def accepted_arguments(
    function: Function, values: Parameters, *, positional: int = 0
) -> dict[str, Any]:
    """Named values that a function takes by name, after so many positional ones."""
    names, taken = _parameter_names(function), positional_names(function)[:positional]
    return {
        name: value
        for name, value in values.items()
        if name not in taken and (names is None or name in names)
    }


def _parameter_names(function: Function) -> frozenset[str] | None:
    """Names by which a function takes arguments; None where all names, empty where unknown."""
    parameters = parameters_of(function).values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters if parameter.kind in _BY_NAME)


def call_fault(function: Callable[..., Any], *positional: Any, **by_name: Any) -> str:
    """Why a function cannot be called with these arguments; empty if it can, or may."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # as functions written in C may have none
        return ""
    try:
        signature.bind(*positional, **by_name)
    except TypeError as error:
        return str(error)
    return ""


def positional_only(function: Function, values: Parameters, positional: int = 0) -> dict[str, Any]:
    """Values by name of positional-only parameters, after the first `positional` parameters.

    Up to the first parameter without a value.
    """
    later_parameters = list(parameters_of(function).values())[positional:]
    leading_parameters = itertools.takewhile(
        lambda p: p.kind is p.POSITIONAL_ONLY and p.name in values, later_parameters
    )
    return {parameter.name: values[parameter.name] for parameter in leading_parameters}


def positional_names(function: Function) -> tuple[str, ...]:
    """Names of the positional arguments of a function; empty where they are unknown."""
    parameters = parameters_of(function).values()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, _BY_NAME[0]))


def parameters_of(function: Function) -> Mapping[str, inspect.Parameter]:
    """Parameters of a function; empty for a function that is written in C.

    Of a module of torch the parameters of `forward`; of its operators and functions of autograd,
    which take any arguments, none; of a function compiled by TorchScript its schema's.
    """
    function = function if inspect.isroutine(function) else getattr(function, "forward", function)
    schema = getattr(getattr(function, "schema", None), "arguments", None)
    if schema is not None:
        names = [argument.name for argument in schema if argument.name != "self"]
        return {name: inspect.Parameter(name, _BY_NAME[0]) for name in names}
    is_operator = type(function).__module__ == "torch._ops"
    if is_operator or getattr(function, "__qualname__", "") == "Function.apply":
        return {}
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _check_needed(role: str, function: Function, problems: Any) -> None:
    """Raise where a function that is called for each problem needs what no problem has."""
    problem_list = problems if isinstance(problems, list) else [problems or {}]
    problem_parameters = {
        str(key) for problem in problem_list if isinstance(problem, dict) for key in problem
    }
    for name, parameter in parameters_of(function).items():
        needed = parameter.kind in _BY_NAME and parameter.default is parameter.empty
        if needed and name not in problem_parameters | _GIVEN_TO_INPUTS:
            hint = _did_you_mean(name, problem_parameters)
            raise ExperimentError(f"the {role} take {name}, which no problem has{hint}")


def _did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """The known name that a misspelled one is nearest to, as a question; empty without one."""
    close = difflib.get_close_matches(name, known_names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _absolute(file: str) -> str:
    """Absolute path of a file; the name of a cell as it is."""
    return os.path.abspath(file) if os.path.isfile(file) else file  # noqa: PTH100, PTH113 - of text


def _check_parameters(name: str, function: Function, grid: Parameters) -> None:
    names = _parameter_names(function)
    for parameter, value in grid.items():
        if parameter in _RESERVED:
            raise ExperimentError(f"{name}: a parameter cannot be called {parameter}")
        if names and parameter not in names:
            hint = _did_you_mean(parameter, {*_KEYWORDS, *names})
            raise ExperimentError(f"{name} takes no argument {parameter}{hint}")
        if not _values(value):
            raise ExperimentError(f"{name}: {parameter} has no values")
    count = math.prod(len(_values(value)) for value in grid.values())
    if count > MAX_COMBINATIONS:
        raise ExperimentError(f"{name}: {count} combinations are more than {MAX_COMBINATIONS}")


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple | range) else [value]


def _name_of(function: Function, name: str | None) -> str:
    function_name = name or getattr(function, "__name__", None)
    if function_name is None:
        raise ExperimentError(f"{function!r} has no name: give it one with name=")
    return str(function_name)


def _variant_name(function: str, parameters: Parameters) -> str:
    parameter_texts = {key: name_of_value(value) or value for key, value in parameters.items()}
    return " ".join([function, *(f"{key}={value}" for key, value in parameter_texts.items())])


def _option_keys(name: str, options: VariantOptions) -> dict[str, Any]:
    """Options of a variant as keys of an experiment file."""
    try:
        given = options.spec_keys()
    except ExperimentError as error:
        raise ExperimentError(f"{name}: {error}") from None
    keys: dict[str, Any] = json_value(given, name)
    return keys


def _first_line(function: Function) -> str:
    """First line of a function's docstring; empty without one."""
    text = inspect.getdoc(function) if inspect.isfunction(function) else None
    return text.partition("\n")[0] if text else ""
