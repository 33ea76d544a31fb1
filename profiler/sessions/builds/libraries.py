"""Builds the variants: nvcc through ninja, the facts of each library, and which are aliases.

Next to each library lies `facts.json`: what was read from it, and the hash of every file that it
was compiled from, of its objects and of itself. Where those hashes still hold, nothing is started
and nothing is parsed; what was cut off, edited or replaced is built again.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from profiler.errors import EnvironmentUnusable, ParseError, naming
from profiler.kernels.build import (
    BUILD_FILE,
    TIMELINE_HEADER,
    Compiler,
    Library,
    content_hash,
    depfile_paths,
    plan_library,
    watched_files,
    write_ninja,
)
from profiler.kernels.recipe import Recipe, with_stamps
from profiler.machine.compilers import check_arch, find_compiler
from profiler.machine.locks import holder_of, take_lock, write_holder
from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, KernelFacts, Params, Variant
from profiler.parse.machine_code import code_hash, kernels_hash, launched_kernels
from profiler.parse.ptxas import error_lines, parse_ptxas_log
from profiler.planning.spec.models import DEFAULT_COMPILE_LIMIT_S
from profiler.sessions.builds.ninja import NinjaResult, OnEnd, Progress, run_ninja

FACTS_FILE = "facts.json"
FACTS_VERSION = 2
"""To be raised when the parsers read something else from the same build."""
ERROR_LINES = 30
"""Lines of the compiler's words that an error keeps; the log beside the object keeps all."""

_ELF = b"\x7fELF"
_POLL_S = 0.2
_PATIENCE_S = 1.0
"""How long to wait for another build in silence."""


def build_variants(  # noqa: PLR0913 - the last four are settings, given by keyword
    variants: Sequence[Variant],
    recipes: Mapping[str, Recipe | None],
    *,
    arch: str,
    build_root: Path,
    time_limit_s: float = DEFAULT_COMPILE_LIMIT_S,
    jobs: int | None = None,
    on_progress: Progress | None = None,
    on_wait: Callable[[str], None] = lambda _: None,
    launch_params: Mapping[str, Params] | None = None,
) -> tuple[BuildResult, ...]:
    """Build what the variants need for one architecture; results in the order of the variants.

    `recipes` maps variant ids to recipes; None is a variant that needs no build. A variant that
    fails to compile has `ok` False and the compiler's words in `error`; the others are built all
    the same. `duplicate_of` names the first variant with the same machine code and the same
    `launch_params` (by variant id: parameters that act when it is launched). `time_limit_s`: of one
    run of nvcc; one that takes longer is ended and has failed. `jobs`: parallel compilations, None
    lets ninja choose. `on_wait` gets a sentence where another build is waited for.

    Raises UsageError for an architecture that this nvcc cannot build, and EnvironmentUnusable
    where nvcc or ninja is missing.
    """
    wanted = {variant.id: recipes[variant.id] for variant in variants}
    if all(recipe is None for recipe in wanted.values()):
        return tuple(BuildResult(variant.id, ok=True) for variant in variants)
    compiler = find_compiler()
    check_arch(arch, compiler.path)
    folder = build_root.resolve() / arch
    with _obstacles_named(), _locked(folder / ".lock", on_wait) as lock:
        builds = {id_: _plan(recipe, arch, compiler) for id_, recipe in wanted.items()}

        def start_ninja(build_file: Path, on_end: OnEnd) -> NinjaResult:
            return run_ninja(
                build_file,
                jobs=jobs,
                time_limit_s=time_limit_s,
                on_progress=on_progress,
                on_end=on_end,
                lock=lock,
            )

        built = _build_libraries(_libraries(builds.values()), folder, start_ninja)
    results = (_result(variant.id, builds[variant.id], built) for variant in variants)
    return tuple(_mark_duplicates(results, launch_params or {}))


