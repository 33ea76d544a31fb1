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
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from profiler.collect import read_text
from profiler.errors import EnvironmentUnusable, ParseError, UsageError, naming
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
from profiler.parse.machine_code import code_hash, kernels_hash, launched_functions
from profiler.parse.ptxas import error_lines, parse_ptxas_log, serialized_wgmma
from profiler.planning.spec.models import DEFAULT_COMPILE_LIMIT_S
from profiler.run_folder.documents import read_dataclass, write_json
from profiler.sessions.builds.ninja import NinjaResult, OnEnd, Progress, run_ninja

FACTS_FILE = "facts.json"
FACTS_VERSION = 3
"""Version of `facts.json`: to be raised when parsers read other facts from the same build."""
ERROR_LINES = 30
"""Lines of the compiler's words that an error keeps; the log beside the object keeps all."""

_ELF = b"\x7fELF"
_POLL_S = 0.2
_PATIENCE_S = 1.0
"""Seconds of waiting for another build before a line says so."""


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
    recipe_by_variant = {variant.id: recipes[variant.id] for variant in variants}
    if all(recipe is None for recipe in recipe_by_variant.values()):
        return tuple(BuildResult(variant.id, ok=True) for variant in variants)
    compiler = find_compiler()
    check_arch(arch, compiler.path)
    folder = build_root.resolve() / arch
    with _obstacles_as_errors(), _locked(folder / ".lock", on_wait) as lock:
        builds = {id_: _plan(recipe, arch, compiler) for id_, recipe in recipe_by_variant.items()}

        def start_ninja(build_file: Path, on_end: OnEnd) -> NinjaResult:
            return run_ninja(
                build_file,
                jobs=jobs,
                time_limit_s=time_limit_s,
                on_progress=on_progress,
                on_end=on_end,
                lock=lock,
            )

        libraries = {b.recipe_hash: b for b in builds.values() if isinstance(b, Library)}
        built = _build_libraries(libraries, folder, start_ninja)
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
    """Libraries with in-kernel stamps by variant id, for variants that include the header.

    They are programs of their own: no other session launches them, and nothing of them enters a
    cell's key or the facts of its build. `builds`: of the same variants without stamps; `build`
    makes libraries of recipes. What cannot be built is warned of: it has no timeline then.
    """
    marked_ids = stamped_variants(builds)
    marked_variants = [variant for variant in variants if variant.id in marked_ids]
    if not marked_variants:
        warn("No in-kernel timeline: no kernel of these variants includes profiler/timeline.cuh.")
        return {}
    stamped: dict[str, Recipe | None] = {}
    for variant in marked_variants:
        recipe = recipes[variant.id]
        stamped[variant.id] = None if recipe is None else with_stamps(recipe)
    results = build(marked_variants, stamped)
    names = {variant.id: variant.name for variant in marked_variants}
    for result in results:
        if not result.ok:
            last = result.error.strip().splitlines()[-1:] or ["no words of the compiler"]
            warn(f"No in-kernel timeline of {names[result.variant]}: {last[0]}")
    return {result.variant: result.library for result in results if result.library is not None}


def is_as_built(build: BuildResult, recipe: Recipe | None, arch: str, built_at: float) -> bool:
    """Whether a recipe and the same nvcc would repeat an earlier build; starts nothing.

    `built_at`: when, in seconds since the epoch, for what did not compile. False where it cannot be
    told: the library is gone, say.
    """
    if recipe is None:
        return build.recipe_hash is None
    library = _plan(recipe, arch, Compiler(Path("nvcc"), version=""))
    if not isinstance(library, Library):
        return library == build.error
    try:
        if library.command != build.command:
            return False
        if build.library is None:
            return all(file.stat().st_mtime <= built_at for file in watched_files(recipe))
        facts = _stored(Path(build.library).parent)
        return facts is not None and _are_same(facts.dependencies, content_hash)
    except (OSError, ValueError):
        return False


def stamped_variants(builds: Iterable[BuildResult]) -> set[str]:
    """Ids of the variants that get a library with stamps."""
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
class _Stored:
    """Content of a library's `facts.json`."""

    version: int = 0
    code_hash: str | None = None
    kernels: tuple[KernelFacts, ...] = ()
    serialized_wgmma: str = ""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    """Hash of each source and header of the library, by its path."""
    made: Mapping[str, str] = field(default_factory=dict)
    """Hash of each file that was built, by its name in the folder of the ninja file."""


def _stored(folder: Path) -> _Stored | None:
    """Stored facts of the library in a folder; None where they are gone or damaged."""
    try:
        return read_dataclass(folder / FACTS_FILE, _Stored)
    except (UsageError, ParseError):
        return None


def _are_same(hashes: Mapping[str, str], hash_of: Callable[[Path], str]) -> bool:
    """Whether files still have their hashes, by path; OSError where a file cannot be read."""
    return all(hash_of(Path(name)) == digest for name, digest in hashes.items())


