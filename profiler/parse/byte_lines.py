"""Lines of a byte stream, whatever became of it: compressed, UTF-16, cut off, damaged."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from profiler.errors import ParseError
from profiler.parse import bounded_files
from profiler.parse.bounded_files import GZIP_MAGIC

EXPORT_REMEDY = "Export it first: ncu --import FILE --csv --page raw --print-units base > FILE.csv"

_REPORT_MAGICS = (b"NVR", b"SQLite format 3")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_LINE_BYTES = 2**24
"""Longest line of a table: a header of 20,000 metrics has a tenth of it."""
_BUFFER = 1 << 20
_INFLATE_STEP = 1 << 16
_LONG_LINE = (
    f"has more than {MAX_LINE_BYTES} bytes (limit MAX_LINE_BYTES in profiler/parse/byte_lines)"
)
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
"""What zlib calls a stream with the header of gzip."""


@contextmanager
def opened(source: Path | bytes) -> Iterator[io.BufferedReader]:
    """A file, or bytes, to take lines from; raises ParseError where it cannot be opened."""
    if isinstance(source, bytes):
        yield io.BufferedReader(io.BytesIO(source))
        return
    bounded_files.require_regular(source)
    try:
        stream = cast(io.BufferedReader, source.open("rb", buffering=_BUFFER))
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise ParseError(f"{source}: cannot be read: {reason}") from error
    with stream:
        yield stream


class LineSource:
    """Lines of a byte stream without their ends.

    Raises ParseError where not one can be read, where a packed stream holds more than `limit` bytes
    (by default bounded_files.MAX_UNPACKED_BYTES), and where a line is longer than MAX_LINE_BYTES.
    """

    def __init__(self, stream: io.BufferedReader, name: str, limit: int | None = None) -> None:
        self.name = name
        self.number = 0
        """Number of the line that was given last, from 1."""
        self.open_end = False
        """Whether that line has no end of line: the file stops inside or right after it."""
        self.damaged = False
        """Whether reading stopped at a damaged place."""
        self._stream = stream
        self._limit = bounded_files.MAX_UNPACKED_BYTES if limit is None else limit

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in self._decoded():
                self.number += 1
                self.open_end = not line.endswith(b"\n")
                if self.open_end and len(line) >= MAX_LINE_BYTES:
                    raise self._refused(f"line {self.number} {_LONG_LINE}")
                clean = line.rstrip(b"\r\n")
                yield clean.replace(b"\0", b"") if b"\0" in clean else clean
        except (EOFError, OSError, zlib.error) as error:
            if self.number == 0:
                raise self._refused(f"cannot be read: {error}") from error
            self.damaged = True

    def _refused(self, reason: str, remedy: str | None = None) -> ParseError:
        return ParseError(f"{self.name}: {reason}", remedy=remedy)

    def _decoded(self) -> Iterator[bytes]:
        reader: io.BufferedReader[Any] = self._stream
        if reader.peek(16).startswith(GZIP_MAGIC):
            reader = io.BufferedReader(_Inflater(reader, self._limit, self.name), _BUFFER)
        start = reader.peek(16)
        if start.startswith(_REPORT_MAGICS):
            raise self._refused("is a report, not CSV", EXPORT_REMEDY)
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


class _Inflater(io.RawIOBase):
    """Reads gzip, and gives all that comes before a damaged place, unlike `gzip.GzipFile`."""

    def __init__(self, stream: io.BufferedReader, limit: int, name: str) -> None:
        self._stream = stream
        self._limit = limit
        self._name = name
        self._inflate = zlib.decompressobj(_GZIP_FORMAT)
        self._input = b""
        self._size = 0
        self._between = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        while True:
            self._input = self._input or self._stream.read(_BUFFER)
            if not self._input:
                return self._end()
            # A damaged place takes with it what the same call has inflated so far: small steps.
            data = self._inflate.decompress(self._input, min(size, _INFLATE_STEP))
            self._size += len(data)
            if self._size > self._limit:
                words = bounded_files.beyond(self._limit)
                raise ParseError(f"{self._name}: {words}", remedy=bounded_files.UNPACK_REMEDY)
            self._input = self._inflate.unconsumed_tail
            if self._inflate.eof:  # another member may follow
                self._input = self._inflate.unused_data.lstrip(b"\0")
                self._inflate = zlib.decompressobj(_GZIP_FORMAT)
                self._between = True
            elif data:
                self._between = False
            if data:
                return data

    def _end(self) -> bytes:
        """End of the input: empty where it ends between two members."""
        rest = self._inflate.flush()
        self._between = self._between or self._inflate.eof
        if not rest and not self._between:
            raise EOFError("the compressed data ends too early")
        return rest
