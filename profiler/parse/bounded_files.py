"""Files that are read whole or line by line: regular files only, and no more than a limit.

A FIFO waits for a writer that may never come, a device such as `/dev/zero` has no end, and a few
kilobytes of gzip can hold more than a memory.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from profiler.errors import ParseError, naming

MAX_UNPACKED_BYTES = 2**30
"""Largest content of a file that is read whole, packed or not. The largest recording has 3 MB, and
the CSV of a run of 5,000 cells 200 MB."""
GZIP_MAGIC = b"\x1f\x8b"
_UNPACKED = "MAX_UNPACKED_BYTES in profiler/parse/bounded_files"
_PART_BYTES = 2**20
UNPACK_REMEDY = "If it is meant to be so large, unpack it yourself, or give import --limit-gib."
_SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


# Bounded, so that no line takes more than linear time.
_ESCAPES = r"(?:\x1b\[[0-?]{0,16}[@-~]){1,4}"
LINE_COLOURS = rf"^{_ESCAPES}|{_ESCAPES}(?=\r?$)"
"""Escape sequences of terminals around a line, as in logs of CI or of `script`; those inside of a
line may belong to a name."""
_LINE_COLOURS = re.compile(LINE_COLOURS.encode())


def over_limit_text(limit: int, name: str = _UNPACKED) -> str:
    """Text of a message on content that is larger than a limit."""
    return f"holds more than {limit} bytes (limit {name})"


def require_regular(path: Path) -> None:
    """Raise ParseError for a file without an end; nothing where there is no file."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):  # ValueError: a path that no file can have
        return
    if kind in _SPECIAL:
        raise ParseError(
            f"{path}: is {_SPECIAL[kind]}, and not a file",
            remedy="Save what comes out of it in a file, and give that.",
        )


def read_plain(path: Path, limit: int | None = None, limit_name: str = _UNPACKED) -> bytes:
    """Content of a file, as it is.

    Raises OSError where it cannot be read, ParseError where it is no regular file or holds more
    than `limit` bytes (by default MAX_UNPACKED_BYTES); the message has the limit's name.
    """
    require_regular(path)
    with path.open("rb") as stream:
        # In one piece where the file is as large as it says: joining pieces takes twice the memory.
        size = max(_PART_BYTES, os.fstat(stream.fileno()).st_size + 1)
        return b"".join(_bounded_parts(stream, path, limit, limit_name, part_bytes=size))


def read_packed(path: Path, limit: int | None = None) -> bytes:
    """Content of a gzip file, unpacked.

    Raises OSError where it cannot be read or is damaged, ParseError as `read_plain` does.
    """
    require_regular(path)
    try:
        with gzip.open(path) as stream:
            return b"".join(_bounded_parts(stream, path, limit))
    except (EOFError, zlib.error) as error:
        raise OSError(f"damaged: {error}") from error


def plain_or_packed(path: Path) -> Path | None:
    """A file, or else its gzip under the name with `.gz`; None where neither is there."""
    files = (path, path.with_name(f"{path.name}.gz"))
    return next((file for file in files if file.exists()), None)


def read_named(path: Path) -> bytes:
    """Content of a file, unpacked where it is named `.gz`; raises what `read_packed` raises."""
    return read_packed(path) if path.suffix == ".gz" else read_plain(path)


def read_content(path: Path, limit: int | None = None) -> bytes:
    """Content of a file, unpacked where it is gzip; raises what `read_packed` raises."""
    require_regular(path)
    return read_packed(path, limit) if is_packed(path) else read_plain(path, limit)


def decoded(content: bytes) -> str:
    """Text of UTF-16 with its mark, as PowerShell writes it, else of UTF-8 with or without one."""
    encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig"
    return content.decode(encoding, errors="replace")


