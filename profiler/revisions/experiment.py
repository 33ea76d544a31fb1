"""One experiment of several revisions: each variant once for each, measured in one session.

The experiment of each revision is read from a tree of its own; what is written is an ordinary
experiment file, beside a workload and a space that hand every call on to those of the revision.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import SpecError, UsageError
from profiler.kernels.cuda_file.torch_syntax import split_function
from profiler.model import Cell, Variant
from profiler.planning.cell_filter import select_cells
from profiler.planning.plan import make_plan
from profiler.planning.space import Space, load_space, space_of
from profiler.planning.spec import CudaWorkload, LoadedSpec, ModuleWorkload
from profiler.planning.spec.source import as_yaml
from profiler.planning.spec.workloads import is_file_name
from profiler.revisions.repository import Commit, Repository
from profiler.run_folder.folder import write_atomic
from profiler.runner.protocol import LAUNCHER, REVISION
from profiler.sessions.experiment_files import file_and_name, load_experiment
from profiler.sessions.recorded_sources import recorded_sources

FOLDER = ".revisions"
"""Under the folder of runs: trees of commits, and experiments of several of them."""
_OF_LAUNCH = ("source", "kernel", "launches", "grid", "block", "shared")
"""Settings of a `.cu` file that a variant may have of its own."""
_LONGEST_NAME = 40
_SOURCE_SUFFIXES = ("py", "cu", "cuh", "h", "hpp", "yaml", "yml")
_LONGEST_DIFF = 64 * 1024
"""Characters: a page shows it."""


@dataclass(frozen=True, eq=False)
class Version:
    """An experiment as one commit has it."""

    commit: Commit
    tree: Path
    """Folder with the files of the commit."""
    loaded: LoadedSpec
    space: Space
    cells: tuple[Cell, ...]
    """Those that were asked for."""
    baseline: Variant
    digests: Mapping[str, str]
    """By name of each variant: of all that a launch of it is made of in Python, or in its
    description; the machine code of what is compiled is not in it."""

    @property
    def variants(self) -> dict[str, Variant]:
        """Variants of its cells by name."""
        return {cell.variant.name: cell.variant for cell in self.cells}


@dataclass(frozen=True)
class Wanted:
    """What is asked for of each revision."""

    spec: Path
    """The experiment in the user's working tree; `mine.py:name` names one of several."""
    overrides: tuple[str, ...] = ()
    only: str | None = None


def read_version(repository: Repository, commit: Commit, wanted: Wanted, out: Path) -> Version:
    """The experiment of a commit; `out`: the folder of runs.

    A commit that does not have it gets the file as it lies there now, among its own files. Raises
    SpecError and UsageError where it is wrong at this commit.
    """
    inside = _inside(repository, wanted.spec)
    file, _ = file_and_name(wanted.spec)
    tree = repository.tree(commit, out.resolve() / FOLDER / "trees")
    if file.is_file() and not repository.has(commit, inside.with_name(file.name)):
        (tree / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tree / inside.with_name(file.name))
    try:
        loaded = load_experiment(tree / inside, overrides=wanted.overrides)
        space = space_of(loaded)
        plan = make_plan(loaded, space)
    except SpecError as error:
        words = error.message.replace(f"{tree}{os.sep}", "")
        raise SpecError(f"at {commit.short}: {words}", remedy=error.remedy) from error
    cells = plan.cells
    if wanted.only is not None:
        cells = select_cells(cells, wanted.only, None)
    baseline = next(cell.variant for cell in plan.cells if cell.variant.id == plan.baseline)
    digests = _digests(loaded, cells)
    return Version(commit, tree.resolve(), loaded, space, cells, baseline, digests)


def _inside(repository: Repository, spec: Path) -> Path:
    """Path of the spec in its repository, with the name of an experiment behind it."""
    try:
        return spec.resolve().relative_to(repository.root.resolve())
    except ValueError as error:
        raise UsageError(f"{spec}: lies outside of the repository {repository.root}") from error


