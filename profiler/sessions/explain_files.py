"""Pages of the report of an explain session, kept beside it: printed right after it, or on resume.

ncu prints the counters itself; its rules and the source pages only from the report, which is too
large to keep in a recording.
"""

from __future__ import annotations

import csv
import gzip
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from profiler.collect import Command
from profiler.collect.ncu import REPORT, RULES, SASS, SOURCE, Ncu
from profiler.errors import EnvironmentUnusable
from profiler.machine.tool_output import ran

_TIMEOUT_S = 300.0
_RULE_COLUMN = "Rule Name"
_LINE_COLUMN = '"Line No"'


def keep_pages(ncu: Ncu, folder: Path) -> None:
    """Write the rules and the source pages of an attempt, packed; nothing where ncu prints none.

    What cannot be printed is left out: the counters tell without it, and say that it is missing.
    """
    if not (folder / REPORT).exists():
        return
    commands = ncu.page_commands(folder)
    # Side by side: ncu reads the whole report for each, 22 s one after the other for 13 cells.
    with ThreadPoolExecutor(max_workers=len(commands)) as pool:
        pages = [
            pool.submit(_keep_page, folder, name, command) for name, command in commands.items()
        ]
        for page in pages:
            page.result()


def _keep_page(folder: Path, name: str, command: Command) -> None:
    target = folder / f"{name}.gz"
    if target.exists():
        return
    try:
        code, printed = ran(command, _TIMEOUT_S)
    except EnvironmentUnusable:
        return
    content = _KEEP[name](printed) if code == 0 else ""
    if content:
        # In one step: a page that was cut off by a kill would not be printed again.
        partial = target.with_suffix(".partial")
        partial.write_bytes(gzip.compress(content.encode("utf-8"), mtime=0))
        partial.replace(target)


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
