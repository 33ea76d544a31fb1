"""Lines of a byte stream, whatever became of it: compressed, UTF-16, cut off, damaged."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Iterator
from typing import Protocol

from profiler.errors import ParseError
from profiler.parse import packed

EXPORT_REMEDY = "Export it first: ncu --import FILE --csv --page raw --print-units base > FILE.csv"

GZIP_MAGIC = b"\x1f\x8b"
_REPORT_MAGICS = (b"NVR", b"SQLite format 3")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BUFFER = 1 << 20
_INFLATE_STEP = 1 << 16
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
"""What zlib calls a stream with the header of gzip."""


def unpacked(content: bytes) -> bytes:
    """Content of a file, decompressed where it is gzip; raises OSError, EOFError or zlib.error."""
    if not content.startswith(GZIP_MAGIC):
        return content
    inflater = _Inflater(io.BytesIO(content))
    return b"".join(iter(lambda: inflater.read(_INFLATE_STEP), b""))


class ByteStream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end."""


class LineSource:
    """Lines of a byte stream without their ends; raises ParseError where not one can be read."""

    def __init__(self, stream: ByteStream, name: str) -> None:
        self.name = name
        self.number = 0
        """Number of the line that was given last, from 1."""
        self.open_end = False
        """Whether that line has no end of line: the file stops inside or right after it."""
        self.damaged = False
        """Whether reading stopped at a damaged place."""
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in self._decoded():
                self.number += 1
                self.open_end = not line.endswith(b"\n")
                clean = line.rstrip(b"\r\n")
                yield clean.replace(b"\0", b"") if b"\0" in clean else clean
        except (EOFError, OSError, zlib.error) as error:
            if self.number == 0:
                raise ParseError(f"{self.name}: cannot be read: {error}") from error
            self.damaged = True

    def _decoded(self) -> Iterator[bytes]:
        reader = io.BufferedReader(_Raw(self._stream), _BUFFER)
        if reader.peek(16).startswith(GZIP_MAGIC):
            reader = io.BufferedReader(_Raw(_Inflater(reader)), _BUFFER)
        start = reader.peek(16)
        if start.startswith(_REPORT_MAGICS):
            raise ParseError(f"{self.name}: is a report, not CSV", remedy=EXPORT_REMEDY)
        if start.startswith(_UTF16_MARKS):
            text = io.TextIOWrapper(reader, encoding="utf-16", errors="replace", newline="\n")
            return (line.encode("utf-8", "replace") for line in text)
        if start.startswith(codecs.BOM_UTF8):
            reader.read(len(codecs.BOM_UTF8))
        return iter(reader)


class _Raw(io.RawIOBase):
    """Gives whatever has `read(size)` the interface that BufferedReader wants."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Inflater:
    """Reads gzip, and gives all that comes before a damaged place, unlike `gzip.GzipFile`."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._inflate = zlib.decompressobj(_GZIP_FORMAT)
        self._input = b""
        self._size = 0
        self._between = False

    def read(self, size: int, /) -> bytes:
        while True:
            self._input = self._input or self._stream.read(_BUFFER)
            if not self._input:
                return self._end()
            # A damaged place takes with it what the same call has inflated so far: small steps.
            data = self._inflate.decompress(self._input, min(size, _INFLATE_STEP))
            self._size += len(data)
            if self._size > packed.MAX_UNPACKED_BYTES:
                raise OSError(packed.beyond(packed.MAX_UNPACKED_BYTES))
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
