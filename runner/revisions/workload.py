"""One workload of several revisions of a file: each variant names whose it is.

Every revision makes inputs of its own; where they hold the same values, they share memory, so that
nothing but the code differs. The right result is that of the newest revision.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from profiler.runner.checks.renewal import tensors_in
from profiler.runner.experiment import importing
from profiler.runner.import_path import importing_from, module_spec, search_folders
from profiler.runner.protocol import LAUNCHER, REVISION
from profiler.runner.timing import Launch
from profiler.runner.workload import Workload, workload_of

Parameters = dict[str, Any]


class RevisionFile:
    """The workload of one revision, with modules of its own.

    What its file imports from its folders has the names that the files of other revisions import
    theirs by: it stands in sys.modules only while functions of this revision run.
    """

    def __init__(self, revision: str, file: Path, experiment: str | None) -> None:
        self._folders = search_folders(file)
        self._modules: dict[str, ModuleType] = {}
        name = f"revision_{revision}_{file.stem}"
        spec = module_spec(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"not a Python file: {file.name}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and compilers look their module up by name
        with self.imported():
            try:
                with importing():
                    spec.loader.exec_module(module)
            except ImportError as error:
                if "relative import" in str(error):
                    raise ImportError(
                        f"{error}: {file.name} of revision {revision} is loaded as a file of its "
                        "own; import by the full name of its package"
                    ) from error
                raise
            description = {} if experiment is None else {"experiment": experiment}
            self.workload: Workload = workload_of(module, description)

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Let the modules of this revision stand for their names while the body runs."""
        with importing_from(self._folders, self._modules):
            yield

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of this revision that finds its own modules when it is called."""

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
    merged = _Merged(revisions, newest)
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


class _Merged:
    def __init__(self, revisions: Mapping[str, RevisionFile], newest: RevisionFile) -> None:
        self._revisions = revisions
        self._newest = newest

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> dict[str, Any]:
        """Inputs by revision, each made as that one makes them."""
        return self._made(
            lambda _, workload: partial(workload.make_inputs, dict(problem), device, seed), seed
        )

    def other_inputs(self, problem: Parameters, inputs: Any, seed: int) -> dict[str, Any]:
        """Inputs of another seed by revision, with all tensors that `inputs` has."""

        def making(revision: str, workload: Workload) -> Callable[[], Any]:
            if workload.other_inputs is not None:
                return partial(workload.other_inputs, dict(problem), inputs[revision], seed)
            device = next(iter(tensors_in(inputs[revision]).values())).device
            return partial(workload.make_inputs, dict(problem), device, seed)

        return self._made(making, seed)

    def _made(
        self, making: Callable[[str, Workload], Callable[[], Any]], seed: int
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for revision, file in self._revisions.items():
            torch.manual_seed(seed)
            inputs = file.calling(making(revision, file.workload))()
            # At once, so that there is never memory for more than two of them.
            share_memory(next(iter(made.values()), inputs), inputs)
            made[revision] = inputs
        return made

    def prepare(
        self, variant: Parameters, problem: Parameters, inputs: Any, library: Path | None
    ) -> Launch:
        """Launch of a variant of one revision, on that revision's inputs."""
        file, own, mine = self._of(variant, inputs)
        prepare: Callable[..., Launch] = file.calling(file.workload.prepare)
        return prepare(own, problem, mine, library)

    def reference(self, problem: Parameters, inputs: Any) -> Any:
        """Right result, by the newest revision."""
        *_, newest = inputs.values()
        function: Any = self._newest.workload.reference
        return self._newest.calling(function)(problem, newest)

    def expected(self, variant: Parameters, problem: Parameters, inputs: Any) -> Any:
        """Right result of a variant and its bounds, by its own revision."""
        file, own, mine = self._of(variant, inputs)
        if file.workload.expected is None:
            raise TypeError(f"revision {variant[REVISION]} has no function expected")
        return file.calling(file.workload.expected)(own, problem, mine)

    def own_check(
        self, variant: Parameters, problem: Parameters, inputs: Any
    ) -> Callable[[Any], Any] | None:
        """Check of a variant's own revision; None where the reference tells."""
        file, own, mine = self._of(variant, inputs)
        if file.workload.own_check is None:
            return None
        check = file.calling(file.workload.own_check)(own, problem, mine)
        return None if check is None else file.calling(check)

    def is_own_reference(self, variant: Parameters) -> bool:
        """Whether a variant is the newest revision's baseline, which is the reference."""
        file, own, _ = self._of(variant, {})
        asked = file.workload.is_own_reference
        return file is self._newest and asked is not None and file.calling(asked)(own)

    def named_inputs(self, inputs: Any) -> dict[str, torch.Tensor]:
        """Inputs of all revisions that no launch may write, by revision and name."""
        return {
            f"{name} of {revision}": tensor
            for revision, file in self._revisions.items()
            if file.workload.named_inputs is not None and revision in inputs
            for name, tensor in file.calling(file.workload.named_inputs)(inputs[revision]).items()
        }

    def _of(self, variant: Parameters, inputs: Any) -> tuple[RevisionFile, Parameters, Any]:
        """File of a variant's revision, the parameters that it knows, and its inputs."""
        revision = variant[REVISION]
        own = {key: value for key, value in variant.items() if key not in (REVISION, LAUNCHER)}
        return self._revisions[revision], own, inputs.get(revision)


def share_memory(first: Any, other: Any) -> None:
    """Let the tensors of other inputs lie where those of the first do that hold the same."""
    theirs = tensors_in(first)
    for place, tensor in tensors_in(other).items():
        same = theirs.get(place)
        if same is not None and same is not tensor and _are_same(same, tensor):
            tensor.data = same.data


def _are_same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    same_layout = (tensor.dtype, tensor.device, tensor.shape, tensor.stride()) == (
        *(other.dtype, other.device, other.shape, other.stride()),
    )
    return same_layout and bool(torch.equal(tensor, other))
