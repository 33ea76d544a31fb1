"""Files that the user names for results: `--json FILE`, `--markdown FILE`, `--out PAGE`.

A regular file is replaced in one step. Anything else (a device, a FIFO, `>(jq .)`, a link) is
opened and written to, as a shell's `>` does: it would be lost if a file took its place.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn, TextIO

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.run_folder.folder import write_atomic

PAGE_MARKER = b'<meta name="generator" content="kernel-profiler">'
"""Stands in the head of every page (`render/templates/base.html`)."""
_HEAD_BYTES = 4096
_OTHER_PAGE = "Choose another path with --out."
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def write_for_flag(flag: str, target: str, parts: Iterable[str]) -> None:
    """Write where `--json` or `--markdown` points: a path, or `-` for stdout.

    Raises UsageError where the target cannot be opened, EnvironmentUnusable where it is full.
    """
    if target == "-":
        write_stdout(parts)
    else:
        _write(Path(target), parts, f"{flag} {target}", f"Choose another path with {flag}.")


def write_page(target: Path, html: str) -> None:
    """Write a page where `--out` points; raises as `write_for_flag`."""
    _write(target, (html,), f"{target}: the page cannot be written", _OTHER_PAGE)


def write_table(target: Path, parts: Iterable[str]) -> None:
    """Write a table beside the page that `--out` points to; raises as `write_for_flag`."""
    _write(target, parts, f"{target}: the table cannot be written", _OTHER_PAGE)


def _write(target: Path, parts: Iterable[str], what: str, remedy: str) -> None:
    try:
        write_target(target, parts)
    except OSError as error:
        _raise_for(error, what, remedy)


def _raise_for(error: OSError, what: str, remedy: str) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise error  # the reader of our stdout left: the command line knows what that means
    message = f"{what}: {error.strerror}"
    if error.errno in _NO_SPACE:
        raise EnvironmentUnusable(message, remedy=f"Make room. {remedy}") from error
    raise UsageError(message, remedy=remedy) from error


def write_stdout(parts: Iterable[str]) -> None:
    """Write to stdout at once, so that a full device is met here and named."""
    try:
        _write_now(sys.stdout, parts)
    except OSError as error:
        _raise_for(error, "stdout", "Redirect it elsewhere.")


def write_target(target: Path, parts: Iterable[str]) -> None:
    """Write parts of a text to a file atomically, and straight into what is no regular file."""
    stream = _own_stream(target)
    if stream is not None:
        _write_now(stream, parts)
    elif _is_special(target):
        _write_through(target, parts)
    else:
        write_atomic(target, parts)


def _write_now(stream: TextIO, parts: Iterable[str]) -> None:
    stream.writelines(parts)
    stream.flush()


def is_own_page(file: Path) -> bool:
    """Whether a file is a page that this program wrote."""
    return PAGE_MARKER in _head(file)


def is_table(file: Path, columns: Iterable[str]) -> bool:
    """Whether a file is a CSV whose first columns are these."""
    return _head(file).startswith(",".join(columns).encode())


def _head(file: Path) -> bytes:
    """The beginning of a regular file; empty where there is none that can be read."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return b""  # opening a FIFO would wait for its writer
        with file.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def _own_stream(target: Path) -> TextIO | None:
    """Return our stdout or stderr where the target is the same file.

    A second opening of a redirected file would start at its beginning and overwrite the other.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if os.path.samestat(target.stat(), os.fstat(stream.fileno())):
                return stream
        except (OSError, ValueError, AttributeError):  # not there, closed, or no file at all
            continue
    return None


def _is_special(target: Path) -> bool:
    """Whether something other than a regular file is there: a device, a FIFO, a link, a folder."""
    try:
        return not stat.S_ISREG(target.lstat().st_mode)
    except FileNotFoundError:
        return False


def _write_through(target: Path, parts: Iterable[str]) -> None:
    try:
        with target.open("w", encoding="utf-8") as stream:
            stream.writelines(parts)
    except BrokenPipeError:
        return  # the reader of a FIFO has seen enough: nothing is wrong
