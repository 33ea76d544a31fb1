"""Packed files, unpacked up to a limit: a few kilobytes of gzip can hold more than a memory."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from profiler.errors import ParseError

MAX_UNPACKED_BYTES = 2**30
"""Largest content of a packed file. The largest recording has 3 MB, and the CSV of a run of 5,000
cells 200 MB."""
_PART_BYTES = 2**20
_REMEDY = "Unpack the file yourself if it is meant to be so large."


def beyond(limit: int) -> str:
    """Words on content that is larger than a limit."""
    return f"unpacks to more than {limit} bytes (limit MAX_UNPACKED_BYTES in profiler/parse/packed)"


def read_packed(path: Path, limit: int | None = None) -> bytes:
    """Content of a gzip file.

    Raises OSError where it is damaged, ParseError where it holds more than `limit` bytes (by
    default MAX_UNPACKED_BYTES).
    """
    limit = MAX_UNPACKED_BYTES if limit is None else limit
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.open(path) as stream:
            while part := stream.read(_PART_BYTES):
                size += len(part)
                if size > limit:
                    raise ParseError(f"{path}: {beyond(limit)}", remedy=_REMEDY)
                parts.append(part)
    except (EOFError, zlib.error) as error:
        raise OSError(f"damaged: {error}") from error
    return b"".join(parts)