def build_stamped(
    variants: Sequence[Variant],
    recipes: Mapping[str, Recipe | None],
    builds: Sequence[BuildResult],
    *,
    build: Callable[[Sequence[Variant], Mapping[str, Recipe | None]], Sequence[BuildResult]],
    warn: Callable[[str], None],
) -> dict[str, str]:
    """Libraries with stamps inside their kernels, by variant id: of those that include the header.

    They are programs of their own: no other session launches them, and nothing of them enters a
    cell's key or the facts of its build. `builds`: of the same variants without stamps; `build`
    makes libraries of recipes. What cannot be built is warned of: it has no timeline then.
    """
    marked = stamped_variants(builds)
    wanted = [variant for variant in variants if variant.id in marked]
    if not wanted:
        warn("No in-kernel timeline: no kernel of these variants includes profiler/timeline.cuh.")
        return {}
    stamped: dict[str, Recipe | None] = {}
    for variant in wanted:
        recipe = recipes[variant.id]
        stamped[variant.id] = None if recipe is None else with_stamps(recipe)
    results = build(wanted, stamped)
    names = {variant.id: variant.name for variant in wanted}
    for result in results:
        if not result.ok:
            last = result.error.strip().splitlines()[-1:] or ["no words of the compiler"]
            warn(f"No in-kernel timeline of {names[result.variant]}: {last[0]}")
    return {result.variant: result.library for result in results if result.library is not None}


