"""Beginning of a file, by which its kind is told."""

from __future__ import annotations

import zlib
from pathlib import Path

from profiler.parse.bounded_files import GZIP_MAGIC

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
HEAD_BYTES = 1 << 18
"""Facts about devices and processes stand before the events of a trace."""


def head(file: Path) -> bytes:
    """First bytes of a file, unpacked; nothing where it cannot be read."""
    try:
        with file.open("rb") as stream:
            start = stream.read(HEAD_BYTES)
        # A file that was cut has a head, too.
        return (
            zlib.decompressobj(_GZIP_FORMAT).decompress(start, HEAD_BYTES)
            if start.startswith(GZIP_MAGIC)
            else start
        )
    except (OSError, zlib.error):
        return b""
