"""Counters of each instruction from ncu's source page (`--page source --csv --print-source …`).

    bytes -> ncu_source_rows (which rows belong together) -> one Listing per launch

What pages of ncu 2025.3.1 look like (H200; `tests/recordings/ncu-2025.3.1`):

- A launch whose code has line information is listed twice on the page `sass`, cell by cell the
  same, and a launch without is listed once. `_without_copies` tells copies from second launches.
- On the page `cuda,sass` a launch has a table for each file, and each source line its instructions
  twice. Instructions of an inlined function may stand under its line and under that of its caller.
- Columns of which a launch has no value at all are left out, so they differ between launches.
- No column holds the samples of warps that wait for a warpgroup matrix instruction: `UNNAMED` does.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiler.errors import ParseError
from profiler.metrics.catalogue import STALL_CAUSES
from profiler.notices import Notice, NoticeKind
from profiler.parse.ncu_lines import reading_notices
from profiler.parse.ncu_numbers import MISSING, NumberStyle, detect_style, parse_number
from profiler.parse.ncu_source_rows import SourceBlock, SourceRows, read_rows

ADDRESS, SASS, OPCODE = "address", "sass", "opcode"
FILE, LINE, TEXT = "file", "line", "text"
SAMPLES, SAMPLES_NOT_ISSUED, EXECUTED = "samples", "samples_not_issued", "executed"
NOT_ISSUED = "_not_issued"
STALL = "stall_"
UNNAMED = "stall_unnamed"
"""Samples for whose reason the page has no column: all minus those of the reasons. On an H200 they
are, to the sample, those of `smsp__pcsamp_warps_issue_stalled_warpgroup_arrive`."""

_COUNTERS: Mapping[str, tuple[str, ...]] = {
    SAMPLES: (
        "Warp Stall Sampling (All Samples)",
        "Warp Stall Sampling (All Cycles)",
        "Sampling Data (All)",
    ),
    SAMPLES_NOT_ISSUED: (
        "Warp Stall Sampling (Not-issued Samples)",
        "Warp Stall Sampling (Not-issued Cycles)",
        "Sampling Data (Not Issued)",
    ),
    EXECUTED: ("Instructions Executed",),
    "thread_executed": ("Thread Instructions Executed",),
    "predicated_on": ("Predicated-On Thread Instructions Executed",),
    "l1_tag_requests_global": ("L1 Tag Requests Global",),
    "shared_wavefronts": ("L1 Wavefronts Shared",),
    "shared_wavefronts_ideal": ("L1 Wavefronts Shared Ideal",),
    "shared_wavefronts_excessive": ("L1 Wavefronts Shared Excessive",),
    "global_sectors": ("L2 Theoretical Sectors Global",),
    "global_sectors_ideal": ("L2 Theoretical Sectors Global Ideal",),
    "global_sectors_excessive": ("L2 Theoretical Sectors Global Excessive",),
    "local_sectors": ("L2 Theoretical Sectors Local",),
}
"""Headers of ncu by the name of a counter that adds up over instructions; older spellings last."""
_CONFLICT_WAY = "shared_conflict_way"
_CONFLICT_WAY_HEADERS = ("L1 Conflicts Shared N-Way",)
_WORDS: Mapping[str, str] = {
    "address_space": "Address Space",
    "access_operation": "Access Operation",
    "access_size": "Access Size",
}
"""Headers by the name of a column of words. `access_size` is in bits, and may hold several."""

_REASONS = {
    "branch_resolve": "branch_resolving",
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "no_instructions": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
    "warpgroup_arrive": "gmma",
}
"""Stall reason of the catalogue by its name on the page, where the two differ."""
_STALL_HEADER = re.compile(r"stall_(\w+?)( \(Not[ -]Issued\))?", re.IGNORECASE)

STALL_COLUMNS = tuple(f"{STALL}{reason}" for reason in STALL_CAUSES)
SUMMED_COLUMNS = (
    *_COUNTERS,
    *STALL_COLUMNS,
    *(f"{name}{NOT_ISSUED}" for name in STALL_COLUMNS),
    UNNAMED,
    f"{UNNAMED}{NOT_ISSUED}",
)
"""Columns whose values add up over instructions."""
COLUMNS = (
    *(ADDRESS, SASS, OPCODE, FILE, LINE, TEXT),
    *SUMMED_COLUMNS,
    _CONFLICT_WAY,
    *_WORDS,
)
"""Columns of `Listing.instructions`, followed by stall reasons that the catalogue lacks."""

_PREDICATE = re.compile(r"\A\{?\s*@!?U?P\w+\s+")
_KEPT_OPCODES = 65_536
"""Texts of instructions whose opcodes are kept: launches of one kernel have the same."""
_NO_LINES = "No lineinfo available"
_SHOWN_MESSAGES = 3
_REMEDY = (
    "Export it with: ncu --import FILE --csv --page source --print-source sass > FILE.csv; the "
    "report needs the section SourceCounters."
)


@dataclass(frozen=True, eq=False)
class Listing:
    """Instructions of one launch with their counters."""

    kernel: str
    """Name of the kernel as the page prints it."""
    instructions: pd.DataFrame
    """One row per SASS instruction in the order of addresses: COLUMNS, then unknown reasons.

    Counters are float64, NaN where the page has none; `line` is Int64; words are missing where the
    page has `-`. On the page `cuda,sass` only instructions that belong to a source line.
    """

    @property
    def has_lines(self) -> bool:
        """Whether any instruction belongs to a source line."""
        return bool(self.instructions[LINE].notna().any())


def read_source_page(
    path_or_text: Path | str | bytes,
    kernels: Sequence[str] | None = None,
    *,
    counters: bool = True,
) -> tuple[tuple[Listing, ...], tuple[Notice, ...]]:
    """Listings of a source page, one per launch in the order of the file, and notices on it.

    A page may be packed by gzip; a string or bytes are the page itself.

    `kernels` are the names of all launches of the report in order, as its raw page has them: by
    their number, copies of a listing are known from second launches. No listings where no kernel
    has line information.

    `counters`: whether counters and words on memory accesses are read. Without them a page that is
    read for the source lines alone takes half the time; their columns are empty.

    Raises ParseError where the page cannot be opened or is no source page.
    """
    if isinstance(path_or_text, str):
        path_or_text = path_or_text.encode("utf-8", "replace")
    name = path_or_text.name if isinstance(path_or_text, Path) else "source page"
    tables = read_rows(path_or_text, name, counters=counters)
    without_lines = any(_NO_LINES in message for message in tables.messages)
    if not (tables.blocks or tables.has_texts or without_lines):
        raise _no_page_error(name, tables)
    blocks = [block for block in tables.blocks if block.rows]  # one without is where it was cut
    numbers = _Numbers(_style(blocks)) if counters else None
    listings = tuple(_launch_listings(blocks, kernels, numbers))
    return listings, (
        *reading_notices(tables.source, tables.messages, tables.instructions, source_page=True),
        *_cell_notices(name, numbers),
    )


_FIRST_COLUMN = re.compile(
    r'^"(?:Kernel Name|File Path|File Name)",(?!(?:.*,)?"ID"(?:,|$))', re.MULTILINE
)
_FIRST_LETTERS = 1 << 16
"""Letters of a text in which the header of a source page stands."""


def is_source_page(text: str) -> bool:
    """Whether the first lines of a text are those of a source page."""
    return _FIRST_COLUMN.search(text, 0, _FIRST_LETTERS) is not None


@lru_cache(maxsize=_KEPT_OPCODES)
def opcode(sass: str) -> str:
    """Operation of an instruction with its modifiers (`LDG.E.128`), without its predicate."""
    words = _PREDICATE.sub("", sass, count=1).strip(" {};").split(maxsplit=1)
    return words[0].rstrip(";") if words else ""


def with_lines(listing: Listing, listing_with_lines: Listing) -> Listing:
    """The listing with file, line and text of the same instructions in `listing_with_lines`.

    Instructions are the same where address and SASS are; other instructions stay unchanged.
    """
    known_places = {
        key: place
        for key, place in _lines_of_instructions(listing_with_lines)
        if place[1] is not pd.NA
    }
    places = [known_places.get(key, place) for key, place in _lines_of_instructions(listing)]
    files, numbers, texts = zip(*places, strict=True) if places else ((), (), ())
    index = listing.instructions.index
    columns: dict[str, Any] = {
        FILE: _objects(files).set_axis(index),
        LINE: pd.array(numbers, dtype="Int64"),
        TEXT: _objects(texts).set_axis(index),
    }
    return replace(listing, instructions=listing.instructions.assign(**columns))


def _lines_of_instructions(listing: Listing) -> Iterable[tuple[tuple[int, str], tuple[Any, ...]]]:
    """File, line and text of each instruction, by its address and SASS."""
    columns = [listing.instructions[name].tolist() for name in (ADDRESS, SASS, FILE, LINE, TEXT)]
    return zip(zip(*columns[:2], strict=True), zip(*columns[2:], strict=True), strict=True)


def join_lines(listings: Iterable[Listing], lined: Sequence[Listing]) -> tuple[Listing, ...]:
    """Listings of a page `sass` with the source lines of the page `cuda,sass` of that report.

    Lines belong to the code, so any launch of a kernel serves, found by its addresses.
    """
    candidates = [(set(listing.instructions[ADDRESS]), listing) for listing in lined]
    joined = []
    for listing in listings:
        addresses = listing.instructions[ADDRESS]
        matches = (other for lined, other in candidates if not lined.isdisjoint(addresses))
        match = next(matches, None)
        joined.append(listing if match is None else with_lines(listing, match))
    return tuple(joined)


def _no_page_error(name: str, tables: SourceRows) -> ParseError:
    messages = " ".join(list(tables.messages)[:_SHOWN_MESSAGES])
    cause = f"; ncu printed: {messages}" if messages else ""
    return ParseError(f"{name}: no source page of ncu found{cause}", remedy=_REMEDY)


def _cell_notices(name: str, numbers: _Numbers | None) -> tuple[Notice, ...]:
    if numbers is None or not numbers.wrong_cells:
        return ()
    facts: dict[str, str | int | float] = {
        "file": name,
        "count": numbers.wrong_cells,
        "metric": "counters of instructions",
        "example": next(iter(numbers.wrong_texts)),
    }
    return (Notice(NoticeKind.CSV_BAD_CELLS, facts),)


# Launches


def _launch_listings(
    blocks: Sequence[SourceBlock], kernels: Sequence[str] | None, numbers: _Numbers | None
) -> Iterable[Listing]:
    """One listing per launch; `numbers`: None for those without counters."""
    of_lines = [block for block in blocks if block.file is not None]
    if of_lines:
        launches = _launches_of_lines(of_lines)
    else:
        launches = [[block] for block in _without_copies(blocks, kernels)]
    return [Listing(tables[0].kernel, _frame(tables, numbers)) for tables in launches]


def _launches_of_lines(blocks: Sequence[SourceBlock]) -> list[list[SourceBlock]]:
    """Tables of each launch: a repeated file belongs to the next launch."""
    launches: list[list[SourceBlock]] = []
    for block in blocks:
        current = launches[-1] if launches else []
        is_same = bool(current) and current[0].kernel == block.kernel
        if is_same and all(block.file != earlier.file for earlier in current):
            current.append(block)
        else:
            launches.append([block])
    return launches


def _without_copies(
    blocks: Sequence[SourceBlock], kernels: Sequence[str] | None
) -> list[SourceBlock]:
    """Blocks without the second listing of a launch.

    By number where the launches are known: a run of launches of one kernel has as many listings or
    twice as many. (Names are not compared: ncu spells templates differently on its raw and its
    source page.) Else by content: whether ncu lists a launch twice depends on its code, so a kernel
    has copies where all its listings are equal pairs. Two launches are taken for one only if they
    have no line information, and no launch of their kernel differs from its neighbour by as much as
    one sample.
    """
    doubled = _doubled_code(blocks)
    runs = _runs([block.kernel for block in blocks])
    launches = _runs(kernels or ())
    are_launches_known = len(launches) == len(runs)
    unique: list[SourceBlock] = []
    start = 0
    for position, (_, count) in enumerate(runs):
        run = blocks[start : start + count]
        start += count
        launch_count = launches[position][1] if are_launches_known else None
        if launch_count in (count, (count + 1) / 2):
            unique += run if launch_count == count else run[::2]
        else:
            unique += _first_listings(run, doubled)
    return unique


def _runs(names: Iterable[str]) -> list[tuple[str, int]]:
    """Runs of equal names: name, length."""
    return [(name, len(list(group))) for name, group in itertools.groupby(names)]


def _code_key(block: SourceBlock) -> tuple[str, int | None]:
    """Kernel and first address of a listing, by which code of one name is distinguished."""
    return block.kernel, block.addresses[0] if block.addresses else None


def _doubled_code(blocks: Sequence[SourceBlock]) -> set[tuple[str, int | None]]:
    """Keys of the code that is listed twice for each launch."""
    listings: dict[tuple[str, int | None], list[SourceBlock]] = {}
    for block in blocks:
        listings.setdefault(_code_key(block), []).append(block)
    return {code for code, blocks in listings.items() if _are_copies(blocks)}


def _are_copies(blocks: Sequence[SourceBlock]) -> bool:
    """Whether the second of every two listings is a copy; the end of a file may cut the last."""
    pairs = list(zip(blocks[::2], blocks[1::2], strict=False))
    return (
        bool(pairs)
        and all(first.header == second.header for first, second in pairs)
        and all(first.rows == second.rows for first, second in pairs[:-1])
        and pairs[-1][1].rows == pairs[-1][0].rows[: len(pairs[-1][1].rows)]
    )


def _first_listings(
    run: Sequence[SourceBlock], doubled: set[tuple[str, int | None]]
) -> list[SourceBlock]:
    """Listings of a run without copies."""
    unique: list[SourceBlock] = []
    count_by_code: dict[tuple[str, int | None], int] = {}
    for block in run:
        code = _code_key(block)
        number = count_by_code[code] = count_by_code.get(code, 0) + 1
        if code not in doubled or number % 2 == 1:
            unique.append(block)
    return unique


# Frames


def _style(blocks: Sequence[SourceBlock]) -> NumberStyle:
    """Notation of the numbers of a page."""
    texts: set[str] = set()
    for block in blocks:
        first = block.address_at + 2
        texts.update(itertools.chain.from_iterable(row[first:] for row in block.rows))
    return detect_style(texts)


def _frame(tables: Sequence[SourceBlock], numbers: _Numbers | None) -> pd.DataFrame:
    """Instructions of one launch, each once, by address; without counters where `numbers` is None.

    Of an instruction in several files, the last file counts: ncu prints the file of the kernel
    first, so the last is that of the inlined function. In a file the first line counts.
    """
    rows: dict[int, tuple[SourceBlock, int]] = {}
    for table in tables:
        from_last = zip(itertools.repeat(table), reversed(range(len(table.addresses))))
        rows.update(zip(reversed(table.addresses), from_last, strict=True))
    by_header: dict[tuple[str, ...], list[tuple[SourceBlock, int]]] = {}
    for _, (table, place) in sorted(rows.items()):
        by_header.setdefault(table.header, []).append((table, place))
    frames = [
        _rows_frame(header, rows_of_header, numbers) for header, rows_of_header in by_header.items()
    ]
    if len(frames) == 1:
        return frames[0]
    frame = pd.concat(frames, ignore_index=True).sort_values(ADDRESS, ignore_index=True)
    unlisted_reasons = sorted(name for name in frame.columns if name not in COLUMNS)
    return frame[[*COLUMNS, *unlisted_reasons]]


_NO_COUNT = frozenset((*MISSING, "-"))


class _Numbers(dict[str, float]):
    """Counts by text of the cell; NaN for cells without a count.

    Each distinct text is parsed once: most of the half a million cells of a page are 0.
    """

    def __init__(self, style: NumberStyle) -> None:
        super().__init__()
        self._style = style
        self.wrong_texts: dict[str, None] = {}
        """Texts that are neither counts nor words for a missing count."""
        self.wrong_cells = 0

    def __missing__(self, text: str) -> float:
        number = parse_number(text, self._style)
        is_count = number is not None and not number < 0
        if not is_count and text.strip() not in _NO_COUNT:
            self.wrong_texts[text] = None
        return self.setdefault(text, number if number is not None and is_count else math.nan)

    def count_wrong_cells(self, columns: Iterable[Sequence[str]]) -> None:
        """Count cells that are no counts, after the columns were read."""
        if self.wrong_texts:
            self.wrong_cells += sum(
                text in self.wrong_texts for column in columns for text in column
            )

    def column(self, cells: Sequence[str]) -> np.ndarray:
        """Numbers of a column of cells."""
        return np.fromiter(map(self.__getitem__, cells), "float64", len(cells))


def _rows_frame(
    header: tuple[str, ...], row_places: Sequence[tuple[SourceBlock, int]], numbers: _Numbers | None
) -> pd.DataFrame:
    """COLUMNS of rows under one header, then stall reasons that the catalogue lacks.

    `row_places`: tables, and the place of the row in each.
    """
    sass_at = header.index("Address") + 1
    rows = [table.rows[place] for table, place in row_places]
    sass = [" ".join(row[sass_at].split()) for row in rows]
    lines = [table.line_numbers[place] for table, place in row_places]
    files = [table.file for table, _ in row_places]
    texts = [table.line_texts[place] for table, place in row_places]
    cells = {} if numbers is None else dict(zip(header, zip(*rows, strict=True), strict=False))
    counter_columns = {} if numbers is None else _counters(cells, numbers)
    if numbers is not None:
        numbers.count_wrong_cells(cells.values())
    unlisted_reasons = sorted(name for name in counter_columns if name not in COLUMNS)
    frame = _number_frame(
        counter_columns, (*SUMMED_COLUMNS, _CONFLICT_WAY, *unlisted_reasons), len(rows)
    )
    leading_columns: dict[str, Any] = {
        ADDRESS: np.array([table.addresses[place] for table, place in row_places], dtype="int64"),
        SASS: _objects(sass),
        OPCODE: _objects(map(opcode, sass)),
        FILE: _objects(
            None if line is None else file for line, file in zip(lines, files, strict=True)
        ),
        LINE: pd.array(lines, dtype="Int64"),
        TEXT: _objects(text.strip() if text is not None else None for text in texts),
    }
    for place, (name, column) in enumerate(leading_columns.items()):
        frame.insert(place, name, column)
    for name, spelling in _WORDS.items():
        words = (word if word not in ("", "-") else None for word in cells.get(spelling, ()))
        column = _objects(words if spelling in cells else itertools.repeat(None, len(rows)))
        frame.insert(len(frame.columns) - len(unlisted_reasons), name, column)
    return frame


def _number_frame(
    columns: Mapping[str, np.ndarray], names: Sequence[str], count: int
) -> pd.DataFrame:
    """Columns of numbers, NaN for a missing column; one array is faster than 60 columns."""
    values = np.full((len(names), count), np.nan)
    for place, name in enumerate(names):
        if name in columns:
            values[place] = columns[name]
    return pd.DataFrame(values.T, columns=list(names))


def _objects(values: Iterable[str | None]) -> pd.Series:
    """A column of texts in which None stays None."""
    return pd.Series(list(values), dtype="object")


def _counters(cells: Mapping[str, Sequence[str]], numbers: _Numbers) -> dict[str, np.ndarray]:
    """Counters of rows by name of column."""
    columns: dict[str, np.ndarray] = {}
    for name, headers in {**_COUNTERS, _CONFLICT_WAY: _CONFLICT_WAY_HEADERS}.items():
        header = next((header for header in headers if header in cells), None)
        if header is not None:
            columns[name] = numbers.column(cells[header])
    return columns | _stalls(cells, numbers)


def _stalls(cells: Mapping[str, Sequence[str]], numbers: _Numbers) -> dict[str, np.ndarray]:
    """Samples by stall reason, and samples whose reason has no column."""
    stalls: dict[str, np.ndarray] = {}
    for header, column in cells.items():
        match = _STALL_HEADER.fullmatch(header)
        if match is not None:
            reason = _REASONS.get(match[1], match[1])
            stalls[f"{STALL}{reason}{NOT_ISSUED if match[2] else ''}"] = numbers.column(column)
    unnamed: dict[str, np.ndarray] = {}
    for total, suffix in ((SAMPLES, ""), (SAMPLES_NOT_ISSUED, NOT_ISSUED)):
        sampled = next((header for header in _COUNTERS[total] if header in cells), None)
        parts = [v for k, v in stalls.items() if k.endswith(NOT_ISSUED) == bool(suffix)]
        if sampled is not None and parts:
            unnamed_samples = numbers.column(cells[sampled]) - np.sum(parts, axis=0)
            unnamed[f"{UNNAMED}{suffix}"] = unnamed_samples
    return stalls | unnamed
