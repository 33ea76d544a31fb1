"""Writes the results of a run (page, CSV and JSON), and prints what a command says beside them.

In files that the user names (`--json FILE`, `--markdown FILE`, `--out PAGE`) a regular file is
replaced in one step. Anything else (a device, a FIFO, `>(jq .)`, a link) is opened and written to,
as a shell's `>` does: it would be lost if a file took its place.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import stat
import sys
import threading
import time
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.console import make_console
from profiler.notices import Notice, fold, in_one_line
from profiler.outside_text import safe
from profiler.run_folder.documents import write_atomic, write_bytes
from profiler.run_folder.folder import PAGE_FILE, SUMMARY_JSON_FILE
from profiler.run_folder.runs import require_folder

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from profiler.findings.findings import Findings

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that a spreadsheet takes for a formula."""
_ROWS_AT_ONCE = 4096
"""Rows of a CSV that are written at once."""

SAMPLES_FILE = "samples.csv"
SUMMARY_FILE = "summary.csv"
SUMMARY_PARQUET_FILE = "summary.parquet"


def write_results(
    findings: Findings, folder: Path, *, page: bool = True
) -> tuple[Mapping[str, Any], Path | None]:
    """Write samples.csv, summary.csv, summary.json and the page.

    summary.parquet, too, where pyarrow is installed. Returns the content of summary.json, and the
    path of the page.
    """
    from profiler.findings.document import summary_table  # loads pandas: not for every command

    write_atomic(folder / SAMPLES_FILE, csv_parts(findings.report.measured.samples))
    summary = summary_table(findings)
    write_atomic(folder / SUMMARY_FILE, csv_parts(summary))
    _write_parquet(summary, folder / SUMMARY_PARQUET_FILE)
    document = report_document(findings)
    write_atomic(folder / SUMMARY_JSON_FILE, dump(document))
    if not page:
        return document, None
    from profiler.render.page import render_page  # takes half a second, and not every run has one

    write_atomic(folder / PAGE_FILE, render_page(findings))
    return document, folder / PAGE_FILE


def show_page(page: Path | None, console: Console, *, opens: bool) -> None:
    """Print the path of a run's page, where it has one; `opens`: open it in the user's browser."""
    if page is None:
        return
    console.print(f"Page: {page}")
    if opens:
        webbrowser.open(page.resolve().as_uri())


def csv_parts(frame: pd.DataFrame) -> Iterator[str]:
    """Parts of a CSV of a frame without its index, safe to open in a spreadsheet.

    Parts, because all texts of a large frame would take ten times its memory.
    """
    for start in range(0, max(len(frame), 1), _ROWS_AT_ONCE):
        part, rows = io.StringIO(), frame.iloc[start : start + _ROWS_AT_ONCE]
        lines = zip(*(_csv_values(column) for _, column in rows.items()), strict=True)
        # As `DataFrame.to_csv` writes them, which takes half as long again.
        csv.writer(part, lineterminator="\n").writerows(lines if start else [frame.columns, *lines])
        yield part.getvalue()


def _csv_values(column: pd.Series[Any]) -> list[Any]:
    """Values of a column, empty where missing; a formula is quoted, so that none is computed."""
    values = column.to_numpy(dtype=object, na_value="").tolist()
    if column.dtype.kind != "O" or not any(map(_is_formula, set(values))):
        return values
    return [f"'{value}" if _is_formula(value) else value for value in values]


