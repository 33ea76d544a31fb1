"""Every importer there is: another one is a file in `formats` that has it as `IMPORTER`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from profiler.errors import ParseError, UsageError
from profiler.importers import formats
from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Imported, Importer
from profiler.notices import Notice, NoticeKind
from profiler.parse.bounded_files import require_regular


@cache
def importers() -> tuple[Importer[Any], ...]:
    """All importers by name of their files; those of lines among others last."""
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    modules = [import_module(f"{formats.__name__}.{name}") for name in names]
    every = [
        i for module in modules for i in getattr(module, "IMPORTERS", None) or [module.IMPORTER]
    ]
    return tuple(sorted(every, key=lambda importer: importer.among_others))


def importers_of(file: GivenFile, *, whole: bool = True) -> tuple[Importer[Any], ...]:
    """Importers that recognise a file, the one to read it first.

    `whole`: whether all of it is looked at where its beginning is of no format.
    """
    by_name = [i for i in importers() if i.endings and file.plain_name.endswith(i.endings)]
    by_head = by_name or [i for i in importers() if i.is_in(file.head)]
    if by_head or not whole:
        return tuple(by_head)
    return tuple(i for i in importers() if i.is_in(file.text))


def read_files(
    paths: Sequence[Path], limit: int | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Imported, tuple[Notice, ...]]:
    """What files hold, and what is in them that was not read.

    `limit`: most bytes that a packed file or a trace may hold, by default
    bounded_files.MAX_UNPACKED_BYTES. `environ`: in which tools are looked for.

    Raises ParseError where one cannot be read, UsageError where they cannot be shown together, and
    EnvironmentUnusable where a tool is missing.
    """
    files = [GivenFile(path, limit, environ) for path in paths]
    recognised = [(file, _required(file)) for file in files]
    first, (importer, *_) = recognised[0]
    for file, (other, *_) in recognised:
        if importer.gives and other.gives and other.gives is not importer.gives:
            raise UsageError(
                f"{first.name} is {importer.name}, and {file.name} is {other.name}.",
                remedy="Import files of one kind at a time: a pattern in quotes ('*.sqlite') "
                "stands for what it matches.",
            )
    parts = [
        other.read(file)
        for file, found in recognised
        for other in found
        if other.gives is found[0].gives
    ]
    notices = [
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file.name, "what": other.name})
        for file, (importer, *others) in recognised
        for other in others
        if other.gives and other.gives is not importer.gives
    ]
    return type(parts[0]).joined(parts), tuple(notices)


def _required(file: GivenFile) -> tuple[Importer[Any], ...]:
    require_regular(file.path)
    if not file.path.is_file():
        raise ParseError(f"{file.path}: no such file.")
    recognisers = importers_of(file)
    if not recognisers:
        known = "; ".join(dict.fromkeys(i.name for i in importers() if i.gives))
        raise ParseError(
            f"{file.path}: nothing in it is of a format that is read", remedy=f"These are: {known}."
        )
    return recognisers


def files_in(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Files of a folder, each with whether it begins as, or has the name of, one that is read."""
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        recognisers = importers_of(GivenFile(path), whole=False)
        yield path, bool(recognisers and recognisers[0].gives)
