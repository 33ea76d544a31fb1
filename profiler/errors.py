"""Every error that this project raises on purpose, and the exit code of each family.

ProfilerError                1   internal error
├── SpecError                2   the experiment file is wrong
├── UsageError               2   the command line or a given file is wrong
│   └── ParseError           2   a tool's output could not be read at all
├── EnvironmentUnusable      3   the machine cannot do this; says the remedy
└── Interrupted            130   stopped by the user; what was measured is kept

No error, but exit codes of commands that did what they were asked: 4 where some cells failed or
none was measured, 5 where a `--fail-on` gate tripped.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

SPEC_SUFFIXES = (".py", ".yaml", ".yml")
"""Endings of experiment files: a name without an ending is looked for with each of them."""


class ExitCode(IntEnum):
    """Process exit codes, as documented for the command line."""

    COMPLETE = 0
    OWN_FAULT = 1
    BAD_USAGE = 2
    ENVIRONMENT = 3
    SOME_CELLS_FAILED = 4
    GATE_TRIPPED = 5
    INTERRUPTED = 130


class ProfilerError(Exception):
    """Base of all errors of this project.

    The message says what happened, where (file, line, field) and, in `remedy`, what to do.
    """

    exit_code: ExitCode = ExitCode.OWN_FAULT

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or None

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message}\n  Remedy: {self.remedy}"


class SpecError(ProfilerError):
    """The experiment file is wrong: unknown key, illegal value, missing baseline."""

    exit_code = ExitCode.BAD_USAGE


class UsageError(ProfilerError):
    """The command line asks for something that does not exist or does not fit."""

    exit_code = ExitCode.BAD_USAGE


class ParseError(UsageError):
    """A tool's output could not be read at all (an unreadable row is only a warning)."""


class EnvironmentUnusable(ProfilerError):  # noqa: N818 - reads as the sentence it is
    """The machine cannot do what was asked; `remedy` says what would change that."""

    exit_code = ExitCode.ENVIRONMENT


class Interrupted(ProfilerError):  # noqa: N818 - the field's word
    """Stopped by the user; everything measured so far is in the run folder."""

    exit_code = ExitCode.INTERRUPTED


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give the name of a file to errors of the system without one, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def without_pydantic(message: str) -> str:
    """A message of pydantic, or one that quotes it, in words for users."""
    for pydantic_words, own_words in _TRANSLATIONS:
        message = message.replace(pydantic_words, own_words)
    return message


_TRANSLATIONS = (
    ("Value error, ", ""),
    ("Input should be", "must be"),
    ("a valid string", "text"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid tuple", "a list"),
    ("a valid list", "a list"),
    ("a valid dictionary", "a mapping"),
    ("String should match pattern", "must match the pattern"),
    ("String should", "must"),
    ("Tuple should", "must"),
    ("Dictionary should", "must"),
)


_MAX_ENTRIES = 1000
"""Most entries of a folder that are compared with the name of a missing file."""


def experiment_inside(folder: Path) -> str:
    """Hint `; did you mean 'sums/sums.py'?` for the folder of an experiment; else empty."""
    files = (folder / f"{folder.name}{suffix}" for suffix in SPEC_SUFFIXES)
    file = next((file for file in files if file.is_file()), None)
    return "" if file is None else f"; did you mean '{file}'?"


def nearest_file(path: Path) -> str:
    """Hint `; did you mean 'experiments/softmax.yaml'?` for a missing file; empty without one.

    The closest name in the file's folder, or a similar name in a folder one level down.
    """
    folder = next(parent for parent in (path.parent, *path.parents) if parent.is_dir())
    try:
        missing_parts = path.relative_to(folder).parts
        entries = sorted(itertools.islice(folder.iterdir(), _MAX_ENTRIES))
        # Of `experimnets/softmax.yaml` the folder is mistyped.
        files_in_similar_folders = (
            entry.joinpath(*missing_parts[1:])
            for entry in entries
            if _has_similar_name(entry, missing_parts[0])
        )
        beside = _similar_files(path.parent, path.name) if folder == path.parent else []
        below = (
            file for entry in entries if entry.is_dir() for file in _similar_files(entry, path.name)
        )
        nearest = next(
            (
                file
                for file in (*beside, *below, *_closest_first(files_in_similar_folders, path))
                if file.is_file()
            ),
            None,
        )
    except OSError:
        return ""
    return "" if nearest is None else f"; did you mean '{nearest}'?"


def _similar_files(folder: Path, name: str) -> list[Path]:
    """Files of a folder with a similar name, with or without the ending of an experiment.

    Empty where the folder cannot be read.
    """
    try:
        names = [entry.name for entry in itertools.islice(folder.iterdir(), _MAX_ENTRIES)]
    except OSError:
        return []
    with_ending = [f"{name}{ending}" for ending in SPEC_SUFFIXES if f"{name}{ending}" in names]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.85)
    return [folder / entry for entry in (*with_ending, *close)]


def close_hint(text: object, candidates: Iterable[str]) -> str:
    """`; did you mean 'blocks'?` where a candidate is close; else empty."""
    close = difflib.get_close_matches(str(text), list(candidates), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _has_similar_name(entry: Path, name: str) -> bool:
    return bool(difflib.get_close_matches(name, [entry.name], n=1))


def _closest_first(files: Iterator[Path], missing_file: Path) -> list[Path]:
    def likeness(file: Path) -> float:
        return difflib.SequenceMatcher(None, str(file), str(missing_file)).ratio()

    return sorted(files, key=likeness, reverse=True)
