"""Ninja files for recipes: one shared library per distinct recipe, in a cache named by content.

    <build root>/<arch>/build.ninja
    <build root>/<arch>/<recipe hash>/<source>.o  .d  .log     one of each per source
    <build root>/<arch>/<recipe hash>/library.so

The recipe hash covers the command line (without absolute paths), the compiler's version text, and
the names and contents of the sources, of the headers beside them, and of what these include by a
path relative to themselves: another checkout of the same tree has the same hashes. Headers from
elsewhere are watched by ninja through the depfiles.

ninja runs in `<build root>/<arch>` and all outputs are relative to it, so that the build root may
have any name. The names of sources may hold anything but the characters that nvcc's own shell or
ninja would take for something else.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ninja import Writer, escape

from profiler.kernels.recipe import Recipe, architecture_refusal

COMPILE_FLAGS = (
    "-std=c++17",
    "-O3",
    # For the source view of Nsight Compute; it changes debug sections only, not the code.
    "-lineinfo",
    "-Xptxas",
    "-v",
    # Machine code is read back out of the object to find variants with the same code.
    "--no-compress",
    "-Xcompiler",
    "-fPIC",
)
BUILD_FILE = "build.ninja"
LIBRARY_NAME = "library.so"
HEADER_SUFFIXES = frozenset({".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc"})

INCLUDE_FOLDER = Path(__file__).resolve().parent / "include"
"""Folder of `profiler/timeline.cuh`, which any source may include.

It is no part of a recipe's hash: without its definition (`recipe.with_stamps`) the header is
nothing, and ninja sees it change."""
TIMELINE_HEADER = INCLUDE_FOLDER / "profiler" / "timeline.cuh"

UNREADABLE = frozenset('$`"\\|\n')
"""nvcc passes names in double quotes to a shell; ninja cannot escape a `|`."""

_QUOTED_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)

_NO_WRAP = 1 << 30
"""Wrapping would drop a space from a name with two spaces in a row."""

_ARCH = re.compile(r"sm_(\d{2,3}[af]?)")
_ABSOLUTE = re.compile(r"/[^\s=,:;]+")


@dataclass(frozen=True)
class Compiler:
    """An nvcc: its path, and a text that identifies its version and build."""

    path: Path
    version: str


@dataclass(frozen=True)
class Compilation:
    """One source of a library; paths of outputs are relative to the folder of the ninja file."""

    source: Path
    object: PurePosixPath
    depfile: PurePosixPath
    log: PurePosixPath
    command: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """The shared library of one recipe for one architecture."""

    recipe_hash: str
    compilations: tuple[Compilation, ...]
    library: PurePosixPath
    link_log: PurePosixPath
    link_command: tuple[str, ...]
    command: str
    """The compile command for people, without absolute paths."""
    folders: tuple[Path, ...]
    """Folders of the sources and of files included in front of them."""


def plan_library(recipe: Recipe, arch: str, compiler: Compiler) -> Library:
    """Name and commands of a recipe's library; reads its sources, writes nothing.

    Raises ValueError for an architecture that is no `sm_` name, for a recipe that needs another
    one, and for sources that cannot be built together or at all by their names, and OSError for a
    source that cannot be read.
    """
    _check_sources(recipe)
    arch = _target(recipe, arch)
    flags = _flags(recipe, arch)
    base = _folders(recipe)[0]
    command = _portable_command(recipe, flags)
    digest = _recipe_hash(recipe, command, compiler.version)
    folder = PurePosixPath(digest)
    flags = tuple(_flags_from_source(flags, base))
    compilations = tuple(_compilation(source, folder, flags, compiler) for source in recipe.sources)
    library = folder / LIBRARY_NAME
    link_flags = _flags_from_source(recipe.flags, base)
    link = (str(compiler.path), "-shared", *_gencode(arch), *link_flags, "-o", str(library))
    return Library(
        recipe_hash=digest,
        compilations=compilations,
        library=library,
        link_log=folder / "link.log",
        link_command=(*link, *(str(compilation.object) for compilation in compilations)),
        command=command,
        folders=_folders(recipe),
    )


def write_ninja(libraries: Iterable[Library], folder: Path) -> Path:
    """Path of a written ninja file for libraries (equal ones once), with their folders made."""
    distinct = {library.recipe_hash: library for library in libraries}
    for digest in distinct:
        (folder / digest).mkdir(parents=True, exist_ok=True)
    path = folder / BUILD_FILE
    with path.open("w", encoding="utf-8") as stream:
        # The stubs of ninja say that it takes a str; it writes to a stream.
        writer = Writer(stream, width=_NO_WRAP)  # type: ignore[arg-type]
        writer.variable("ninja_required_version", "1.10")
        writer.rule("compile", command="$run", depfile="$dependencies", description="compile $out")
        writer.rule("link", command="$run", description="link $out")
        for library in distinct.values():
            _write_library(writer, library)
    return path


def depfile_paths(text: str) -> tuple[str, ...]:
    """Dependencies in a depfile of nvcc (Make syntax)."""
    _, _, dependencies = text.replace("\\\n", " ").partition(": ")
    names = re.findall(r"(?:\\.|\S)+", dependencies)
    return tuple(re.sub(r"\\(.)", r"\1", name).replace("$$", "$") for name in names)


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def watched_files(recipe: Recipe) -> tuple[Path, ...]:
    """Files whose content is part of a recipe's hash.

    The sources, what is included in front of them, every header in their folders, and whatever one
    of these includes by a path relative to itself.
    """
    headers = (
        path
        for folder in _folders(recipe)
        for path in folder.iterdir()
        if path.suffix in HEADER_SUFFIXES
    )
    files = dict.fromkeys((*recipe.sources, *recipe.included, *headers))
    waiting = [file for file in files if file.is_file()]
    while waiting:
        for path in _quoted_includes(waiting.pop()):
            if path not in files:
                files[path] = None
                waiting.append(path)
    return tuple(files)


def _quoted_includes(file: Path) -> Iterator[Path]:
    """Files that a source includes by paths relative to its own folder."""
    for name in _QUOTED_INCLUDE.findall(file.read_bytes()):
        path = Path(os.path.normpath(file.parent / os.fsdecode(name)))
        if path.is_file():
            yield path


def _check_sources(recipe: Recipe) -> None:
    sources = recipe.sources
    stems = [source.stem for source in sources]
    if not stems or len(set(stems)) != len(stems):
        # Objects are named after their source and would overwrite each other.
        raise ValueError(f"a recipe needs sources of different names, got {stems}")
    for source in (*sources, *recipe.included):
        # A comma ends one path of -include and begins the next; nothing escapes it.
        unreadable = UNREADABLE | {","} if source in recipe.included else UNREADABLE
        if unreadable & set(str(source)):
            characters = " ".join(sorted(unreadable - {"\n"}))
            raise ValueError(
                f"nvcc cannot read {str(source)!r}: its path holds one of {characters}"
            )


def _flags(recipe: Recipe, arch: str) -> tuple[str, ...]:
    defines = (f"-D{name}={_list_value(value)}" for name, value in sorted(recipe.defines.items()))
    included = (word for path in recipe.included for word in ("-include", str(path)))
    return (*COMPILE_FLAGS, *_gencode(arch), *defines, *included, *recipe.flags)


def _flags_from_source(flags: Iterable[str], base: Path) -> Iterator[str]:
    """Flags for a compiler in the build folder: `-I` and `-L` start from the source's folder."""
    for flag in flags:
        folder = flag[2:] if flag.startswith(("-I", "-L")) else ""
        yield f"{flag[:2]}{base / folder}" if folder else flag


