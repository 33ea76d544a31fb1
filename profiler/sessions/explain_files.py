"""Pages of the report of an explain session, kept beside it: printed right after it, or on resume.

ncu prints the counters itself; its rules and the source pages only from the report, which is too
large to keep in a recording.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

from profiler.collect import Command
from profiler.collect.ncu import LOG, REPORT, RULES, SASS, SOURCE, Ncu, page_of_launches
from profiler.errors import EnvironmentUnusable
from profiler.machine.tool_output import Ran, ran_together
from profiler.parse.bounded_files import replacing

_TIMEOUT_S = 300.0
_LEVEL = 6
"""Of gzip: the highest makes them a tenth smaller, and takes ten times as long."""
_MOST_PARTS = 4
"""In which a source page is printed side by side."""
_CORES_PER_PART = 4
"""Two such pages are printed at once, beside a session that may be measured."""
_RULE_COLUMN = "Rule Name"
_LINE_COLUMN = '"Line No"'
_ROW_OF_LAUNCH = re.compile(rb'^"\d+",', re.MULTILINE)


def keep_pages(ncu: Ncu, folder: Path) -> None:
    """Write the rules and the source pages of an attempt, packed; nothing where ncu prints none.

    What cannot be printed is left out: the counters tell without it, and say that it is missing.
    """
    if not (folder / REPORT).exists():
        return
    launches = _launches(folder)
    pages = {
        name: _parts(name, command, launches)
        for name, command in ncu.page_commands(folder).items()
        if not (folder / f"{name}.gz").exists()
    }
    # Side by side: ncu reads the whole report for each, 22 s one after the other for 13 cells.
    ends = iter(ran_together([part for parts in pages.values() for part in parts], _TIMEOUT_S))
    for name, parts in pages.items():
        _keep_page(folder, name, list(islice(ends, len(parts))))


def _launches(folder: Path) -> int:
    """Launches in the report of an attempt, by the rows that ncu printed; 0 where none are seen."""
    log, packed = folder / LOG, folder / f"{LOG}.gz"
    try:
        rows = log.read_bytes() if log.exists() else gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error):
        return 0
    return len(_ROW_OF_LAUNCH.findall(rows))


def _parts(name: str, page: Command, launches: int) -> list[Command]:
    """Commands that print a page one after the other: a source page by shares of its launches."""
    cores = len(os.sched_getaffinity(0))
    count = min(_MOST_PARTS, cores // _CORES_PER_PART, launches)
    if name == RULES or count < 2:
        return [page]
    bounds = [launches * part // count for part in range(count + 1)]
    return [page_of_launches(page, first, end - first) for first, end in pairwise(bounds)]


def _keep_page(folder: Path, name: str, parts: Sequence[Ran | EnvironmentUnusable]) -> None:
    """Write a page of its parts, unless one of them was not printed."""
    printed = [part.stdout for part in parts if isinstance(part, Ran) and part.code == 0]
    content = _KEEP[name]("".join(printed)) if len(printed) == len(parts) else ""
    if content:
        # In one step: a page that was cut off by a kill would not be printed again.
        with replacing(folder / f"{name}.gz") as stream:
            stream.write(gzip.compress(content.encode("utf-8"), _LEVEL, mtime=0))


def _rules(printed: str) -> str:
    """Rows of rules of a details page, without those of metrics: they stand in the raw page."""
    lines = printed[max(printed.find('"ID"'), 0) :]
    rows = list(csv.reader(io.StringIO(lines)))
    if not rows or _RULE_COLUMN not in rows[0]:
        return ""
    place = rows[0].index(_RULE_COLUMN)
    with io.StringIO() as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows(row for row in rows[1:] if len(row) > place and row[place])
        return text.getvalue()


def _whole(printed: str) -> str:
    return printed if '"Kernel Name"' in printed else ""


def _with_lines(printed: str) -> str:
    """The page of source lines; nothing where no kernel has line information."""
    return printed if _LINE_COLUMN in printed else ""


_KEEP = {RULES: _rules, SASS: _whole, SOURCE: _with_lines}
