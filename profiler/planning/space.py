"""Loads the torch-free half of a workload, and checks the results of its functions."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from profiler.errors import SpecError, nearest_file
from profiler.kernels.cuda_file.space import CudaFileSpace
from profiler.kernels.recipe import Recipe, architecture_refusal
from profiler.model import Params
from profiler.planning.spec import CudaWorkload, LoadedSpec
from profiler.planning.spec.values import did_you_mean
from profiler.planning.spec.workloads import CommandWorkload, Workload, is_file_name
from profiler.runner.error_text import line_in
from profiler.runner.import_path import (
    importing_from,
    load_module,
    name_clash,
    name_in_package,
    search_folders,
    syntax_excerpt,
)

FUNCTIONS = (
    "variant_name",
    "check_variant",
    "check_problem",
    "check_cell",
    "variant_sets",
    "recipe",
    "check_kernels",
)
"""What a space may define; all of it is optional."""


@dataclass(frozen=True)
class Space:
    """A workload's space; a missing function has a default.

    Every method raises `SpecError` when the workload's own function raises or gives a value of the
    wrong type.
    """

    module: ModuleType | CudaFileSpace | None = None
    arch: str | None = None
    """Architecture that variants are built for (`sm_90`), where it is known: those whose recipe
    needs another one are invalid."""
    capability: str | None = None
    """Compute capability (`9.0`) of the GPU that measures, where it is known: by it counters are
    grouped."""

    def variant_name(self, params: Params) -> str | None:
        """Short form of a variant for people, None where the space has no opinion."""
        name = self._call("variant_name", None, dict(params))
        return None if name is None else self._text("variant_name", name)

    def check_variant(self, params: Params) -> str | None:
        """Reason why this variant is invalid, or None."""
        reason = self._reason("check_variant", dict(params))
        # The launcher of a `.cu` file is for any architecture.
        if reason is not None or self.arch is None or isinstance(self.module, CudaFileSpace):
            return reason
        recipe = self.recipe(params)
        return None if recipe is None else architecture_refusal(recipe, self.arch)

    def check_problem(self, params: Params) -> str | None:
        """Reason why this problem is invalid, or None."""
        return self._reason("check_problem", dict(params))

    def check_cell(self, variant_params: Params, problem_params: Params) -> str | None:
        """Reason why this variant cannot run this problem, or None."""
        return self._reason("check_cell", dict(variant_params), dict(problem_params))

    def variant_sets(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """Named sets of variants, each a tuple of parameter mappings (their values unchecked)."""
        sets = self._call("variant_sets", {})
        if not isinstance(sets, Mapping) or not all(isinstance(name, str) for name in sets):
            raise self._wrong_type("variant_sets", "a mapping of names to lists", sets)
        return {name: self._members(name, members) for name, members in sets.items()}

    def recipe(self, params: Params) -> Recipe | None:
        """Recipe to compile for a variant; None where nothing is compiled."""
        recipe = self._call("recipe", None, dict(params))
        if recipe is not None and not isinstance(recipe, Recipe):
            raise self._wrong_type("recipe", "a profiler.kernels.recipe.Recipe or None", recipe)
        return recipe

    def at_launch(self, params: Params) -> Params | None:
        """Parameters that act at a variant's launch; None where trying recipes finds them."""
        if not isinstance(self.module, CudaFileSpace):
            return None
        return self.module.at_launch(params)

    def check_kernels(
        self, variant_params: Params, problem_params: Params, kernel_names: Sequence[str]
    ) -> str | None:
        """Reason why launched kernels are not those of the variant, or None."""
        return self._reason(
            "check_kernels", dict(variant_params), dict(problem_params), list(kernel_names)
        )

    def _members(self, name: str, members: object) -> tuple[dict[str, Any], ...]:
        if isinstance(members, Sequence) and all(isinstance(member, Mapping) for member in members):
            return tuple(dict(member) for member in members)
        raise self._wrong_type("variant_sets", f"a list of mappings for {name!r}", members)

    def _reason(self, function: str, *arguments: object) -> str | None:
        reason = self._call(function, None, *arguments)
        return None if reason is None else self._text(function, reason)

    def _text(self, function: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._wrong_type(function, "a text that is not empty, or None", value)
        return value

    def _call(self, function: str, default: object, *arguments: object) -> object:
        implementation: Callable[..., object] | None = getattr(self.module, function, None)
        if implementation is None:
            return default
        try:
            return implementation(*arguments)
        except Exception as error:
            argument_text = ", ".join(repr(argument) for argument in arguments)
            raise SpecError(
                f"{self._where}: {function}({argument_text}): {_error_text(error)}",
                remedy=_clash_remedy(error, Path(self._where)),
            ) from error

    def _wrong_type(self, function: str, expected: str, value: object) -> SpecError:
        return SpecError(f"{self._where}: {function} must return {expected}, not {value!r}")

    @property
    def _where(self) -> str:
        return str(getattr(self.module, "__file__", None) or self.module)


def space_of(loaded: LoadedSpec) -> Space:
    """The space of a spec's workload; errors name the spec's line as well."""
    try:
        return load_space(loaded.experiment.workload, loaded.base)
    except SpecError as error:
        raise loaded.error(("workload",), error.message, remedy=error.remedy) from error


def load_space(workload: Workload, base: Path) -> Space:
    """The space of a workload; its file names are relative to `base`.

    Raises `SpecError` where the workload or its space does not exist, cannot be imported, or
    imports torch.
    """
    if isinstance(workload, CommandWorkload):
        return Space()
    if isinstance(workload, CudaWorkload):
        return Space(CudaFileSpace(workload.description(base)))
    if is_file_name(workload.module):
        _existing(base / workload.module, "workload")
    else:
        _require_workload(workload.module)
    name = workload.space or _space_beside(workload.module, base)
    if name is None:
        return Space()
    had_torch = "torch" in sys.modules
    module = _import_file(base / name) if is_file_name(name) else _import_name(name)
    if not had_torch and "torch" in sys.modules:
        raise SpecError(
            f"{module.__file__}: imports torch",
            remedy="A space is read by the orchestrator, which has no torch: "
            "move that to the workload's file.",
        )
    return Space(_checked(module))


def _checked(module: ModuleType) -> ModuleType:
    for name in FUNCTIONS:
        if not callable(getattr(module, name, len)):
            raise SpecError(f"{module.__file__}: {name} must be a function")
    return module


def _space_beside(module: str, base: Path) -> str | None:
    """Name of the module or file `space` in the package of a workload; None without one."""
    if is_file_name(module):
        file = Path(module).with_name("space.py")
        package = (base / file).is_file() and (base / file.with_name("__init__.py")).is_file()
        return str(file) if package and Path(module).name == "workload.py" else None
    name = f"{module}.space"
    return name if _is_module(name) else None


def _require_workload(module: str) -> None:
    """Refuse a dotted name that has no `workload` inside; the workload itself is not imported."""
    if not _is_module(module):
        parent, _, name = module.rpartition(".")
        if parent == "profiler.kernels":
            raise SpecError(
                f"workload '{module}': the package has no studies any more",
                remedy="Those of its repository are named by their files, "
                f"from experiments/: ../kernels/{name}/workload.py",
            )
        raise SpecError(
            f"workload '{module}': there is no such Python package"
            f"{did_you_mean(module, _siblings(parent))}",
            remedy="A file of your own is named with its ending: ./my_workload.py",
        )
    if not _is_module(f"{module}.workload"):
        raise SpecError(f"workload '{module}': this package has no module 'workload'")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False
    except Exception as error:
        raise SpecError(
            f"workload '{name}': its package fails to import: {_error_text(error)}"
        ) from error


def _siblings(parent: str) -> list[str]:
    spec = importlib.util.find_spec(parent) if parent and _is_module(parent) else None
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    return [f"{parent}.{module.name}" for module in pkgutil.iter_modules(folders) if module.ispkg]


def _existing(path: Path, role: str) -> Path:
    if not path.is_file():
        raise SpecError(f"{role} '{path}': there is no such file{nearest_file(path)}")
    return path.resolve()


def _import_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise SpecError(f"space '{name}': {_error_text(error)}") from error


def _import_file(path: Path) -> ModuleType:
    """A user's file, run as a module with a unique name: two files `space.py` must not clash."""
    file = _existing(path, "space")
    module_name = f"_profiler_space_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    name = name_in_package(module_name, file)
    if file.suffix != ".py":
        raise SpecError(f"space '{path}': must be a Python file (.py)")
    try:
        return load_module(name, file, importing_from(search_folders(file)))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = line_in(error, file)
        place = file if line is None else f"{file}:{line}"
        text = f"{_error_text(error)}{syntax_excerpt(error)}"
        raise SpecError(f"{place}: {text}", remedy=_clash_remedy(error, file)) from error


def _clash_remedy(error: BaseException, file: Path) -> str | None:
    """Remedy where a module beside the file hides an installed one that the error names."""
    clash = name_clash(error, file)
    return f"{clash}." if clash else None


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