def _is_formula(value: Any) -> bool:
    """Whether a spreadsheet would take a value for a formula."""
    return isinstance(value, str) and value.startswith(_FORMULAS)


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet where pyarrow is installed; parameters of mixed types as text."""
    if find_spec("pyarrow") is None:
        return
    # A column of Parquet has one type: 128 and "auto" do not meet in one.
    texts_of_mixed = {
        name: table[name].map(str, na_action="ignore")
        for name in table.columns
        if not _has_one_type(table[name])
    }
    content = io.BytesIO()
    table.assign(**texts_of_mixed).to_parquet(content, engine="pyarrow", index=False)
    write_bytes(path, content.getvalue())


def _has_one_type(column: pd.Series[Any]) -> bool:
    """Whether all present values have one type, or are numbers."""
    types = set(column.dropna().map(type))
    return len(types) < 2 or types == {int, float}


def warn(text: str, color: str = "auto") -> None:
    """Print a line to stderr."""
    make_console(color, stderr=True).print(text)


def print_notices(notices: Sequence[Notice], color: str, *, verbose: bool = True) -> None:
    """Print notices to stderr: a line each where `verbose`, else several in one line."""
    from profiler.render.console.terminal import Paragraph

    errors = make_console(color, stderr=True)
    for line in notice_lines(notices, verbose=verbose):
        errors.print(line if verbose else Paragraph(line))


def notice_lines(notices: Sequence[Notice], *, verbose: bool) -> tuple[str, ...]:
    """Notices as lines: one each, or several in one line."""
    folded = fold(notices)
    if verbose or len(folded) < 2:
        return tuple(f"{notice.severity.value}: {notice.text}" for notice in folded)
    return (in_one_line(folded),)


def report_document(findings: Findings) -> dict[str, Any]:
    """The findings as one JSON document: raw numbers, units in the keys, missing is null."""
    from profiler.findings.document import summary_document
    from profiler.render.words.headline import headline_text

    return summary_document(findings, headline_text(findings))


def dump(document: Mapping[str, Any]) -> str:
    """JSON text; NaN and infinities, which JSON does not have, become null.

    A line for each key, and for each item of a list of objects. (Python's own indentation takes ten
    times as long.)
    """
    return "".join(dump_parts(document))


def dump_parts(document: Mapping[str, Any], *, compact: bool = False) -> Iterator[str]:
    """Parts of the text of `dump`; iterators of objects in the document are read lazily.

    So a document that does not fit into memory can be written. `compact`: all in one line.
    """
    if compact:
        yield f"{_encoded(document)}\n"
        return
    start = "{\n"
    for key, value in document.items():
        yield f"{start} {_encoded(str(key))}: "
        yield from _in_lines(value)
        start = ",\n"
    yield "{\n\n}\n" if start == "{\n" else "\n}\n"


def _in_lines(value: Any) -> Iterator[str]:
    """JSON of a value; a list of objects has a line for each."""
    if not _has_objects(value):
        yield _encoded(value)
        return
    start = "[\n"
    for item in value:
        yield f"{start}  {_encoded(item)}"
        start = ",\n"
    yield "[]" if start == "[\n" else "\n ]"


def _has_objects(value: Any) -> bool:
    is_list = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return is_list or isinstance(value, Iterator)


def _encoded(value: Any) -> str:
    """JSON of a value, in one line."""
    return json.dumps(_json(value), allow_nan=False, default=str)


def _json(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {safe(str(key)): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value


def require_page(page: Path | None, *, no_report: bool) -> None:
    """Raise UsageError where a page is named, and none is to be written."""
    if page is not None and no_report:
        raise UsageError(
            f"--out {page} names the page, and --no-report writes none.",
            remedy="Leave out --no-report, or --out.",
        )


def require_target(flag: str, target: str) -> None:
    """Raise UsageError where a file cannot be written, before hours of measuring are lost."""
    path = Path(target)
    if path.is_dir():
        raise UsageError(
            f"{flag} {target}: is a folder", remedy=f"Choose another path with {flag}."
        )
    if target != "-" and not path.exists():
        require_folder(path, flag)


def write_markdown_target(findings: Findings, target: str | None) -> None:
    """Write Markdown where `--markdown` points: a path, or `-` for stdout; nothing for None."""
    if target is None:
        return
    from profiler.render.excerpts import run_markdown

    write_for_flag("--markdown", target, run_markdown(findings))


def write_json_target(
    document: Mapping[str, Any], target: str | None, *, compact: bool = False
) -> None:
    """Write JSON where `--json` points: a path, or `-` for stdout; nothing for None.

    `compact`: in one line, for programs that pay by the letter.
    """
    if target is not None:
        write_for_flag("--json", target, dump_parts(document, compact=compact))


PATIENCE_S = 2.0


class Stages:
    """Prints stages of a command that reads and writes files; a quick command prints nothing."""

    def __init__(self, color: str) -> None:
        self._console = make_console(color, stderr=True)
        self._began = time.monotonic()

    @contextmanager
    def stage(self, text: str) -> Iterator[None]:
        """Print `text` while the body runs, as soon as the command has taken two seconds."""
        remaining_s = self._began + PATIENCE_S - time.monotonic()
        timer = threading.Timer(max(0.0, remaining_s), self._say, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _say(self, text: str) -> None:
        self._console.print(f"{text} …")


# ---- files that the user names -------------------------------------------------------------------

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


def write_page(target: Path, html: str, files: Sequence[Path] = ()) -> None:
    """Write a page where `--out` points, or `default_page` of `files`; raises as `write_for_flag`.

    Its head has a digest of the files' paths, by which it is known to be theirs.
    """
    marker = PAGE_MARKER.decode()
    page = html.replace(marker, f"{marker}\n{_files_tag(files)}", 1) if files else html
    _write(target, (page,), f"{target}: the page cannot be written", _OTHER_PAGE)


def default_page(page: Path, files: Sequence[Path]) -> Path:
    """Path for the page of files where the user names none: no page of other files lies there.

    Numbered where others' lie at `page`. Raises UsageError where something stands there that is no
    page of this program.
    """
    numbered = (page.with_stem(f"{page.stem}-{number}") for number in count(2))
    return next(target for target in chain([page], numbered) if _is_free_for(target, files))


def _is_free_for(target: Path, files: Sequence[Path]) -> bool:
    """Whether nothing lies at a path, or a page of the same files."""
    if os.path.lexists(target) and not is_own_page(target):
        raise UsageError(
            f"{target}: already there, and no page of this program: it is not overwritten.",
            remedy="Name another file for the page with --out.",
        )
    return not target.exists() or _files_tag(files).encode() in _head(target)


def _files_tag(files: Iterable[Path]) -> str:
    """Tag for the head of a page that tells by which files it was made, without their paths."""
    paths = "\n".join(map(os.path.realpath, files))
    digest = hashlib.sha256(paths.encode(errors="surrogateescape")).hexdigest()
    return f'<meta name="files" content="{digest[:16]}">'


def write_table(target: Path, parts: Iterable[str]) -> None:
    """Write a table beside the page that `--out` points to; raises as `write_for_flag`."""
    _write(target, parts, f"{target}: the table cannot be written", _OTHER_PAGE)


def _write(target: Path, parts: Iterable[str], problem: str, remedy: str) -> None:
    try:
        write_target(target, parts)
    except OSError as error:
        raise_unwritable(error, problem, remedy)


def raise_unwritable(error: OSError, problem: str, remedy: str) -> NoReturn:
    """Raise EnvironmentUnusable where there is no room, else UsageError."""
    if isinstance(error, BrokenPipeError):
        raise error  # the reader of our stdout left: the command line knows what that means
    message = f"{problem}: {error.strerror}"
    if error.errno in _NO_SPACE:
        raise EnvironmentUnusable(message, remedy=f"Make room. {remedy}") from error
    raise UsageError(message, remedy=remedy) from error


def write_stdout(parts: Iterable[str]) -> None:
    """Write to stdout and flush, so that a full device raises here with its name."""
    try:
        _write_now(sys.stdout, parts)
    except OSError as error:
        raise_unwritable(error, "stdout", "Redirect it elsewhere.")


def write_target(target: Path, parts: Iterable[str]) -> None:
    """Write parts of a text: atomically to a regular file, directly to any other target."""
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
    """The beginning of a regular file; empty where it cannot be read."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return b""  # opening a FIFO would wait for its writer
        with file.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError:
        return b""


def _own_stream(target: Path) -> TextIO | None:
    """Our stdout or stderr if the target is the same file; else None.

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
    """Whether a target exists and is no regular file: a device, a FIFO, a link, a folder."""
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