def is_as_built(build: BuildResult, recipe: Recipe | None, arch: str, built_at: float) -> bool:
    """Whether a recipe would give what was built before, by the same nvcc; starts nothing.

    `built_at`: when, in seconds since the epoch, for what did not compile. False where it cannot be
    told: the library is gone, say.
    """
    if recipe is None:
        return build.recipe_hash is None
    planned = _plan(recipe, arch, Compiler(Path("nvcc"), version=""))
    if not isinstance(planned, Library):
        return planned == build.error
    try:
        if planned.command != build.command:
            return False
        if build.library is None:
            return all(file.stat().st_mtime <= built_at for file in watched_files(recipe))
        dependencies = _facts_beside(build.library)["dependencies"]
        return all(content_hash(Path(name)) == digest for name, digest in dependencies.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def stamped_variants(builds: Iterable[BuildResult]) -> set[str]:
    """Ids of the variants of which a library with stamps is made."""
    return {
        build.variant
        for build in builds
        if build.library is not None
        and build.duplicate_of is None
        and _depends_on(build.library, TIMELINE_HEADER)
    }


# One variant: a library that was planned, a reason why it cannot be, or nothing to build.
_Build = Library | str | None


@dataclass(frozen=True)
class _Facts:
    """Facts of a built library, as stored in `facts.json`; or the error of its build."""

    library: str | None = None
    code_hash: str | None = None
    kernels: tuple[KernelFacts, ...] = ()
    error: str = ""
    cached: bool = False


@contextmanager
def _locked(path: Path, on_wait: Callable[[str], None]) -> Iterator[int]:
    """Wait for a lock and hold it; gives its descriptor, for child processes that must hold it too.

    Compilers live a few seconds longer than a profiler that is killed, and the next one must not
    write the same objects beside them. The lock is free when the last of them has gone.
    """
    speak_at = time.monotonic() + _PATIENCE_S
    with ExitStack() as held:
        while (descriptor := take_lock(path, held)) is None:
            if time.monotonic() > speak_at:
                holder = holder_of(path)
                named = "" if holder is None else f" (process {holder})"
                on_wait(f"Waiting for another build in {path.parent}{named} …")
                speak_at = math.inf
            raise_if_signalled()
            time.sleep(_POLL_S)
        write_holder(descriptor)
        yield descriptor


@contextmanager
def _obstacles_named() -> Iterator[None]:
    """Raise EnvironmentUnusable where a file stands for a folder of builds, or the reverse."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise EnvironmentUnusable(
            f"{error.filename}: in the way of builds: {error.strerror}",
            remedy="Take it away, or give another folder with --out.",
        ) from error


def _facts_beside(library: str) -> Any:
    """What `facts.json` has of a library."""
    return json.loads((Path(library).parent / FACTS_FILE).read_text(encoding="utf-8"))


def _depends_on(library: str, header: Path) -> bool:
    """Whether a built library was compiled from a header; False where that is not known."""
    try:
        dependencies = _facts_beside(library)["dependencies"]
        same_name = (Path(name) for name in dependencies if name.endswith(header.name))
        return any(path.resolve() == header for path in same_name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _plan(recipe: Recipe | None, arch: str, compiler: Compiler) -> _Build:
    if recipe is None:
        return None
    try:
        return plan_library(recipe, arch, compiler)
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"{Path(error.filename or '').name}: {error.strerror}"


def _libraries(builds: Iterable[_Build]) -> dict[str, Library]:
    return {build.recipe_hash: build for build in builds if isinstance(build, Library)}


def _build_libraries(
    libraries: Mapping[str, Library],
    folder: Path,
    start_ninja: Callable[[Path, OnEnd], NinjaResult],
) -> dict[str, _Facts]:
    """Facts of all libraries: from the cache where it is valid, else built now."""
    hash_once = cache(content_hash)
    facts: dict[str, _Facts] = {}
    for digest, library in libraries.items():
        cached = _cached_facts(folder / digest, library, hash_once)
        if cached is not None:
            facts[digest] = cached
    missing = [library for digest, library in libraries.items() if digest not in facts]
    if missing:
        _forget_outcome(missing, folder)
        facts |= _built_facts(missing, folder, start_ninja, hash_once)
    return facts


def _built_facts(
    libraries: Sequence[Library],
    folder: Path,
    start_ninja: Callable[[Path, OnEnd], NinjaResult],
    hash_once: Callable[[Path], str],
) -> dict[str, _Facts]:
    """Facts of libraries that are built now, of each read while others are still compiled."""
    by_path = {str(library.library): library for library in libraries}
    facts: dict[str, Future[_Facts]] = {}
    with ThreadPoolExecutor(1) as reader:

        def read_if_made(path: str) -> None:
            library = by_path.get(path)
            if library is not None and path not in facts and _is_made(library, folder):
                facts[path] = reader.submit(_new_facts, library, folder, hash_once)

        ninja_result = start_ninja(_write_ninja(libraries, folder), read_if_made)
        for path in by_path:  # also where ninja did not name what it made
            read_if_made(path)
    return {
        library.recipe_hash: facts[path].result()
        if path in facts
        else _Facts(error=_error(library, folder, ninja_result))
        for path, library in by_path.items()
    }


def _is_made(library: Library, folder: Path) -> bool:
    """Whether everything that is built of a library is there."""
    return all((folder / output).exists() for output in _outputs(library))


def _write_ninja(libraries: Sequence[Library], folder: Path) -> Path:
    with naming(folder / BUILD_FILE):
        return write_ninja(libraries, folder)


def _forget_outcome(libraries: Iterable[Library], folder: Path) -> None:
    """Remove outputs that would pass for those of this build if it stopped half-way."""
    for library in libraries:
        (folder / library.library).unlink(missing_ok=True)
        (folder / library.link_log).unlink(missing_ok=True)
        made = _made(folder / library.recipe_hash)
        for compilation in library.compilations:
            if not _is_as_made(folder / compilation.object, made):
                (folder / compilation.object).unlink(missing_ok=True)
            if not (folder / compilation.object).exists():
                (folder / compilation.log).unlink(missing_ok=True)
            if not depfile_paths(_read(folder / compilation.depfile)):
                # Cut off by a crash; ninja would refuse to build anything at all.
                (folder / compilation.depfile).unlink(missing_ok=True)


def _cached_facts(
    folder: Path, library: Library, hash_once: Callable[[Path], str]
) -> _Facts | None:
    """Return the facts of a library whose sources and headers are still the same, or None."""
    try:
        data = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
        if data["version"] != FACTS_VERSION:
            return None
        if _digests(library, folder.parent) != data["made"]:
            return None
        for name, digest in data["dependencies"].items():
            if hash_once(Path(name)) != digest:
                return None
        kernels = tuple(KernelFacts(**kernel) for kernel in data["kernels"])
        return _Facts(
            library=str(folder.parent / library.library),
            code_hash=data["code_hash"],
            kernels=kernels,
            cached=True,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # Damaged or gone: built again.


def _new_facts(library: Library, folder: Path, hash_once: Callable[[Path], str]) -> _Facts:
    """Facts of a library that was made, which are written beside it."""
    path = folder / library.library
    launched, code = _identity(
        [folder / compilation.object for compilation in library.compilations]
    )
    logs = (folder / compilation.log for compilation in library.compilations)
    facts = _Facts(
        library=str(path),
        code_hash=code,
        kernels=tuple(
            facts
            for log in logs
            for facts in parse_ptxas_log(_read(log))
            if not launched or facts.name in launched
        ),
    )
    dependencies = _dependencies(library, folder, hash_once)
    _write_facts(facts, folder / library.recipe_hash, dependencies, _digests(library, folder))
    return facts


def _identity(objects: Sequence[Path]) -> tuple[tuple[str, ...], str | None]:
    """Symbols of the only kernels that are launched, where some are, and the hash of what counts.

    Nothing of what cannot be read: the library is good all the same, it only cannot be compared
    with others.
    """
    try:
        kernels = launched_kernels(objects[0]) if len(objects) == 1 else ()
        return kernels, kernels_hash(objects[0], kernels) if kernels else code_hash(*objects)
    except ParseError:
        return (), None


def _digests(library: Library, folder: Path) -> dict[str, str]:
    """Hash of each file that was built, by its name in the folder of the library."""
    return {file: content_hash(folder / file) for file in _outputs(library)}


def _outputs(library: Library) -> tuple[str, ...]:
    """Objects and library, by their names in the folder of the ninja file."""
    return (*(str(c.object) for c in library.compilations), str(library.library))


def _made(folder: Path) -> Mapping[str, str]:
    """Hashes of what was built before; nothing where that is not known."""
    try:
        made = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))["made"]
        return {str(name): str(digest) for name, digest in made.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_as_made(file: Path, made: Mapping[str, str]) -> bool:
    """Whether an object is what the compiler wrote, as far as that is known.

    ninja goes by time stamps: it would link one that was cut off or replaced.
    """
    if not file.exists():
        return True
    known = made.get(str(file.relative_to(file.parents[1])))
    if known is not None:
        return content_hash(file) == known
    with file.open("rb") as stream:
        return stream.read(len(_ELF)) == _ELF


def _dependencies(
    library: Library, folder: Path, hash_once: Callable[[Path], str]
) -> dict[str, str]:
    """Hash of each file that the library was compiled from, by its path."""
    names = {
        folder / name
        for compilation in library.compilations
        for name in depfile_paths(_read(folder / compilation.depfile))
    }
    return {str(name): hash_once(name) for name in sorted(names)}


def _write_facts(
    facts: _Facts, folder: Path, dependencies: Mapping[str, str], made: Mapping[str, str]
) -> None:
    document = {
        "version": FACTS_VERSION,
        "code_hash": facts.code_hash,
        "kernels": [asdict(kernel) for kernel in facts.kernels],
        "dependencies": dependencies,
        "made": made,
    }
    draft = folder / f"{FACTS_FILE}.new"
    with naming(draft):
        draft.write_text(json.dumps(document, indent=1), encoding="utf-8")
    draft.replace(folder / FACTS_FILE)


def _error(library: Library, folder: Path, ninja_result: NinjaResult) -> str:
    """Last lines of the compiler's output, without the paths of this build.

    Where it printed nothing, or was ended, how it ended.
    """
    outputs = _outputs(library)
    printed = "\n".join(_read(folder / log) for log in _logs(library))
    lines = [line for line in error_lines(printed) if "ptxas info" not in line]
    if not lines or ninja_result.ended(outputs):
        lines.append(ninja_result.ending(outputs))
    text = "\n".join(lines[-ERROR_LINES:])
    folders = {*map(str, library.folders), str(folder)}
    for name in sorted(folders, key=len, reverse=True):
        text = text.replace(f"{name}/", "")
    return text


def _logs(library: Library) -> tuple[str, ...]:
    return (*(str(compilation.log) for compilation in library.compilations), str(library.link_log))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _result(variant: str, build: _Build, built: Mapping[str, _Facts]) -> BuildResult:
    if build is None:
        return BuildResult(variant, ok=True)
    if isinstance(build, str):
        return BuildResult(variant, ok=False, error=build)
    facts = built[build.recipe_hash]
    return BuildResult(
        variant=variant,
        ok=facts.library is not None,
        library=facts.library,
        recipe_hash=build.recipe_hash,
        code_hash=facts.code_hash,
        kernels=facts.kernels,
        error=facts.error,
        command=build.command,
        cached=facts.cached,
    )


def _mark_duplicates(
    results: Iterable[BuildResult], launch_params: Mapping[str, Params]
) -> Iterator[BuildResult]:
    """Results, each pointing at the first one that is the same program."""
    first: dict[str, str] = {}
    for result in results:
        if result.code_hash is None:
            yield result
            continue
        program = _program(result.code_hash, launch_params.get(result.variant, {}))
        original = first.setdefault(program, result.variant)
        alias_of = original if original != result.variant else None
        yield replace(result, program=program, duplicate_of=alias_of)


def _program(code: str, at_launch: Params) -> str:
    """Identity of a program: its machine code and what it is launched with."""
    if not at_launch:
        return code
    text = json.dumps([code, dict(at_launch)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
