"""One experiment of several revisions, with each variant at each revision, in one session.

What is written is an ordinary experiment file, beside a workload and a space that hand every call
on to those of the revision.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from profiler.errors import UsageError
from profiler.kernels.cuda_file.torch_syntax import split_function
from profiler.model import Variant
from profiler.planning.space import Space, load_space
from profiler.planning.spec import CudaWorkload, ModuleWorkload
from profiler.planning.spec.source import as_yaml
from profiler.planning.spec.workloads import is_file_name
from profiler.revisions.repository import Commit
from profiler.revisions.versions import FOLDER, Version
from profiler.run_folder.documents import write_atomic
from profiler.runner.protocol import LAUNCHER, REVISION

_OF_LAUNCH = ("source", "kernel", "function", "launches", "grid", "block", "shared", "cooperative")
"""Settings of a `.cu` file that a variant may have of its own."""
_LONGEST_NAME = 40


def write_experiment(
    versions: Sequence[Version], variants: Sequence[str], out: Path, changes: str = ""
) -> Path:
    """File of a new experiment of the variants at each version, the oldest first.

    The baseline is that of the oldest version, or its first variant where that is not among them.
    Problems and settings are those of the
    newest. `changes`: how their sources differ. Raises UsageError where versions do not fit into
    one session.
    """
    newest = versions[-1]
    ends = (versions[0].commit.short, newest.commit.short)
    name = "-".join((newest.loaded.experiment.name[:_LONGEST_NAME], *ends))
    folder = out.resolve() / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    workload = newest.loaded.experiment.workload
    if isinstance(workload, CudaWorkload):
        section, items = _cuda_file(versions, variants, folder)
    elif isinstance(workload, ModuleWorkload):
        section, items = _modules(versions, variants, folder)
    else:
        raise UsageError(
            f"{newest.loaded.shown_path}: its workload is a program, which each revision has to "
            "build first",
            remedy="Build both yourself, and give them to one experiment as variants "
            "(docs/own-programs.md).",
        )
    data = _data(versions, variants, name)
    data |= {"workload": section, "variants": {"list": items}}
    document = as_yaml({**data, "changes": changes} if changes.strip() else data)
    file = folder / "experiment.yaml"
    write_atomic(file, f"# Made from {newest.loaded.path.name} at its revisions.\n{document}")
    return file


def version_name(variant: str, commit: Commit, *, several: bool) -> str:
    """Name of a variant at a commit, in the experiment of several versions."""
    return f"{variant} {commit.short}" if several else commit.short


def _data(versions: Sequence[Version], variants: Sequence[str], name: str) -> dict[str, Any]:
    """Values of an experiment file, without workload and variants."""
    newest = versions[-1]
    experiment = newest.loaded.experiment
    several = len(variants) > 1
    old, new = versions[0].commit, newest.commit
    baseline_name = versions[0].baseline.name
    baseline = baseline_name if baseline_name in variants else variants[0]
    kept_keys = ("inputs", "collect", "margin_pct", "tolerance", "build")
    spec_values = experiment.model_dump(mode="json", exclude_unset=True, by_alias=True)
    problems = {cell.problem.name: cell.problem for cell in newest.cells}
    excluded = list(_excluded(versions, variants, tuple(problems)))
    return {
        "name": name,
        "title": f"{experiment.title or experiment.name}: {old.short} and {new.short}",
        "description": f"Old: {old.line}. New: {new.line}.",
        "problems": {
            "list": [{"name": p.name, "params": dict(p.params)} for p in problems.values()]
        },
        "baseline": version_name(baseline, old, several=several),
        **({"exclude": excluded} if excluded else {}),
        **({"questions": ["baseline", "steps"]} if several or len(versions) > 2 else {}),
        **{key: spec_values[key] for key in kept_keys if spec_values.get(key)},
    }


def _excluded(
    versions: Sequence[Version], variants: Sequence[str], problems: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Rules that exclude problems which a variant does not have at every version."""
    several = len(variants) > 1
    for variant in variants:
        problems_by_version = [
            {cell.problem.name for cell in version.cells if cell.variant.name == variant}
            for version in versions
        ]
        common = set.intersection(*problems_by_version)
        missing = [problem for problem in problems if problem not in common]
        if missing:
            names = [version_name(variant, v.commit, several=several) for v in versions]
            yield {
                "name": f"not planned for {variant}",
                "when": {"variant": names, "problem": missing},
            }