def _digests(loaded: LoadedSpec, cells: Sequence[Cell]) -> dict[str, str]:
    """Digest by name of each variant: of its function, else of the workload's files."""
    experiment = loaded.experiment
    sources, _ = recorded_sources(experiment, loaded.base, cells)
    variants = {cell.variant.name: cell.variant for cell in cells}
    if isinstance(experiment.workload, CudaWorkload):
        shared = experiment.workload.model_dump(mode="json")
        files: Mapping[str, str] = {}
    else:
        shared, files = None, sources.files
    return {
        name: _digest(
            sources.variants.get(variant.id) or sorted(files.items()),
            shared,
            dict(variant.params),
            dict(variant.env),
        )
        for name, variant in variants.items()
    }


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def is_compiled(version: Version) -> bool:
    """Whether the profiler compiles a variant of this version before anything runs."""
    return any(version.space.recipe(variant.params) for variant in version.variants.values())


def same_sources(versions: Sequence[Version]) -> tuple[str, ...]:
    """Names of the variants that are made of the same sources in all versions.

    Of what is compiled only a build can tell, which compares machine code.
    """
    if any(map(is_compiled, versions)):
        return ()
    first, *others = versions
    return tuple(
        name
        for name, digest in first.digests.items()
        if others and all(other.digests.get(name) == digest for other in others)
    )


def shared_variants(versions: Sequence[Version]) -> tuple[str, ...]:
    """Names of the variants that all versions have, in the order of the newest."""
    return tuple(
        name for name in versions[-1].variants if all(name in v.variants for v in versions)
    )


def source_changes(repository: Repository, versions: Sequence[Version]) -> str:
    """How sources differ between the oldest and the newest version, as `git diff` prints it.

    Those in the folders of experiment, workload and compiled sources; cut where it is very long.
    """
    folders: set[str] = set()
    for version in versions:
        tree = version.tree
        files = [version.loaded.path, *_named_files(version)]
        inside = [file.resolve() for file in files if file.resolve().is_relative_to(tree)]
        folders |= {file.parent.relative_to(tree).as_posix() for file in inside}
    pathspecs = [
        f":(glob){'' if folder == '.' else f'{folder}/'}**/*.{suffix}"
        for folder in sorted(folders)
        for suffix in _SOURCE_SUFFIXES
    ]
    diff = repository.diff(versions[0].commit, versions[-1].commit, pathspecs)
    return diff if len(diff) <= _LONGEST_DIFF else f"{diff[:_LONGEST_DIFF]}\n[cut here]\n"


def _named_files(version: Version) -> Iterator[Path]:
    """Files that a workload names: its own, and the sources of what is compiled."""
    workload = version.loaded.experiment.workload
    if isinstance(workload, ModuleWorkload):
        yield Path(workload.target(version.loaded.base))
    for variant in version.variants.values():
        recipe = version.space.recipe(variant.params)
        if recipe is not None:
            yield from (*recipe.sources, *recipe.included)


def write_experiment(
    versions: Sequence[Version], variants: Sequence[str], out: Path, changes: str = ""
) -> Path:
    """Write an experiment of these variants at each version, the oldest first; returns its file.

    The baseline is that of the oldest version, or its first variant where that is not among them.
    Problems and settings are those of the
    newest. `changes`: how their sources differ. Raises UsageError where versions do not fit into
    one session.
    """
    newest = versions[-1]
    name = "-".join((newest.loaded.experiment.name[:_LONGEST_NAME], *_ends(versions)))
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


def _ends(versions: Sequence[Version]) -> tuple[str, str]:
    return versions[0].commit.short, versions[-1].commit.short


def version_name(variant: str, commit: Commit, *, several: bool) -> str:
    """Name of a variant at a commit in the experiment of several."""
    return f"{variant} {commit.short}" if several else commit.short