def is_packed(path: Path) -> bool:
    """Whether a file begins as gzip does; raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def unpack(path: Path, target: Path, limit: int | None = None) -> None:
    """Write the content of a gzip file, unpacked, into another file.

    Raises EOFError, zlib.error or BadGzipFile where it is damaged, OSError where there is no room,
    ParseError as `read_plain` does.
    """
    require_regular(path)
    with gzip.open(path) as source, naming(target), target.open("wb") as sink:
        sink.writelines(_bounded_parts(source, path, limit))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, which takes the place of `path` once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with naming(path), temporary.open("xb") as stream:  # through no link, by the user's umask
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the user named this one
        raise


def _bounded_parts(
    stream: BinaryIO | gzip.GzipFile,
    path: Path,
    limit: int | None,
    limit_name: str = _UNPACKED,
    part_bytes: int = _PART_BYTES,
) -> Iterator[bytes]:
    """Content part by part; raises ParseError where there is more than the limit."""
    limit = MAX_UNPACKED_BYTES if limit is None else limit
    size = 0
    while part := stream.read(min(part_bytes, limit + 1)):
        size += len(part)
        if size > limit:
            remedy = UNPACK_REMEDY if limit_name == _UNPACKED else None
            raise ParseError(f"{path}: {over_limit_text(limit, limit_name)}", remedy=remedy)
        yield part


# ---- lines of a byte stream, which may be compressed, UTF-16, cut off or damaged -----------------

EXPORT_REMEDY = "Export it first: ncu --import FILE --csv --page raw --print-units base > FILE.csv"

_REPORT_MAGICS = (b"NVR", b"SQLite format 3")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_LINE_BYTES = 2**24
"""Longest line of a table: a header of 20,000 metrics has a tenth of it."""
_BUFFER = 1 << 20
_LONG_LINE = (
    f"has more than {MAX_LINE_BYTES} bytes (limit MAX_LINE_BYTES in profiler/parse/bounded_files)"
)


@contextmanager
def open_lines(source: Path | bytes, name: str, limit: int | None = None) -> Iterator[LineSource]:
    """Lines of a file, or of bytes; raises ParseError where it cannot be opened."""
    if isinstance(source, bytes):
        yield LineSource(io.BufferedReader(io.BytesIO(source)), name, limit)
        return
    require_regular(source)
    try:
        stream = cast(io.BufferedReader, source.open("rb", buffering=_BUFFER))
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise ParseError(f"{source}: cannot be read: {reason}") from error
    with stream:
        yield LineSource(stream, name, limit)


class LineSource:
    """Lines of a byte stream without their ends, and the number of bad rows of a table in it.

    Raises ParseError where no line can be read, where a packed stream holds more than `limit` bytes
    (by default MAX_UNPACKED_BYTES), and where a line is longer than MAX_LINE_BYTES.
    """

    def __init__(self, stream: io.BufferedReader, name: str, limit: int | None) -> None:
        self.name = name
        self.number = 0
        """Number of the line that was given last, from 1."""
        self.lacks_line_end = False
        """Whether the last line lacks its end of line: the file stops inside or right after it."""
        self.truncated = False
        """Whether the file ended inside a row, or reading stopped at a damaged place."""
        self.bad_rows = 0
        self.first_bad_line = 0
        """Number of the first bad row's line; 0 without any."""
        self._stream = stream
        self._limit = MAX_UNPACKED_BYTES if limit is None else limit
        self._unpacked: gzip.GzipFile | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in self._utf8_lines():
                self.number += 1
                self.lacks_line_end = not line.endswith(b"\n")
                if self.lacks_line_end and len(line) >= MAX_LINE_BYTES:
                    raise self._parse_error(f"line {self.number} {_LONG_LINE}")
                if self._unpacked is not None and self._unpacked.tell() > self._limit:
                    raise self._parse_error(over_limit_text(self._limit), UNPACK_REMEDY)
                clean = line.rstrip(b"\r\n")
                if b"\x1b" in clean:
                    clean = _LINE_COLOURS.sub(b"", clean)
                yield clean.replace(b"\0", b"") if b"\0" in clean else clean
        except (EOFError, OSError, zlib.error) as error:
            if self.number == 0:
                raise self._parse_error(f"cannot be read: {error}") from error
            self.truncated = True

    def reject(self) -> None:
        """Count the line that was given last as a bad row, unless the file was cut off in it."""
        if self.lacks_line_end:
            self.truncated = True
        else:
            self.bad_rows += 1
            self.first_bad_line = self.first_bad_line or self.number

    def _parse_error(self, reason: str, remedy: str | None = None) -> ParseError:
        return ParseError(f"{self.name}: {reason}", remedy=remedy)

    def _utf8_lines(self) -> Iterator[bytes]:
        reader: Any = self._stream
        if reader.peek(16).startswith(GZIP_MAGIC):
            reader = self._unpacked = gzip.GzipFile(fileobj=reader)
        start = reader.peek(16)
        if start.startswith(_REPORT_MAGICS):
            raise self._parse_error("is a report, not CSV", EXPORT_REMEDY)
        if start.startswith(_UTF16_MARKS):
            text = io.TextIOWrapper(reader, encoding="utf-16", errors="replace", newline="\n")
            texts = iter(partial(text.readline, MAX_LINE_BYTES), "")
            try:
                yield from (line.encode("utf-8", "replace") for line in texts)
            finally:
                text.detach()  # the stream is the caller's to close
            return
        if start.startswith(codecs.BOM_UTF8):
            reader.read(len(codecs.BOM_UTF8))
        yield from iter(partial(reader.readline, MAX_LINE_BYTES), b"")