def _list_value(value: str | int) -> str:
    """Value of a definition for nvcc, with commas escaped, which would end it."""
    return str(value).replace(",", r"\,")


def _target(recipe: Recipe, arch: str) -> str:
    """Architecture to compile for: the recipe's form of the GPU's architecture."""
    refusal = architecture_refusal(recipe, arch)
    if refusal is not None:
        raise ValueError(refusal)
    return recipe.arch or arch


def _gencode(arch: str) -> tuple[str, ...]:
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise ValueError(f"{arch!r} is no architecture like sm_90")
    return "-gencode", f"arch=compute_{match[1]},code={arch}"


def _compilation(
    source: Path, folder: PurePosixPath, flags: Sequence[str], compiler: Compiler
) -> Compilation:
    output = folder / f"{source.stem}.o"
    depfile = output.with_suffix(".d")
    include = f"-I{INCLUDE_FOLDER}"
    command = (str(compiler.path), "-c", *flags, include, "-MMD", "-MF", str(depfile), str(source))
    return Compilation(
        source=source,
        object=output,
        depfile=depfile,
        log=output.with_suffix(".log"),
        command=(*command, "-o", str(output)),
    )


def _portable_command(recipe: Recipe, flags: Sequence[str]) -> str:
    """Compile command with paths relative to the user's folder."""
    base = _folders(recipe)[0]

    def relative(match: re.Match[str]) -> str:
        return os.path.relpath(match[0], base) if Path(match[0]).exists() else match[0]

    portable = (_ABSOLUTE.sub(relative, flag) for flag in flags)
    names = (_portable_name(source, recipe) for source in recipe.sources)
    return shlex.join(("nvcc", "-c", *portable, *names))


def _recipe_hash(recipe: Recipe, command: str, compiler_version: str) -> str:
    digest = hashlib.sha256()
    for text in (command, compiler_version):
        digest.update(hashlib.sha256(text.encode()).digest())
    files = {_portable_name(path, recipe): path for path in watched_files(recipe)}
    for name, path in sorted(files.items()):
        digest.update(hashlib.sha256(name.encode()).digest())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _folders(recipe: Recipe) -> tuple[Path, ...]:
    """Folders of sources and included files, the user's folder first."""
    sources = dict.fromkeys(file.parent for file in recipe.sources)
    included = dict.fromkeys(file.parent for file in recipe.included)
    return (*(folder for folder in included if folder not in sources), *sources)


def _portable_name(path: Path, recipe: Recipe) -> str:
    """Name of a recipe's file that does not depend on where the profiler is installed.

    Where a user's file is included, the sources belong to the profiler.
    """
    base, *other_folders = _folders(recipe)
    if recipe.included and path.parent in other_folders:
        return f"<profiler>/{path.name}"
    return os.path.relpath(path, base)


def _write_library(writer: Writer, library: Library) -> None:
    for compilation in library.compilations:
        writer.build(
            [str(compilation.object)],
            "compile",
            [str(compilation.source)],
            variables={
                "run": _shell(compilation.command, compilation.log),
                "dependencies": str(compilation.depfile),
            },
        )
    writer.build(
        [str(library.library)],
        "link",
        [str(compilation.object) for compilation in library.compilations],
        variables={"run": _shell(library.link_command, library.link_log)},
    )


def _shell(command: Sequence[str], log: PurePosixPath) -> str:
    """Command line for the shell that ninja starts, escaped for ninja."""
    return escape(f"{shlex.join(command)} > {shlex.quote(str(log))} 2>&1")
