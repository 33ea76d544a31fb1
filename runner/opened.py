"""Which files a workload opens while it runs: they belong to what its numbers depend on.

An audit hook sees every file that Python code opens for reading, wherever it is opened from. What
is noted costs one call per audit event; contents are hashed later, between phases.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from profiler.runner.protocol import file_digest

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", ".git"})


class OpenedFiles:
    """Files under some folders that this process opened to read, each given once.

    Left out are files that this process wrote, or that are younger than it: they are results of
    what ran, and would be others in each session.
    """

    def __init__(self, watched: Mapping[str, str], unwatched: Sequence[str]) -> None:
        self._watched = {label: Path(folder).resolve() for label, folder in watched.items()}
        self._unwatched = tuple(Path(folder).resolve() for folder in (*unwatched, sys.prefix))
        self._began = time.time()
        self._waiting: dict[str, None] = {}
        self._given: dict[str, str] = {}
        self._written: set[str] = set()

    def install(self) -> None:
        """See what is opened from now on; Python has no way to take a hook away."""
        if self._watched:
            sys.addaudithook(self._hook)

    def begin_again(self) -> None:
        """Count what was changed until now, too: this process waited while it was."""
        self._began = time.time()

    def drain(self) -> Iterator[tuple[str, str]]:
        """Name (label, colon, path in its folder) and digest of each file that is new.

        The digest is empty of one that was given before and was written since.
        """
        for path in self._written.intersection(self._given):
            yield self._given.pop(path), ""
        while self._waiting:
            path, _ = self._waiting.popitem()
            named = self._named(path)
            if named is None or path in self._written or named[0] in self._given.values():
                continue
            self._given[path] = named[0]
            yield named[0], file_digest(named[1])

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, _, flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):  # a descriptor that is open already
            return
        path = os.path.abspath(path)  # noqa: PTH100 - a Path for every opened file takes longer
        if isinstance(flags, int) and flags & _WRITES:
            self._written.add(path)
        else:
            self._waiting[path] = None

    def _named(self, opened: str) -> tuple[str, Path] | None:
        """Name and path of a file that counts; None of any other."""
        file = _source_of(opened)
        try:
            file = file.resolve()
            facts = file.stat()
        except (OSError, ValueError, RuntimeError):
            return None
        if not stat.S_ISREG(facts.st_mode) or facts.st_mtime >= self._began:
            return None
        if any(file.is_relative_to(folder) for folder in self._unwatched):
            return None
        for label, folder in self._watched.items():
            if file.is_relative_to(folder):
                inside = file.relative_to(folder)
                foreign = _FOREIGN_FOLDERS.intersection(inside.parts)
                return None if foreign else (f"{label}:{inside.as_posix()}", file)
        return None


def _source_of(path: str) -> Path:
    """The Python source that a compiled file was made of; any other file itself."""
    if path.endswith(".pyc"):
        try:
            return Path(importlib.util.source_from_cache(path))
        except (ValueError, NotImplementedError):
            pass
    return Path(path)
