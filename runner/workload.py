"""Loading a workload: a module of this repo by its dotted name, or a user's own Python file."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profiler.runner import protocol
from profiler.runner.checks.check import Errors, Tensors, as_tensors
from profiler.runner.checks.renewal import zeroed_inputs
from profiler.runner.experiment import experiment_of
from profiler.runner.functions import FunctionWorkload
from profiler.runner.import_path import OWN_NAME, add_folder, import_file, name_clash
from profiler.runner.protocol import JobCell, Tolerance
from profiler.runner.referee.workload import RefereedWorkload
from profiler.runner.timing import Launch
from profiler.runner.variant_options import ExperimentError

Parameters = dict[str, Any]
Amount = Callable[[Parameters], float | None]
OwnCheck = Callable[[Parameters, Parameters, Any], Callable[[Any], Errors | None] | None]
"""Function of variant, problem and inputs; returns a check, which raises WrongResultError."""


class WorkloadError(Exception):
    """The workload cannot be imported, or lacks a function that every workload has."""


@dataclass(frozen=True)
class Workload:
    """The functions of a workload module; see `docs/workloads.md`."""

    source: Path
    make_inputs: Callable[[Parameters, Any, int], Any]
    reference: Callable[[Parameters, Any], Any] | None
    """None where the workload has `expected`, which then takes its place."""
    prepare: Callable[[Parameters, Parameters, Any, Path | None], Launch]
    expected: Callable[[Parameters, Parameters, Any], Any] | None
    flops: Amount | None
    bytes: Amount | None
    non_matmul_flops: Amount | None
    other_inputs: Callable[[Parameters, Any, int], Any] | None
    """Function of inputs of another seed with the same tensors; None: `make_inputs` is."""
    tolerances: Mapping[str, Tolerance]
    own_check: OwnCheck | None = None
    """Function of a variant's own check; None where results are compared with the reference."""
    is_own_reference: Callable[[Parameters], bool] | None = None
    """Whether the reference is this variant in higher precision; None where no variant is."""
    named_inputs: Callable[[Any], Mapping[str, torch.Tensor]] | None = None
    """Inputs that no launch may write, by name; None where they are unknown."""

    # Functions get copies of the parameters: a change to them lasts for one call alone.

    def inputs_of(self, cell: JobCell, device: torch.device, seed: int) -> Any:
        """Inputs of the problem of a cell."""
        inputs = self.make_inputs(dict(cell.problem_params), device, seed)
        return zeroed_inputs(inputs) if cell.on_zeros else inputs

    def other_inputs_of(self, cell: JobCell, inputs: Any, device: torch.device, seed: int) -> Any:
        """Inputs of another seed, with all tensors of the given inputs."""
        if self.other_inputs is None:
            return self.inputs_of(cell, device, seed)
        new_inputs = self.other_inputs(dict(cell.problem_params), inputs, seed)
        return zeroed_inputs(new_inputs) if cell.on_zeros else new_inputs

    def launch_of(self, cell: JobCell, inputs: Any) -> Launch:
        """Launch of a cell; raises TypeError where `prepare` returns nothing callable."""
        launch = self.prepare(
            dict(cell.variant_params),
            dict(cell.problem_params),
            inputs,
            None if cell.library is None else Path(cell.library),
        )
        if not callable(launch):
            raise TypeError(f"prepare must return a callable, not {type(launch)}")
        return launch

    def own_check_of(self, cell: JobCell, inputs: Any) -> Callable[[Any], Errors | None] | None:
        """Function that checks a cell's result; None where it is compared with the reference."""
        if self.own_check is None:
            return None
        return self.own_check(dict(cell.variant_params), dict(cell.problem_params), inputs)

    def expected_of(
        self, cell: JobCell, inputs: Any, reference: Tensors | None
    ) -> tuple[Tensors, Mapping[str, Tolerance]]:
        """Right result of a cell and its bounds: the problem's, or the variant's own."""
        if reference is not None:
            return reference, self.tolerances
        if self.expected is None:
            raise TypeError("the workload has neither a reference nor an expected result")
        result, (absolute, relative) = self.expected(
            dict(cell.variant_params), dict(cell.problem_params), inputs
        )
        tensors = as_tensors(result, "the expected result")
        return tensors, {"default": Tolerance(float(absolute), float(relative))}

    def amounts(self, problem: protocol.Params) -> dict[str, float | None]:
        """FLOPs and bytes that are declared of a launch; None where they are not declared."""
        functions = {name: getattr(self, name) for name in protocol.AMOUNTS}
        counts = {
            name: None if amount is None else amount(dict(problem))
            for name, amount in functions.items()
        }
        return {name: None if count is None else float(count) for name, count in counts.items()}


