"""The shared objects that a program brings with it, as its dynamic section names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

_SEARCH_TAGS = ("DT_RPATH", "DT_RUNPATH")
_TEXTS = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
"""Tag → where elftools puts its text."""


def shared_objects(program: Path, folders: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Shared objects of a program, and theirs, in its own search path and in `folders`.

    Those in the system's folders are left out: drivers and the C library are no part of a program.
    Nothing for what is no ELF file. What a program opens by itself (`dlopen`) is not seen.
    """
    libraries: dict[Path, None] = {}
    waiting = [program]
    while waiting:
        for path in _needed(waiting.pop(), folders):
            if path not in libraries:
                libraries[path] = None
                waiting.append(path)
    return tuple(libraries)


def _needed(file: Path, folders: Sequence[Path]) -> Iterator[Path]:
    names, own = _dynamic(file)
    for name in names:
        for folder in (*own, *folders):
            path = folder / name
            if path.is_file():
                yield path.resolve()
                break


def _dynamic(file: Path) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Names of needed objects, and folders in which a file looks for them first."""
    try:
        with file.open("rb") as stream:
            entries = list(_entries(ELFFile(stream)))
    except (OSError, ELFError, ValueError, KeyError, AttributeError, UnicodeDecodeError):
        return (), ()  # a script, or a file that only looks like a program
    needed = tuple(text for tag, text in entries if tag == "DT_NEEDED")
    paths = [text for tag, text in entries if tag in _SEARCH_TAGS]
    origin = str(file.resolve().parent)
    folders = (
        part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        for path in paths
        for part in path.split(":")
        if part
    )
    return needed, tuple(map(Path, folders))


def _entries(elf: ELFFile) -> Iterator[tuple[str, str]]:
    """Tag and text of the entries of the dynamic section that have a text of interest."""
    for section in elf.iter_sections("SHT_DYNAMIC"):
        if isinstance(section, DynamicSection):
            for entry in section.iter_tags():
                name = _TEXTS.get(entry.entry.d_tag)
                if name is not None:
                    yield entry.entry.d_tag, str(getattr(entry, name))
