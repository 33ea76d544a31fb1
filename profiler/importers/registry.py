"""What an importer is and what it gives, and every importer there is.

Another one is a file in `formats` that has it as `IMPORTER`.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from profiler.analyse.safe_frames import safe_frames
from profiler.errors import ParseError, UsageError
from profiler.importers import formats
from profiler.importers.given_file import GivenFile
from profiler.notices import Notice, NoticeKind, counted_kind, severity, text
from profiler.parse.bounded_files import require_regular


class Imported(ABC):
    """What files hold that can be shown together: a dataclass of tuples."""

    shows: ClassVar[str]
    """What is shown of them, in the table of docs/import.md."""
    notices: tuple[Notice, ...]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several files in their order as one, with texts that are safe to show."""
        names = [field.name for field in fields(cast(Any, cls))]
        of_all = {name: [getattr(part, name) for part in parts] for name in names}
        return safe_frames(cls(**{n: tuple(chain.from_iterable(of_all[n])) for n in names}))

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """All of it as JSON; a value that is absent is null, never 0."""


T = TypeVar("T", bound=Imported)


def nowhere(text: str) -> bool:
    """False: such files are known by their names alone."""
    del text
    return False


@dataclass(frozen=True)
class Importer(Generic[T]):
    """One format: how a file of it is recognised, and what reads it."""

    name: str
    """Name of a file of it in messages: `a trace of torch.profiler`."""
    files: str
    """How people get such files, in the table of docs/import.md."""
    gives: type[T] | None
    """None of a format that is known, and not read."""
    read: Callable[[GivenFile], T]
    """Raises ParseError where it cannot be read, EnvironmentUnusable where a tool is missing."""
    is_in: Callable[[str], bool] = nowhere
    """Whether a text, or the beginning of one, holds such content; cheap on other texts."""
    endings: tuple[str, ...] = ()
    """What names of such files end in (packed or not), whatever is in them."""
    among_others: bool = False
    """Whether its lines stand among those of programs, which may hold other formats, too."""


def not_read(name: str, is_in: Callable[[str], bool], remedy: str) -> Importer[Any]:
    """A format that is named for what it is; `remedy`: what to give instead."""

    def refuse(file: GivenFile) -> NoReturn:
        raise ParseError(f"{file.name}: {name}, which is not read", remedy=remedy)

    return Importer(name, f"{name}: {remedy}", None, refuse, is_in, among_others=True)


def unread_notices(file: str, unread: Mapping[str, int]) -> tuple[Notice, ...]:
    """A warning for each kind of what was left out, with how many there are."""
    return tuple(
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file, "what": counted_kind(count, what)})
        for what, count in unread.items()
    )


def notices_document(notices: Sequence[Notice]) -> list[dict[str, str]]:
    """Warnings as JSON."""
    return [
        {"kind": notice.kind.value, "severity": severity(notice).value, "text": text(notice)}
        for notice in notices
    ]


# ---- all of them ---------------------------------------------------------------------------------


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