def _data(versions: Sequence[Version], variants: Sequence[str], name: str) -> dict[str, Any]:
    """Values of an experiment file, without workload and variants."""
    newest = versions[-1]
    experiment = newest.loaded.experiment
    several = len(variants) > 1
    old, new = versions[0].commit, newest.commit
    own = versions[0].baseline.name
    baseline = own if own in variants else variants[0]
    kept = ("inputs", "collect", "margin_pct", "tolerance", "build")
    given = experiment.model_dump(mode="json", exclude_unset=True, by_alias=True)
    problems = {cell.problem.name: cell.problem for cell in newest.cells}
    excluded = list(_excluded(versions, variants, tuple(problems)))
    return {
        "name": name,
        "title": f"{experiment.title or experiment.name}: {old.short} and {new.short}",
        "description": f"Old: {old.words}. New: {new.words}.",
        "problems": {
            "list": [{"name": p.name, "params": dict(p.params)} for p in problems.values()]
        },
        "baseline": version_name(baseline, old, several=several),
        **({"exclude": excluded} if excluded else {}),
        **({"questions": ["baseline", "steps"]} if several or len(versions) > 2 else {}),
        **{key: given[key] for key in kept if given.get(key)},
    }


def _excluded(
    versions: Sequence[Version], variants: Sequence[str], problems: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Rules that leave out the problems that a variant has not at every version."""
    several = len(variants) > 1
    for variant in variants:
        planned = [
            {cell.problem.name for cell in version.cells if cell.variant.name == variant}
            for version in versions
        ]
        missing = [problem for problem in problems if not all(problem in has for has in planned)]
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
    """Entries of the list of variants: each at every version, the oldest first."""
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
                "note": version.commit.words,
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
    """Section of the workload and entries of variants, for files of Python."""
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
        # What launches is no part of the machine code: without it, revisions would be taken for
        # the same program where a launch alone was changed.
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


def merged_space(here: Path, spaces: Mapping[str, tuple[str, str, str | None]]) -> dict[str, Any]:
    """Functions of a space whose variants name a revision.

    `spaces`: folder of the experiment from `here`, workload and space, by revision.
    """
    loaded = {
        revision: load_space(ModuleWorkload(module=module, space=space), (here / base).resolve())
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
        "reference": _moved(of_newest["reference"], newest, folder),
    }
    problem_keys = {key for cell in newest.cells for key in cell.problem.params}

    def params_of(version: Version, variant: Variant) -> dict[str, Any]:
        workload = version.loaded.experiment.workload
        if not isinstance(workload, CudaWorkload):
            raise UsageError(f"at {version.commit.short}: the workload is of another kind")
        theirs = workload.model_dump(mode="json")
        params = dict(variant.params)
        for key in problem_keys & params.keys():
            raise UsageError(
                f"{variant.name} is compiled for a value of its problem ({key}): revisions of "
                "such variants cannot be measured side by side",
                remedy=f"Set {key} in the variant, under another name, for one value.",
            )
        if "torch" in params:
            return {**params, "torch": _moved(str(params["torch"]), version, folder)}
        for key in _OF_LAUNCH:
            if key not in params and theirs[key] not in (None, defaults[key]):
                params[key] = _as_parameter(theirs[key])
        if "arguments" not in params and theirs["arguments"] != defaults["arguments"]:
            params["arguments"] = _arguments(theirs["arguments"], defaults["arguments"], version)
        source = version.loaded.base / str(params.get("source", theirs.get("source")))
        return {**params, "source": os.path.relpath(source, folder)}

    return {k: v for k, v in section.items() if v is not None}, _items(
        versions, variants, params_of
    )


def _as_parameter(value: Any) -> Any:
    """A setting of the workload as the value of a variant's parameter."""
    if isinstance(value, list | tuple):
        plain = all(not isinstance(part, dict) for part in value)
        return ", ".join(map(str, value)) if plain else json.dumps(value)
    return value


def _arguments(theirs: Mapping[str, Any], newest: Mapping[str, Any], version: Version) -> str:
    """Arguments of an older kernel by the names of the newest description."""
    for name, described in theirs.items():
        if newest.get(name, ...) != described:
            raise UsageError(
                f"at {version.commit.short}: the argument '{name}' of the kernel is described "
                "otherwise than today: the two cannot share their inputs",
                remedy="Compare revisions since that change.",
            )
    return ", ".join(theirs)


def _moved(expression: str, version: Version, folder: Path) -> str:
    """An expression of torch; a function of a file with the file of its revision."""
    found = split_function(expression)
    if found is None:
        return expression
    file, function = found
    return f"{os.path.relpath(version.loaded.base / file, folder)}:{function}"
