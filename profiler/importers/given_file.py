"""A file that somebody wants to have imported, and what importers make of such files."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from profiler.analyse.safe_frames import safe_frames
from profiler.errors import ParseError
from profiler.machine.temporary_folders import temporary_folder
from profiler.notices import Notice, NoticeKind, counted_kind, severity, text
from profiler.outside_text import safe
from profiler.parse.bounded_files import GZIP_MAGIC, is_packed, read_content, unpack

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SQLITE = "SQLite format 3\0"
"""What an SQLite database begins with."""
_MESSAGES = ("log", "message", "msg", "textPayload")
"""Names of what was logged: Docker, most loggers, Google's cloud."""
_LONGEST_MESSAGE = 1 << 16
HEAD_BYTES = 1 << 18
"""Facts about devices and processes stand before the events of a trace."""


@dataclass(frozen=True)
class GivenFile:
    """A file, packed by gzip or not."""

    path: Path
    limit: int | None = None
    """Most bytes that it may hold, by default bounded_files.MAX_UNPACKED_BYTES."""
    environ: Mapping[str, str] | None = None
    """Environment in which tools are looked for; None: that of this process."""

    @property
    def name(self) -> str:
        """Name without its folder, safe to show."""
        return safe(self.path.name)

    @property
    def plain_name(self) -> str:
        """Name without what says that it is packed."""
        return self.name.removesuffix(".gz")

    @cached_property
    def head(self) -> str:
        """Beginning of the text, also of a file that was cut; nothing where it cannot be read."""
        return _decoded(self._start)

    @cached_property
    def _start(self) -> bytes:
        try:
            with self.path.open("rb") as stream:
                start = stream.read(HEAD_BYTES)
            if start.startswith(GZIP_MAGIC):
                start = zlib.decompressobj(_GZIP_FORMAT).decompress(start, HEAD_BYTES)
        except (OSError, ValueError, zlib.error):  # ValueError: a path that no file can have
            return b""
        return start

    @cached_property
    def text(self) -> str:
        """The whole text; raises ParseError where it cannot be read or is beyond the limit."""
        try:
            return _decoded(read_content(self.path, self.limit))
        except OSError as error:
            raise ParseError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    @cached_property
    def is_wrapped(self) -> bool:
        """Whether its lines may be values in JSON: of a log, or of a notebook."""
        return _text_of(self._start).startswith("{")

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """The file, or a copy in a private temporary folder of what is packed in it.

        Raises ParseError where it cannot be unpacked.
        """
        if not is_packed(self.path):
            yield self.path.resolve()
            return
        with temporary_folder() as folder:
            plain = folder / self.path.name.removesuffix(".gz")
            try:
                unpack(self.path, plain, self.limit)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ParseError(f"{self.name}: cannot be unpacked: {error}.") from error
            yield plain


def _decoded(content: bytes) -> str:
    """Text in UTF-16 where it says so, as PowerShell writes it, else in UTF-8.

    Of a log whose lines a container or a server has put into JSON, the lines themselves; of a
    notebook what its cells printed.
    """
    text = _text_of(content)
    if (printed := _printed_in_notebook(text)) is not None:
        return printed
    if not _is_wrapped(text):
        return text
    # A line in JSON is whole, whether or not it has an end.
    messages = ((line, _message(line)) for line in text.splitlines(keepends=True))
    return "".join(line if message is None else f"{message}\n" for line, message in messages)


def _text_of(content: bytes) -> str:
    encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig"
    return content.decode(encoding, errors="replace")


def _printed_in_notebook(text: str) -> str | None:
    """What cells of a Jupyter notebook printed; None of any other text, and of one that was cut."""
    if not (text.startswith("{") and '"nbformat"' in text):
        return None
    try:
        cells = json.loads(text)["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        texts = (output.get("text", ()) for output in outputs)
        return "".join(f"{''.join(lines)}\n" for lines in texts)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _is_wrapped(text: str) -> bool:
    return _message(text[:_LONGEST_MESSAGE].partition("\n")[0]) is not None


def _message(line: str) -> str | None:
    """What a line of JSON logs; None of any other line."""
    if not (line.startswith("{") and line.rstrip().endswith("}")):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    logged = next((values[key] for key in _MESSAGES if key in values), None)
    return logged.rstrip("\r\n") if isinstance(logged, str) else None


# ---- what files hold -----------------------------------------------------------------------------


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


def unread_notices(file: str, unread: Mapping[str, int]) -> tuple[Notice, ...]:
    """A warning for each kind of what was left out, with how many there are."""
    return tuple(
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file, "what": counted_kind(count, what)})
        for what, count in unread.items()
    )


def notices_document(notices: Sequence[Notice]) -> list[dict[str, str]]:
    """Warnings as JSON."""
    return [
        {"kind": notice.kind.key, "severity": severity(notice).value, "text": text(notice)}
        for notice in notices
    ]