@contextmanager
def _locked(path: Path, on_wait: Callable[[str], None]) -> Iterator[int]:
    """Hold a lock, after waiting for it; yields its descriptor, which child processes inherit.

    Compilers live a few seconds longer than a profiler that is killed, and the next one must not
    write the same objects beside them. The lock is free when the last of them has gone.
    """
    speak_at = time.monotonic() + _PATIENCE_S
    with ExitStack() as lock_stack:
        while (descriptor := take_lock(path, lock_stack)) is None:
            if time.monotonic() > speak_at:
                holder = holder_of(path)
                holder_text = "" if holder is None else f" (process {holder})"
                on_wait(f"Waiting for another build in {path.parent}{holder_text} …")
                speak_at = math.inf
            raise_if_signalled()
            time.sleep(_POLL_S)
        write_holder(descriptor)
        yield descriptor


@contextmanager
def _obstacles_as_errors() -> Iterator[None]:
    """Raise EnvironmentUnusable where a file stands for a folder of builds, or the reverse."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise EnvironmentUnusable(
            f"{error.filename}: in the way of builds: {error.strerror}",
            remedy="Take it away, or give another folder with --out.",
        ) from error


def _depends_on(library: str, header: Path) -> bool:
    """Whether a built library was compiled from a header; False where that is not known."""
    facts = _stored(Path(library).parent)
    names = () if facts is None else facts.dependencies
    return any(Path(name).resolve() == header for name in names if name.endswith(header.name))


def _plan(recipe: Recipe | None, arch: str, compiler: Compiler) -> _Build:
    if recipe is None:
        return None
    try:
        return plan_library(recipe, arch, compiler)
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"{Path(error.filename or '').name}: {error.strerror}"


def _build_libraries(
    libraries: Mapping[str, Library],
    folder: Path,
    start_ninja: Callable[[Path, OnEnd], NinjaResult],
) -> dict[str, BuildResult]:
    """Build results of all libraries, without variants: from a valid cache entry, else built."""
    hash_once = cache(content_hash)
    results: dict[str, BuildResult] = {}
    for digest, library in libraries.items():
        facts = _still_valid(library, folder, hash_once)
        if facts is not None:
            results[digest] = _result_of(library, folder, facts, cached=True)
    missing = [library for digest, library in libraries.items() if digest not in results]
    if missing:
        _forget_outcome(missing, folder)
        results |= _built_now(missing, folder, start_ninja, hash_once)
    return results


def _result_of(library: Library, folder: Path, facts: _Stored, *, cached: bool) -> BuildResult:
    return BuildResult(
        variant="",
        ok=True,
        library=str(folder / library.library),
        recipe_hash=library.recipe_hash,
        code_hash=facts.code_hash,
        kernels=facts.kernels,
        serialized_wgmma=facts.serialized_wgmma,
        command=library.command,
        cached=cached,
    )


def _built_now(
    libraries: Sequence[Library],
    folder: Path,
    start_ninja: Callable[[Path, OnEnd], NinjaResult],
    hash_once: Callable[[Path], str],
) -> dict[str, BuildResult]:
    """Results of freshly built libraries, each read while other libraries still compile."""
    by_path = {str(library.library): library for library in libraries}
    pending_results: dict[str, Future[BuildResult]] = {}
    with ThreadPoolExecutor(1) as reader:

        def read_if_built(path: str) -> None:
            library = by_path.get(path)
            if library is not None and path not in pending_results and _is_built(library, folder):
                pending_results[path] = reader.submit(_new_result, library, folder, hash_once)

        ninja_result = start_ninja(_write_ninja(libraries, folder), read_if_built)
        for path in by_path:  # also where ninja did not name what it made
            read_if_built(path)
    return {
        library.recipe_hash: pending_results[path].result()
        if path in pending_results
        else BuildResult(
            "",
            ok=False,
            recipe_hash=library.recipe_hash,
            error=_error(library, folder, ninja_result),
            command=library.command,
        )
        for path, library in by_path.items()
    }


def _is_built(library: Library, folder: Path) -> bool:
    """Whether all outputs of a library exist."""
    return all((folder / output).exists() for output in _outputs(library))


def _write_ninja(libraries: Sequence[Library], folder: Path) -> Path:
    with naming(folder / BUILD_FILE):
        return write_ninja(libraries, folder)


def _forget_outcome(libraries: Iterable[Library], folder: Path) -> None:
    """Remove outputs of earlier builds that would pass for this one's if it stopped half-way."""
    for library in libraries:
        (folder / library.library).unlink(missing_ok=True)
        (folder / library.link_log).unlink(missing_ok=True)
        facts = _stored(folder / library.recipe_hash)
        hashes = {} if facts is None else facts.made
        for compilation in library.compilations:
            if not _is_unchanged(folder / compilation.object, hashes):
                (folder / compilation.object).unlink(missing_ok=True)
            if not (folder / compilation.object).exists():
                (folder / compilation.log).unlink(missing_ok=True)
            if not depfile_paths(read_text(folder / compilation.depfile)):
                # Cut off by a crash; ninja would refuse to build anything at all.
                (folder / compilation.depfile).unlink(missing_ok=True)


