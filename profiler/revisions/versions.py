"""An experiment at one git revision, and common variants and sources of several.

Each is read from a tree of its own: the files of its commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler.errors import SpecError, UsageError, experiment_inside, nearest_file
from profiler.kernels.recipe import Recipe
from profiler.model import Cell, Variant
from profiler.notices import first_names
from profiler.planning.cell_filter import select_cells
from profiler.planning.plan import make_plan
from profiler.planning.space import Space, space_of
from profiler.planning.spec import CudaWorkload, LoadedSpec, ModuleWorkload
from profiler.revisions.repository import Commit, Repository
from profiler.sessions.builds.libraries import build_variants
from profiler.sessions.experiment_files import file_and_name, load_experiment
from profiler.sessions.recorded_sources import recorded_sources
from profiler.sessions.sources import modules_elsewhere

FOLDER = ".revisions"
"""Folder under that of runs for trees of commits, and experiments of several commits."""
_SOURCE_SUFFIXES = ("py", "cu", "cuh", "h", "hpp", "yaml", "yml")
_DOCUMENTS = (".md", ".rst")
_LOADS = re.compile(r"\b(exec|import_module|run_path|spec_from_file_location|__import__)\b")
"""Names of functions by which Python is loaded that no import statement names."""
_PACKAGES = ("", "src/", "python/")
"""Folders of a repository in which packages that are installed from it usually lie."""
_LONGEST_DIFF = 64 * 1024
"""Most characters of a diff, which a page shows."""


@dataclass(frozen=True, eq=False)
class Version:
    """An experiment at one commit."""

    commit: Commit
    tree: Path
    """Folder with the files of the commit."""
    loaded: LoadedSpec
    space: Space
    cells: tuple[Cell, ...]
    """Cells that were asked for."""
    baseline: Variant
    digests: Mapping[str, str]
    """By name of each variant: of all that a launch of it is made of in Python, or in its
    description, and of other files that it may read; the machine code of what is compiled is not
    in it."""
    installed: Mapping[str, str]
    """Digest by name of each module that is imported from where it is installed, and not from the
    files of the commit, which has such a module."""

    @property
    def variants(self) -> dict[str, Variant]:
        """Variants of the cells by name."""
        return {cell.variant.name: cell.variant for cell in self.cells}


def read_version(  # noqa: PLR0913 - the last two by keyword
    repository: Repository,
    commit: Commit,
    spec: Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    only: str | None = None,
) -> Version:
    """The experiment at a commit; `out`: the folder of runs.

    `spec`: the experiment in the user's working tree; `mine.py:name` names one of several. `only`:
    a filter of its cells. A commit without the file gets today's file among its own files. Raises
    SpecError and UsageError where it is wrong at this commit.
    """
    inside = _path_in_repository(repository, spec)
    file, _ = file_and_name(spec)
    tree = repository.tree(commit, out.resolve() / FOLDER / "trees")
    files = repository.files(commit)
    if files.pop(_name_in_commits(repository, spec), None) is None and file.is_file():
        (tree / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tree / inside.with_name(file.name))
    try:
        loaded = load_experiment(tree / inside, overrides=overrides)
        space = space_of(loaded)
        plan = make_plan(loaded, space)
    except SpecError as error:
        message = error.message.replace(f"{tree}{os.sep}", "")
        raise SpecError(f"at {commit.short}: {message}", remedy=error.remedy) from error
    cells = plan.cells
    if only is not None:
        cells = select_cells(cells, only, None)
    baseline = next(cell.variant for cell in plan.cells if cell.variant.id == plan.baseline)
    imported = modules_elsewhere(loaded.experiment, loaded.base)
    installed = _installed_modules(repository.root.resolve(), files, imported)
    digests = _digests(loaded, space, cells, files, installed)
    return Version(commit, tree.resolve(), loaded, space, cells, baseline, digests, installed)


def require_experiment(repository: Repository, commit: Commit, spec: Path) -> None:
    """Raise UsageError where neither a commit nor the working tree has an experiment's file."""
    file, _ = file_and_name(spec)
    if not file.is_file() and _name_in_commits(repository, spec) not in repository.files(commit):
        raise UsageError(f"{file}: there is no such file{nearest_file(file)}")


def lacks_experiment(repository: Repository, commit: Commit, spec: Path) -> bool:
    """Whether a commit lacks the file of an experiment, so that today's stands for it."""
    file, _ = file_and_name(spec)
    return file.is_file() and _name_in_commits(repository, spec) not in repository.files(commit)


def lacking_words(commits: Sequence[Commit], spec: Path) -> str:
    """Sentence on the commits without the file of an experiment; empty without any."""
    if not commits:
        return ""
    file, _ = file_and_name(spec)
    have = "has" if len(commits) == 1 else "have"
    names = first_names([commit.short for commit in commits])
    return f"{names} {have} no '{file.name}': the one that lies here today was used there."


def _name_in_commits(repository: Repository, spec: Path) -> str:
    """Path of the experiment's file, as git names it."""
    file, _ = file_and_name(spec)
    return _path_in_repository(repository, spec).with_name(file.name).as_posix()


def _path_in_repository(repository: Repository, spec: Path) -> Path:
    """Path of the spec in its repository, with the experiment's name appended."""
    if spec.is_dir():
        raise UsageError(f"{spec}: is a folder, and no experiment{experiment_inside(spec)}")
    try:
        return spec.resolve().relative_to(repository.root.resolve())
    except ValueError as error:
        raise UsageError(f"{spec}: lies outside of the repository {repository.root}") from error


