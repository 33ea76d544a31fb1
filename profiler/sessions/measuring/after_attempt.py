"""Right after an attempt: pages of its report are kept, and its kernels checked.

ncu prints the counters of an explain session itself; its rules and the source pages only from the
report, which is too large to keep in a recording: they are printed right after it, or on resume.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

from profiler.analyse.why.inside import samples_of_page
from profiler.collect import Command
from profiler.collect.ncu import (
    LOG,
    RANGE_ROW,
    REPORT,
    RULES,
    SASS,
    SERIES,
    SOURCE,
    Ncu,
    page_of_launches,
)
from profiler.errors import EnvironmentUnusable, ParseError
from profiler.machine.tool_output import CompletedCommand, run_commands
from profiler.model import Cell, Plan
from profiler.parse.bounded_files import plain_or_packed, read_named
from profiler.planning.space import Space
from profiler.run_folder.documents import write_bytes
from profiler.run_folder.folder import KERNELS_FILE, KernelCheck
from profiler.run_folder.load.loaded import Loaded

_TIMEOUT_S = 300.0
_LEVEL = 6
"""Level of gzip: the highest makes files a tenth smaller, and takes ten times as long."""
_MOST_PARTS = 4
"""In which a source page is printed side by side."""
_CORES_PER_PART = 4
"""Pages printed at once, beside a session that may be measuring."""
_RULE_COLUMN = "Rule Name"
_LINE_COLUMN = '"Line No"'
_ROW_OF_LAUNCH = re.compile(rb'^"\d+",', re.MULTILINE)


def keep_pages(ncu: Ncu, folder: Path) -> None:
    """Write rules, source pages and samples of an attempt, packed; nothing where ncu prints none.

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
    results = iter(run_commands([part for parts in pages.values() for part in parts], _TIMEOUT_S))
    for name, parts in pages.items():
        _keep_page(folder, name, list(islice(results, len(parts))))


def _launches(folder: Path) -> int:
    """Number of launches in the report of an attempt, by the rows that ncu printed."""
    log = plain_or_packed(folder / LOG)
    try:
        return 0 if log is None else len(_ROW_OF_LAUNCH.findall(read_named(log)))
    except (OSError, ParseError):
        return 0


def _parts(name: str, page: Command, launches: int) -> list[Command]:
    """Commands that print a page in order; a source page is split by launches."""
    count = min(_MOST_PARTS, len(os.sched_getaffinity(0)) // _CORES_PER_PART, launches)
    if name in (RULES, SERIES) or count < 2:
        return [page]
    bounds = [launches * part // count for part in range(count + 1)]
    return [page_of_launches(page, first, end - first) for first, end in pairwise(bounds)]


def _keep_page(
    folder: Path, name: str, parts: Sequence[CompletedCommand | EnvironmentUnusable]
) -> None:
    """Write a page from its parts, unless a part was not printed."""
    ended = [part for part in parts if not isinstance(part, EnvironmentUnusable)]
    outputs = [part.stdout for part in ended if part.returncode == 0]
    content = _KEEP[name]("".join(outputs)) if len(outputs) == len(parts) else ""
    if content:
        # In one step: a page that was cut off by a kill would not be printed again.
        packed = gzip.compress(content.encode("utf-8"), _LEVEL, mtime=0)
        write_bytes(folder / f"{name}.gz", packed)


def _rules(page: str) -> str:
    """Rows of rules of a details page, without those of metrics: they stand in the raw page."""
    lines = page[max(page.find('"ID"'), 0) :]
    rows = list(csv.reader(io.StringIO(lines)))
    if not rows or _RULE_COLUMN not in rows[0]:
        return ""
    place = rows[0].index(_RULE_COLUMN)
    with io.StringIO() as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows(row for row in rows[1:] if len(row) > place and row[place])
        return text.getvalue()


def _unchanged_page(page: str) -> str:
    return page if '"Kernel Name"' in page else ""


def _with_lines(page: str) -> str:
    """The page of source lines; nothing where no kernel has line information."""
    return page if _LINE_COLUMN in page else ""


_KEEP = {RULES: _rules, SASS: _unchanged_page, SOURCE: _with_lines, SERIES: samples_of_page}


def check_kernels(loaded: Loaded, plan: Plan, space: Space) -> KernelCheck:
    """Check of an attempt's kernels by the space, merged with earlier checks.

    Cells that are not planned today, or whose key has changed, stay undecided: nothing is known of
    their parameters. Raises SpecError where the space's own function fails.
    """
    earlier = loaded.attempt.kernel_check
    open_cells = set(loaded.attempt.record.keys) if earlier is None else set(earlier.undecided)
    planned_cells = {
        cell.id: cell for cell in plan.cells if cell.id in loaded.current_cells & open_cells
    }
    kernels = {cell: lists for cell, lists in loaded.kernels().items() if cell in planned_cells}
    fell_back = _fallback_reasons(planned_cells, kernels, space)
    # The check right after the attempt is lost, so its CSV may have been damaged since, too.
    is_late = KERNELS_FILE in loaded.attempt.damaged
    no_kernel = set() if is_late else loaded.finished_without_kernel() & planned_cells.keys()
    if earlier is None:
        earlier = KernelCheck()
    return KernelCheck(
        fell_back={**earlier.fell_back, **fell_back},
        no_kernel=tuple(sorted({*earlier.no_kernel, *no_kernel})),
        undecided=tuple(sorted(open_cells - planned_cells.keys())),
    )


def _fallback_reasons(
    planned_cells: Mapping[str, Cell],
    kernels: Mapping[str, tuple[tuple[str, ...], ...]],
    space: Space,
) -> dict[str, str]:
    """First reason by cell id why its kernels are not those of its variant."""
    reasons: dict[str, str] = {}
    for cell, lists in kernels.items():
        variant, problem = planned_cells[cell].variant.params, planned_cells[cell].problem.params
        for names in lists:
            if RANGE_ROW in names:  # of a range that was replayed, ncu names no kernel
                continue
            reason = space.check_kernels(variant, problem, names)
            if reason is not None:
                reasons.setdefault(cell, reason)
    return reasons