def load_workload(
    name: str,
    description: Mapping[str, Any] | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
) -> Workload:
    """Import a workload by dotted name, or by path where the name ends in `.py` or has a slash.

    With a `description`, the module's function `described` makes the workload of it; of a file of
    experiments it names one (EXPERIMENT), and the file of a candidate (CANDIDATE), whose launches
    are judged by `tolerances`. Raises WorkloadError; its cause is the user's own exception where
    there is one.
    """
    is_file = name.endswith(".py") or "/" in name
    try:
        module = import_file(Path(name)) if is_file else _import_module(name)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        clash = name_clash(error, Path(name).resolve()) if is_file else ""
        cause = f"{type(error).__name__}: {error}" + (f" ({clash})" if clash else "")
        raise WorkloadError(f"cannot import workload {Path(name).name}: {cause}") from error
    return workload_of(module, description or {}, tolerances)


def workload_of(
    module: ModuleType,
    description: Mapping[str, Any],
    tolerances: Mapping[str, Tolerance] | None = None,
) -> Workload:
    """The workload of a module that was imported; arguments and errors as of `load_workload`."""
    functions = _functions(module, description, tolerances or {})
    expected = getattr(functions, "expected", None)
    return Workload(
        source=Path(inspect.getfile(module)),
        make_inputs=_function(functions, "make_inputs", "problem, device, seed"),
        reference=None if expected else _function(functions, "reference", "problem, inputs"),
        prepare=_function(functions, "prepare", "variant, problem, inputs, library"),
        expected=expected,
        flops=getattr(functions, "flops", None),
        bytes=getattr(functions, "bytes", None),
        non_matmul_flops=getattr(functions, "non_matmul_flops", None),
        other_inputs=getattr(functions, "other_inputs", None),
        tolerances=_tolerances(functions, module.__name__),
        own_check=getattr(functions, "own_check", None),
        is_own_reference=getattr(functions, "is_own_reference", None),
        named_inputs=getattr(functions, "named_inputs", None),
    )


def _functions(
    module: ModuleType, description: Mapping[str, Any], tolerances: Mapping[str, Tolerance]
) -> Any:
    """The functions of a workload: the functions of the module's experiment, or its own."""
    candidate = description.get(protocol.CANDIDATE)
    if description and protocol.EXPERIMENT not in description and candidate is None:
        return module.described(description)
    try:
        experiment = experiment_of(module, description.get(protocol.EXPERIMENT))
    except ExperimentError as error:
        raise WorkloadError(f"{module.__name__}: {error}") from error
    if candidate is None:
        return module if experiment is None else FunctionWorkload(experiment)
    if experiment is None:
        raise WorkloadError(f"{module.__name__}: the referee judges experiments of functions")
    return RefereedWorkload(experiment, Path(inspect.getfile(module)), Path(candidate), tolerances)


def _import_module(name: str) -> ModuleType:
    """Import a module of this project, or one that is found from the current folder."""
    if name.partition(".")[0] != OWN_NAME:
        add_folder(Path.cwd())
    return importlib.import_module(name)


def _function(module: Any, name: str, arguments: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        raise WorkloadError(f"{module.__name__} has no function {name}({arguments})")
    return function  # type: ignore[no-any-return]  # the signature is the user's promise


def _tolerances(functions: Any, name: str) -> dict[str, Tolerance]:
    bounds_by_dtype = getattr(functions, "TOLERANCES", {})
    try:
        return {
            dtype: Tolerance(float(absolute), float(relative))
            for dtype, (absolute, relative) in bounds_by_dtype.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise WorkloadError(
            f"{name}: TOLERANCES must map dtype names to (absolute, relative): {error}"
        ) from error
