"""Merged workload of several revisions of a file: each variant names its revision.

Every revision makes inputs of its own; where they hold the same values, they share memory, so that
nothing but the code differs. The right result is the newest revision's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profiler.runner.checks.renewal import tensors_in
from profiler.runner.import_path import importing_from, load_module, search_folders
from profiler.runner.protocol import LAUNCHER, REVISION
from profiler.runner.timing import Launch
from profiler.runner.workload import Workload, workload_of

Parameters = dict[str, Any]


class RevisionFile:
    """The workload of one revision, with modules of its own.

    Modules that its file imports from its folders have the same names as those of other revisions:
    they are in sys.modules only while functions of this revision run.
    """

    def __init__(self, revision: str, file: Path, experiment: str | None) -> None:
        self._folders = search_folders(file)
        self._modules: dict[str, ModuleType] = {}
        try:
            module = load_module(f"revision_{revision}_{file.stem}", file, self.imported())
        except ImportError as error:
            if "relative import" in str(error):
                raise ImportError(
                    f"{error}: {file.name} of revision {revision} is loaded as a file of its "
                    "own; import by the full name of its package"
                ) from error
            raise
        description = {} if experiment is None else {"experiment": experiment}
        with self.imported():
            self.workload: Workload = workload_of(module, description)

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Put the modules of this revision into sys.modules while the body runs."""
        with importing_from(self._folders, self._modules):
            yield

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of this revision that has its modules in sys.modules at each call."""

        def call(*arguments: Any) -> Any:
            with self.imported():
                return function(*arguments)

        return call


def merged_workload(files: Mapping[str, tuple[Path, str | None]]) -> dict[str, Any]:
    """Functions of a workload (docs/workloads.md) whose variants name a revision.

    `files`: file, and experiment in it where it has several, by revision; the newest comes last.
    """
    revisions = {
        revision: RevisionFile(revision, file.resolve(), experiment)
        for revision, (file, experiment) in files.items()
    }
    newest = revisions[next(reversed(revisions))]
    merged = _MergedRevisions(revisions, newest)
    functions: dict[str, Any] = {
        "make_inputs": merged.make_inputs,
        "prepare": merged.prepare,
        "TOLERANCES": {
            dtype: (bound.absolute, bound.relative)
            for dtype, bound in newest.workload.tolerances.items()
        },
        "is_own_reference": merged.is_own_reference,
        "own_check": merged.own_check,
    }
    if newest.workload.expected is not None:
        functions["expected"] = merged.expected
    else:
        functions["reference"] = merged.reference
    if all(revision.workload.named_inputs for revision in revisions.values()):
        functions["named_inputs"] = merged.named_inputs
    for name in ("flops", "bytes", "non_matmul_flops"):
        function = getattr(newest.workload, name)
        if function is not None:
            functions[name] = newest.calling(function)
    if any(revision.workload.other_inputs for revision in revisions.values()):
        functions["other_inputs"] = merged.other_inputs
    return functions


class _MergedRevisions:
    def __init__(self, revisions: Mapping[str, RevisionFile], newest: RevisionFile) -> None:
        self._revisions = revisions
        self._newest = newest

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> dict[str, Any]:
        """Inputs by revision, each made by that revision."""
        return self._inputs_by_revision(
            lambda _, workload: partial(workload.make_inputs, dict(problem), device, seed), seed
        )

    def other_inputs(self, problem: Parameters, inputs: Any, seed: int) -> dict[str, Any]:
        """Inputs of another seed by revision, with all tensors that `inputs` has."""

        def making(revision: str, workload: Workload) -> Callable[[], Any]:
            if workload.other_inputs is not None:
                return partial(workload.other_inputs, dict(problem), inputs[revision], seed)
            device = next(iter(tensors_in(inputs[revision]).values())).device
            return partial(workload.make_inputs, dict(problem), device, seed)

        return self._inputs_by_revision(making, seed)

    def _inputs_by_revision(
        self, making: Callable[[str, Workload], Callable[[], Any]], seed: int
    ) -> dict[str, Any]:
        inputs_by_revision: dict[str, Any] = {}
        for revision, file in self._revisions.items():
            torch.manual_seed(seed)
            inputs = file.calling(making(revision, file.workload))()
            # At once, so that never more than two inputs take memory.
            share_memory(next(iter(inputs_by_revision.values()), inputs), inputs)
            inputs_by_revision[revision] = inputs
        return inputs_by_revision

    def prepare(
        self, variant: Parameters, problem: Parameters, inputs: Any, library: Path | None
    ) -> Launch:
        """Launch of a variant of one revision, on that revision's inputs."""
        file, parameters, own_inputs = self._revision_of(variant, inputs)
        prepare: Callable[..., Launch] = file.calling(file.workload.prepare)
        return prepare(parameters, problem, own_inputs, library)

    def reference(self, problem: Parameters, inputs: Any) -> Any:
        """Right result, by the newest revision."""
        *_, newest = inputs.values()
        function: Any = self._newest.workload.reference
        return self._newest.calling(function)(problem, newest)

    def expected(self, variant: Parameters, problem: Parameters, inputs: Any) -> Any:
        """Right result of a variant and its bounds, by its own revision."""
        file, parameters, own_inputs = self._revision_of(variant, inputs)
        if file.workload.expected is None:
            raise TypeError(f"revision {variant[REVISION]} has no function expected")
        return file.calling(file.workload.expected)(parameters, problem, own_inputs)

    def own_check(
        self, variant: Parameters, problem: Parameters, inputs: Any
    ) -> Callable[[Any], Any] | None:
        """Check of a variant's own revision; None for a comparison with the reference."""
        file, parameters, own_inputs = self._revision_of(variant, inputs)
        if file.workload.own_check is None:
            return None
        check = file.calling(file.workload.own_check)(parameters, problem, own_inputs)
        return None if check is None else file.calling(check)

    def is_own_reference(self, variant: Parameters) -> bool:
        """Whether a variant is the newest revision's baseline, which is the reference."""
        file, parameters, _ = self._revision_of(variant, {})
        is_reference = file.workload.is_own_reference
        return (
            file is self._newest
            and is_reference is not None
            and file.calling(is_reference)(parameters)
        )

    def named_inputs(self, inputs: Any) -> dict[str, torch.Tensor]:
        """Inputs of all revisions that no launch may write, by revision and name."""
        return {
            f"{name} of {revision}": tensor
            for revision, file in self._revisions.items()
            if file.workload.named_inputs is not None and revision in inputs
            for name, tensor in file.calling(file.workload.named_inputs)(inputs[revision]).items()
        }

    def _revision_of(
        self, variant: Parameters, inputs: Any
    ) -> tuple[RevisionFile, Parameters, Any]:
        """File of a variant's revision, the parameters of its functions, and its inputs."""
        revision = variant[REVISION]
        parameters = {
            key: value for key, value in variant.items() if key not in (REVISION, LAUNCHER)
        }
        return self._revisions[revision], parameters, inputs.get(revision)


def share_memory(first_inputs: Any, other_inputs: Any) -> None:
    """Move tensors of other inputs into the memory of equal tensors of the first inputs."""
    first_tensors = tensors_in(first_inputs)
    for place, tensor in tensors_in(other_inputs).items():
        first_tensor = first_tensors.get(place)
        if (
            first_tensor is not None
            and first_tensor is not tensor
            and _are_same(first_tensor, tensor)
        ):
            tensor.data = first_tensor.data


def _are_same(tensor: torch.Tensor, other_tensor: torch.Tensor) -> bool:
    same_layout = (tensor.dtype, tensor.device, tensor.shape, tensor.stride()) == (
        *(other_tensor.dtype, other_tensor.device, other_tensor.shape, other_tensor.stride()),
    )
    return same_layout and bool(torch.equal(tensor, other_tensor))