def _items(
    versions: Sequence[Version],
    variants: Sequence[str],
    params_of: Callable[[Version, Variant], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Entries of the list of variants: each variant at every version, the oldest first."""
    items = []
    for name in variants:
        for version in versions:
            variant = version.variants[name]
            params = params_of(version, variant)
            launches = params.pop("launches", None)
            item = {
                "name": version_name(name, version.commit, several=len(variants) > 1),
                "params": params,
                "launches": None if launches is None else json.loads(launches),
                "trust": bool(variant.trust),
                "reason": variant.trust,
                "note": version.commit.line,
                "env": dict(variant.env),
                "tags": list(variant.tags),
                "tolerance": {
                    dtype: {"absolute": absolute, "relative": relative}
                    for dtype, (absolute, relative) in variant.tolerance.items()
                },
            }
            items.append({key: value for key, value in item.items() if value})
    return items


# ---- a workload in Python ------------------------------------------------------------------------

_WORKLOAD = '''"""Written by the profiler: hands every call on to the workload of a revision."""

from pathlib import Path

from profiler.runner.revisions.workload import merged_workload

HERE = Path(__file__).parent
FILES = {files}

globals().update(
    merged_workload({{name: (HERE / file, of) for name, (file, of) in FILES.items()}})
)
'''
_SPACE = '''"""Written by the profiler: hands every call on to the space of a revision."""

from pathlib import Path

from profiler.revisions.experiment import merged_space

globals().update(merged_space(Path(__file__).parent, {spaces}))
'''


def _modules(
    versions: Sequence[Version], variants: Sequence[str], folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Section of the workload and entries of variants, for Python files."""
    files, spaces = {}, {}
    for version in versions:
        workload = version.loaded.experiment.workload
        if not isinstance(workload, ModuleWorkload):
            raise UsageError(f"at {version.commit.short}: the workload is of another kind")
        file = _file_of(version, workload)
        files[version.commit.short] = (os.path.relpath(file, folder), workload.experiment)
        base = os.path.relpath(version.loaded.base, folder)
        spaces[version.commit.short] = (base, workload.module, workload.space)
    write_atomic(folder / "workload.py", _WORKLOAD.format(files=repr(files)))
    section = {"module": "./workload.py"}
    if any(version.space.module is not None for version in versions):
        write_atomic(folder / "space.py", _SPACE.format(spaces=repr(spaces)))
        section["space"] = "./space.py"

    def params_of(version: Version, variant: Variant) -> dict[str, Any]:
        for name in (REVISION, LAUNCHER):
            if name in variant.params:
                raise UsageError(f"{variant.name}: the parameter '{name}' needs another name")
        launcher = version.digests[variant.name]
        # The launching file is no part of the machine code: without its digest, revisions that
        # differ in a launch alone would count as the same program.
        return {REVISION: version.commit.short, LAUNCHER: launcher, **variant.params}

    return section, _items(versions, variants, params_of)


def _file_of(version: Version, workload: ModuleWorkload) -> Path:
    """File of a workload in the tree of its commit."""
    if is_file_name(workload.module):
        return Path(workload.target(version.loaded.base))
    raise UsageError(
        f"the workload {workload.module} is a package that is installed: it is the same at every "
        "revision",
        remedy="Name its file, relative to the experiment: ./my_package/workload.py.",
    )


def merged_space(root: Path, spaces: Mapping[str, tuple[str, str, str | None]]) -> dict[str, Any]:
    """Functions of a space whose variants name a revision.

    `spaces`: by revision, the experiment's folder relative to `root`, workload and space.
    """
    loaded = {
        revision: load_space(ModuleWorkload(module=module, space=space), (root / base).resolve())
        for revision, (base, module, space) in spaces.items()
    }
    newest = loaded[next(reversed(loaded))]

    def own(params: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in params.items() if key not in (REVISION, LAUNCHER)}

    def of(params: Mapping[str, Any]) -> Space:
        return loaded.get(str(params[REVISION]), newest)

    return {
        "check_variant": lambda params: of(params).check_variant(own(params)),
        "check_problem": newest.check_problem,
        "check_cell": lambda params, problem: of(params).check_cell(own(params), problem),
        "recipe": lambda params: of(params).recipe(own(params)),
        "check_kernels": lambda params, problem, names: of(params).check_kernels(
            own(params), problem, names
        ),
    }


# ---- a `.cu` file --------------------------------------------------------------------------------


def _cuda_file(
    versions: Sequence[Version], variants: Sequence[str], folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Section of the workload and entries of variants, for a `.cu` file and its description."""
    newest = versions[-1]
    workload = newest.loaded.experiment.workload
    of_newest = workload.model_dump(mode="json", exclude_unset=True, by_alias=True)
    defaults = workload.model_dump(mode="json")
    section = {
        **of_newest,
        "source": os.path.relpath(newest.loaded.base / of_newest["source"], folder)
        if of_newest.get("source")
        else None,
        "reference": _relocated_expression(of_newest["reference"], newest, folder),
    }
    problem_keys = {key for cell in newest.cells for key in cell.problem.params}

    def params_of(version: Version, variant: Variant) -> dict[str, Any]:
        workload = version.loaded.experiment.workload
        if not isinstance(workload, CudaWorkload):
            raise UsageError(f"at {version.commit.short}: the workload is of another kind")
        settings = workload.model_dump(mode="json")
        params = dict(variant.params)
        for key in problem_keys & params.keys():
            raise UsageError(
                f"{variant.name} is compiled for a value of its problem ({key}): revisions of "
                "such variants cannot be measured side by side",
                remedy=f"Set {key} in the variant, under another name, for one value.",
            )
        if "torch" in params:
            return {**params, "torch": _relocated_expression(str(params["torch"]), version, folder)}
        for key in _OF_LAUNCH:
            if key not in params and settings[key] not in (None, defaults[key]):
                params[key] = _as_parameter(settings[key])
        if "arguments" not in params and settings["arguments"] != defaults["arguments"]:
            params["arguments"] = _arguments(settings["arguments"], defaults["arguments"], version)
        source = version.loaded.base / str(params.get("source", settings.get("source")))
        return {**params, "source": os.path.relpath(source, folder)}

    return {k: v for k, v in section.items() if v is not None}, _items(
        versions, variants, params_of
    )


def _as_parameter(value: Any) -> Any:
    """A workload's setting as the value of a variant's parameter."""
    if isinstance(value, list | tuple):
        plain = all(not isinstance(part, dict) for part in value)
        return ", ".join(map(str, value)) if plain else json.dumps(value)
    return value


def _arguments(older: Mapping[str, Any], newest: Mapping[str, Any], version: Version) -> str:
    """Arguments of an older kernel by the names of the newest description."""
    for name, argument in older.items():
        if newest.get(name, ...) != argument:
            raise UsageError(
                f"at {version.commit.short}: the argument '{name}' of the kernel is described "
                "otherwise than today: the two cannot share their inputs",
                remedy="Compare revisions since that change.",
            )
    return ", ".join(older)


def _relocated_expression(expression: str, version: Version, folder: Path) -> str:
    """An expression of torch, or a function of a file at its revision's path."""
    file_and_function = split_function(expression)
    if file_and_function is None:
        return expression
    file, function = file_and_function
    return f"{os.path.relpath(version.loaded.base / file, folder)}:{function}"