def _installed_modules(
    root: Path, files: Mapping[str, str], names: Iterable[str]
) -> dict[str, str]:
    """Digest by name of the files of a commit that modules are, where such are installed.

    They are installed from the working tree (`pip install -e`), or copies; what is not installed
    may be anywhere, as the file may change `sys.path`.
    """
    digests = {}
    for name in names:
        spec = find_spec(name)
        places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin]
        paths = [Path(place).resolve() for place in places if place is not None]
        inside = [path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root)]
        usual = (f"{folder}{name}" for folder in _PACKAGES)
        packages = (path for path in usual if f"{path}/__init__.py" in files)
        begins = tuple(f"{path}/" for path in (*inside, *packages))
        of_module = [path for path in files if f"{path}/".startswith(begins)]
        if spec is None:
            of_module += filter(re.compile(rf"(.*/)?{re.escape(name)}(/|\.py$)").match, files)
        if of_module:
            digests[name] = _digest(sorted((path, files[path]) for path in of_module))
    return digests


def _digests(
    loaded: LoadedSpec,
    space: Space,
    cells: Sequence[Cell],
    files: Mapping[str, str],
    installed: Mapping[str, str],
) -> dict[str, str]:
    """Digest by variant name: of its function, else of the workload's files, and `installed`.

    `files`: of the commit; what is not compiled may read any of them but documents, and Python,
    which is followed where statements import it.
    """
    workload = loaded.experiment.workload
    sources, texts = recorded_sources(loaded.experiment, loaded.base, cells)
    is_cuda = isinstance(workload, CudaWorkload)
    is_followed = not is_cuda and not any(map(_LOADS.search, texts.values()))
    unread = (*_DOCUMENTS, ".py") if is_followed else _DOCUMENTS
    may_read = _digest(sorted(file for file in files.items() if not file[0].endswith(unread)))
    described = workload.model_dump(mode="json") if is_cuda else sorted(sources.files.items())
    return {
        variant.name: _digest(
            sources.variants.get(variant.id) or described,
            None if space.recipe(variant.params) else may_read,
            installed,
            dict(variant.params),
            dict(variant.env),
        )
        for variant in {cell.variant.name: cell.variant for cell in cells}.values()
    }


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def same_sources(versions: Sequence[Version]) -> tuple[str, ...]:
    """Names of the variants with unchanged sources in all versions.

    Empty for compiled variants: only a build can compare their machine code.
    """
    if any(v.space.recipe(variant.params) for v in versions for variant in v.variants.values()):
        return ()
    first, *later_versions = versions
    return tuple(
        name
        for name, digest in first.digests.items()
        if later_versions and all(later.digests.get(name) == digest for later in later_versions)
    )


def shared_variants(versions: Sequence[Version]) -> tuple[str, ...]:
    """Names of the variants of all versions, in the order of the newest."""
    return tuple(
        name for name in versions[-1].variants if all(name in v.variants for v in versions)
    )


def source_changes(repository: Repository, versions: Sequence[Version]) -> str:
    """Source differences of the oldest and the newest version, in the format of `git diff`.

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
    """Files that a workload names: its own, and sources of compiled variants."""
    workload = version.loaded.experiment.workload
    if isinstance(workload, ModuleWorkload):
        yield Path(workload.target(version.loaded.base))
    for variant in version.variants.values():
        recipe = version.space.recipe(variant.params)
        if recipe is not None:
            yield from (*recipe.sources, *recipe.included)


# ---- programs ------------------------------------------------------------------------------------


Program = tuple[str | None, str]
"""Machine code and what launches it, by digests joined with a colon; None with the compiler's words
where it cannot be built."""


def build_programs(
    versions: Sequence[Version], arch: str | None, build_root: Path
) -> list[Program]:
    """Program and error of each version's only variant, built in parallel into the cache.

    Where no architecture is known nothing is compiled, and each commit is a program of its own.
    """
    # By commit: ids of one variant are the same at all of them.
    variants = {v.commit.short: next(iter(v.variants.values())) for v in versions}
    recipes = {v.commit.short: _recipe(v, variants[v.commit.short]) for v in versions}
    compiled = {name: recipe for name, recipe in recipes.items() if recipe is not None}
    built = {}
    if arch is not None and compiled:
        results = build_variants(
            [Variant(id=name, name=name) for name in compiled],
            compiled,
            arch=arch,
            build_root=build_root,
            launch_params={
                v.commit.short: v.space.at_launch(variants[v.commit.short].params) or {}
                for v in versions
            },
        )
        built = {result.variant: result for result in results}
    programs: list[Program] = []
    for version in versions:
        name = version.commit.short
        digest = version.digests[variants[name].name]
        result = built.get(name)
        if result is not None and not result.ok:
            programs.append((None, result.error))
        elif result is None:
            programs.append((f"{name if name in compiled else ''}:{digest}", ""))
        else:
            # What a `.cu` file is launched with is in its program already.
            is_cuda = isinstance(version.loaded.experiment.workload, CudaWorkload)
            programs.append((f"{result.program}:{'' if is_cuda else digest}", ""))
    return programs


def _recipe(version: Version, variant: Variant) -> Recipe | None:
    recipe = version.space.recipe(variant.params)
    if recipe is None:
        return None
    return replace(recipe, flags=(*recipe.flags, *version.loaded.compiler_flags))