def _still_valid(
    library: Library, folder: Path, hash_once: Callable[[Path], str]
) -> _Stored | None:
    """Stored facts of a library with unchanged sources and headers; else None."""
    stored = _stored(folder / library.recipe_hash)
    if stored is None or stored.version != FACTS_VERSION:
        return None
    try:
        is_whole = _digests(library, folder) == stored.made
        return stored if is_whole and _are_same(stored.dependencies, hash_once) else None
    except (OSError, ValueError):  # gone, or a path that no file can have
        return None


def _new_result(library: Library, folder: Path, hash_once: Callable[[Path], str]) -> BuildResult:
    """Result of a freshly built library; writes `facts.json` beside it."""
    launched, code = _identity(
        [folder / compilation.object for compilation in library.compilations]
    )
    log = "\n".join(read_text(folder / compilation.log) for compilation in library.compilations)
    stored = _Stored(
        FACTS_VERSION,
        code_hash=code,
        kernels=tuple(
            facts for facts in parse_ptxas_log(log) if not launched or facts.name in launched
        ),
        serialized_wgmma=serialized_wgmma(log),
        dependencies=_dependencies(library, folder, hash_once),
        made=_digests(library, folder),
    )
    write_json(folder / library.recipe_hash / FACTS_FILE, asdict(stored))
    return _result_of(library, folder, stored, cached=False)


def _identity(objects: Sequence[Path]) -> tuple[tuple[str, ...], str | None]:
    """Symbols of what is launched, where that is less than all, and the hash of its code.

    A host function may start any kernel of its file, all of whose code is hashed. No symbols and
    no hash where objects cannot be read: the library works all the same, it only cannot be compared
    with other libraries.
    """
    try:
        launched = launched_functions(objects[0]) if len(objects) == 1 else ()
        code = kernels_hash(objects[0], launched) if launched else None
        return launched, code or code_hash(*objects)
    except ParseError:
        return (), None


def _digests(library: Library, folder: Path) -> dict[str, str]:
    """Hash of each file that was built, by its name in the folder of the library."""
    return {file: content_hash(folder / file) for file in _outputs(library)}


def _outputs(library: Library) -> tuple[str, ...]:
    """Names of objects and library, relative to the folder of the ninja file."""
    return (*(str(c.object) for c in library.compilations), str(library.library))


def _is_unchanged(file: Path, hashes: Mapping[str, str]) -> bool:
    """Whether an object is what the compiler wrote: by its stored hash, else by its magic.

    ninja goes by time stamps: it would link one that was cut off or replaced.
    """
    if not file.exists():
        return True
    expected_hash = hashes.get(str(file.relative_to(file.parents[1])))
    if expected_hash is not None:
        return content_hash(file) == expected_hash
    with file.open("rb") as stream:
        return stream.read(len(_ELF)) == _ELF


def _dependencies(
    library: Library, folder: Path, hash_once: Callable[[Path], str]
) -> dict[str, str]:
    """Hash of each file that the library was compiled from, by its path.

    Without what a `#line` names that is not there, such as the template of a generated source.
    """
    names = {
        folder / name
        for compilation in library.compilations
        for name in depfile_paths(read_text(folder / compilation.depfile))
    }
    return {str(name): hash_once(name) for name in sorted(names) if name.is_file()}


def _error(library: Library, folder: Path, ninja_result: NinjaResult) -> str:
    """Compiler output from its first error on, without the paths of this build.

    Where it printed nothing, or was ended, how it ended.
    """
    outputs = _outputs(library)
    printed = "\n".join(read_text(folder / log) for log in _logs(library))
    lines = list(error_lines(printed))
    # The first error is the cause; the compiler's warnings may stand before it. What the linker
    # misses stands before the line in which collect2 calls it an error.
    errors = (p for p, line in enumerate(lines) if "error" in line and "collect2:" not in line)
    first = next(errors, max(0, len(lines) - ERROR_LINES))
    lines = lines[first : first + ERROR_LINES]
    if not lines or ninja_result.is_overdue(outputs):
        lines.append(ninja_result.ending(outputs))
    text = "\n".join(lines)
    for name in sorted({*map(str, library.folders), str(folder)}, key=len, reverse=True):
        text = text.replace(f"{name}/", "")
    return text


def _logs(library: Library) -> tuple[str, ...]:
    return (*(str(compilation.log) for compilation in library.compilations), str(library.link_log))


def _result(variant: str, build: _Build, built: Mapping[str, BuildResult]) -> BuildResult:
    if build is None:
        return BuildResult(variant, ok=True)
    if isinstance(build, str):
        return BuildResult(variant, ok=False, error=build)
    return replace(built[build.recipe_hash], variant=variant)


def _mark_duplicates(
    results: Iterable[BuildResult], launch_params: Mapping[str, Params]
) -> Iterator[BuildResult]:
    """Results, each with the first variant that has the same program as `duplicate_of`."""
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
    """Identity of a program: its machine code and launch parameters."""
    if not at_launch:
        return code
    text = json.dumps([code, dict(at_launch)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
