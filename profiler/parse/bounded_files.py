"""Files that are read whole: regular ones only, and no more of them than a limit.

A FIFO waits for a writer that may never come, a device such as `/dev/zero` has no end, and a few
kilobytes of gzip can hold more than a memory.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

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


def beyond(limit: int, name: str = _UNPACKED) -> str:
    """Words on content that is larger than a limit."""
    return f"holds more than {limit} bytes (limit {name})"


def require_regular(path: Path) -> None:
    """Raise ParseError for what has no end of its own; nothing where there is no file."""
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
        return _whole(stream, path, limit, limit_name)


def _whole(stream: BinaryIO, path: Path, limit: int | None, limit_name: str = _UNPACKED) -> bytes:
    # In one piece where the file is as large as it says: joining pieces takes twice the memory.
    size = max(_PART_BYTES, os.fstat(stream.fileno()).st_size + 1)
    return b"".join(_parts(stream, path, limit, limit_name, part_bytes=size))


def read_packed(path: Path, limit: int | None = None) -> bytes:
    """Content of a gzip file, unpacked.

    Raises OSError where it cannot be read or is damaged, ParseError as `read_plain` does.
    """
    require_regular(path)
    with path.open("rb") as stream:
        return _unpacked(stream, path, limit)


def read_content(path: Path, limit: int | None = None) -> bytes:
    """Content of a file, unpacked where it is gzip; raises what `read_packed` raises."""
    require_regular(path)
    with path.open("rb") as stream:
        packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        stream.seek(0)
        return _unpacked(stream, path, limit) if packed else _whole(stream, path, limit)


def is_packed(path: Path) -> bool:
    """Whether a file begins as gzip does; raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def unpack(path: Path, target: Path, limit: int | None = None) -> None:
    """Write what a gzip file holds into another file.

    Raises EOFError, zlib.error or BadGzipFile where it is damaged, OSError where there is no room,
    ParseError as `read_plain` does.
    """
    require_regular(path)
    with gzip.open(path) as source, naming(target), target.open("wb") as sink:
        sink.writelines(_parts(source, path, limit))


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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _unpacked(packed: BinaryIO, path: Path, limit: int | None) -> bytes:
    try:
        with gzip.GzipFile(fileobj=packed) as stream:
            return b"".join(_parts(stream, path, limit))
    except (EOFError, zlib.error) as error:
        raise OSError(f"damaged: {error}") from error


def _parts(
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
            raise ParseError(f"{path}: {beyond(limit, limit_name)}", remedy=remedy)
        yield part
