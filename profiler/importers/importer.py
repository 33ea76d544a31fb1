"""What an importer is, and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from profiler.analyse.safe_frames import safe_frames
from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile
from profiler.notices import Notice, NoticeKind, counted_kind, severity, text


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
    """What a file of it is, in messages: `a trace of torch.profiler`."""
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
