"""A file to import, and the common form of what importers read from files."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from profiler.parse.bounded_files import (
    GZIP_MAGIC,
    LINE_COLOURS,
    decoded,
    is_packed,
    read_content,
    unpack,
)

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
SQLITE = "SQLite format 3\0"
"""Beginning of an SQLite database."""
_MESSAGE_KEYS = ("log", "message", "msg", "textPayload")
"""Keys of the message in a JSON log: of Docker, of most loggers, of Google's cloud."""
_LONGEST_MESSAGE = 1 << 16
_LINE_COLOURS = re.compile(LINE_COLOURS, re.MULTILINE)
HEAD_BYTES = 1 << 18
"""Bytes of the head of a file; a trace has its facts on devices and processes in it."""


def has_any(text: str, words: Iterable[str]) -> bool:
    """Whether one of these words occurs in a text: much quicker than a pattern."""
    return any(word in text for word in words)


@dataclass(frozen=True)
class GivenFile:
    """A file, packed by gzip or not."""

    path: Path
    limit: int | None = None
    """Most bytes that it may hold, by default bounded_files.MAX_UNPACKED_BYTES."""
    environ: Mapping[str, str] | None = None
    """Environment in which tools are searched; None: that of this process."""

    @property
    def name(self) -> str:
        """Name without its folder, safe to show."""
        return safe(self.path.name)

    @property
    def plain_name(self) -> str:
        """Name without the ending of gzip."""
        return self.name.removesuffix(".gz")

    @cached_property
    def head(self) -> str:
        """Beginning of the text, also of a truncated file; empty where it cannot be read."""
        return _readable_text(self._start)

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
            return _readable_text(read_content(self.path, self.limit))
        except OSError as error:
            raise ParseError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    @cached_property
    def is_in_json(self) -> bool:
        """Whether lines may be values in JSON, as in a log or a notebook."""
        return decoded(self._start).startswith("{")

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Path of the file, or of an unpacked copy in a private temporary folder.

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


def _readable_text(content: bytes) -> str:
    """Decoded text of a file or its log, without the colours of a terminal around its lines."""
    text = _logged_text(content)
    return _LINE_COLOURS.sub("", text) if "\x1b" in text else text


def _logged_text(content: bytes) -> str:
    """Decoded text.

    A log whose lines a container or a server has put into JSON gives the lines themselves; a
    notebook gives the output of its cells.
    """
    text = decoded(content)
    if (cell_outputs := _printed_in_notebook(text)) is not None:
        return cell_outputs
    first_line = text[:_LONGEST_MESSAGE].partition("\n")[0]
    if _logged_message(first_line) is None:
        return text
    # A line in JSON is complete, with or without an end of line.
    messages = ((line, _logged_message(line)) for line in text.splitlines(keepends=True))
    return "".join(line if message is None else f"{message}\n" for line, message in messages)


def _printed_in_notebook(text: str) -> str | None:
    """Output of the cells of a Jupyter notebook; None for any other text, or a truncated one."""
    if not (text.startswith("{") and '"nbformat"' in text):
        return None
    try:
        cells = json.loads(text)["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        texts = (output.get("text", ()) for output in outputs)
        return "".join(f"{''.join(lines)}\n" for lines in texts)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _logged_message(line: str) -> str | None:
    """Message in a line of a JSON log; None for any other line."""
    if not (line.startswith("{") and line.rstrip().endswith("}")):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message = next((values[key] for key in _MESSAGE_KEYS if key in values), None)
    return message.rstrip("\r\n") if isinstance(message, str) else None


# ---- content of files ----------------------------------------------------------------------------


class Imported(ABC):
    """Content of files that can be shown together: a dataclass of tuples."""

    shows: ClassVar[str]
    """Description of what a page shows of the files, for the table of docs/import.md."""
    notices: tuple[Notice, ...]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Content of several files in their order, with texts that are safe to show."""
        names = [field.name for field in fields(cast(Any, cls))]
        values_by_field = {name: [getattr(part, name) for part in parts] for name in names}
        return safe_frames(
            cls(**{n: tuple(chain.from_iterable(values_by_field[n])) for n in names})
        )

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """All content as JSON; an absent value is null, never 0."""


def unread_notices(file: str, unread: Mapping[str, int]) -> tuple[Notice, ...]:
    """A warning for each kind of events or rows that were left out, with their number."""
    return tuple(
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file, "what": counted_kind(count, kind)})
        for kind, count in unread.items()
    )


def notices_document(notices: Sequence[Notice]) -> list[dict[str, str]]:
    """Warnings as JSON."""
    return [
        {"kind": notice.kind.key, "severity": severity(notice).value, "text": text(notice)}
        for notice in notices
    ]
