"""Profiles of the cells of an explain session, from its CSV and the pages of its report."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from profiler.analyse.parts import PartSamples
from profiler.analyse.samples import cell_of_part, cells_by_shape, visit_of_ranges
from profiler.analyse.why.inside import Inside, read_samples
from profiler.analyse.why.kernel_profiles import EXECUTED, CellProfile, KernelProfile
from profiler.errors import ParseError
from profiler.notices import Notice, NoticeKind
from profiler.parse.bounded_files import read_packed
from profiler.parse.ncu_csv import NcuTable, read_ncu_csv
from profiler.parse.ncu_launches import LAUNCH_COLUMNS
from profiler.parse.ncu_source import OPCODE, Listing, join_lines, read_source_page
from profiler.run_folder.folder import EXPLAIN_FILES

RULES_FILE, SASS_FILE, SOURCE_FILE, SERIES_FILE = EXPLAIN_FILES
_SAME_COUNT = 0.05
"""How far the instructions of a listing may be off those of its launch: they are counted in another
pass of the same launch."""
_MOST_POLLED = 0.5
"""How many more instructions than its launch a listing may have, or fewer, where how often a kernel
tries again is a matter of time: where it polls mbarriers, or compares and swaps.

Counting instruction by instruction slows a kernel down, and what waits polls more often: 0.5 % seen
in cuDNN's attention, 10 to 22 % in kernels with a producer warpgroup (H200).
"""
_TRIED_AGAIN = ("SYNCS.PHASECHK", "ATOMS.CAS", "ATOMG.E.CAS", "ATOM.E.CAS", "ATOMG.CAS")
"""Opcodes that are repeated until they succeed: a look at an mbarrier (`mbarrier.try_wait`), and
compare-and-swap."""


def cell_profiles(
    folder: Path, table: NcuTable | None, cells: Callable[[pd.DataFrame], Sequence[str]]
) -> tuple[dict[str, CellProfile], tuple[Notice, ...]]:
    """Profiles of cells by their ids, and notices of what could not be read.

    `cells` gives the cell of each launch (`finished_cells`, `first_sample_cells`), empty for none.
    """
    if table is None or table.launches.empty:
        return {}, ()
    launches = table.launches
    listings, listing_notices = _listings(folder, [str(name) for name in launches["kernel"]])
    rules, rule_notices = _rules(folder)
    samples, sample_notices = _samples(folder)
    profiles: dict[str, list[KernelProfile]] = {}
    instructions = _of_launches(listings, launches)
    for row, cell in enumerate(cells(launches)):
        if cell:
            profile = _kernel_profile(launches.iloc[row], rules, samples, instructions[row])
            profiles.setdefault(cell, []).append(profile)
    found = {cell: CellProfile(cell, tuple(kernels)) for cell, kernels in profiles.items()}
    return found, (*listing_notices, *rule_notices, *sample_notices)


def finished_cells(launches: pd.DataFrame, finished: Collection[str]) -> list[str]:
    """Cell of each launch in the ranges of the runner, empty where its visit was not `finished`."""
    visits = (visit_of_ranges(ranges) for ranges in launches["nvtx"])
    return [visit[0] if visit is not None and visit[0] in finished else "" for visit in visits]


def first_sample_cells(launches: pd.DataFrame, cell: str, parts: PartSamples | None) -> list[str]:
    """Cell of each launch of an external command: of its part, or by kernel, grid and block.

    Only of the first sample of each; empty for the launches of others, and where they do not fit
    the parts.
    """
    if parts is None:
        cells = cells_by_shape(launches, cell)
        samples: Iterable[int] = range(len(cells))
    else:
        samples = [int(code) for code in parts.codes]
        cells = [cell_of_part(cell, parts.params[code]) if code >= 0 else "" for code in samples]
    first: dict[str, int] = {}
    for name, sample in zip(cells, samples, strict=True):
        first.setdefault(name, sample)
    return [
        name if first[name] == sample else "" for name, sample in zip(cells, samples, strict=True)
    ]


def _kernel_profile(
    launch: pd.Series,
    rules: Mapping[int, pd.DataFrame],
    samples: Mapping[int, Inside],
    listing: Listing | None,
) -> KernelProfile:
    values = {
        str(name): float(value)
        for name, value in launch.items()
        if name not in LAUNCH_COLUMNS and isinstance(value, int | float) and math.isfinite(value)
    }
    return KernelProfile(
        name=str(launch["kernel"]),
        values=values,
        rules=rules.get(int(launch["id"]), pd.DataFrame()),
        listing=listing,
        inside=samples.get(int(launch["id"])),
    )


def _of_launches(listings: Sequence[Listing], launches: pd.DataFrame) -> list[Listing | None]:
    """Listing of each launch. A page names no launch, so they are in order; each is checked.

    A listing that executed other instructions than the launch in its place is not used.
    """
    if len(listings) != len(launches) or EXECUTED not in launches:
        return [None] * len(launches)
    pairs = zip(listings, launches[EXECUTED].astype("float64"), strict=True)
    return [listing if _fits(listing, counted) else None for listing, counted in pairs]


def _fits(listing: Listing, counted: float) -> bool:
    """Whether a listing executed the instructions of its launch, up to those tried again."""
    listed = float(listing.instructions["executed"].sum())
    tries = listing.instructions[OPCODE].str.startswith(_TRIED_AGAIN).any()
    off = _MOST_POLLED if tries else _SAME_COUNT
    return counted / (1 + off) <= listed <= (1 + off) * counted


def _listings(folder: Path, kernels: Sequence[str]) -> tuple[Sequence[Listing], tuple[Notice, ...]]:
    """Instructions of each launch, with their source lines where these are known."""
    sass, notices = _page(folder, SASS_FILE, kernels)
    lines, more_notices = _page(folder, SOURCE_FILE, kernels, counters=False)
    return join_lines(sass, lines), (*notices, *more_notices)


def _page(
    folder: Path, name: str, kernels: Sequence[str], *, counters: bool = True
) -> tuple[Sequence[Listing], tuple[Notice, ...]]:
    packed = folder / f"{name}.gz"
    if not packed.exists():
        return (), ()
    try:
        return read_source_page(read_packed(packed), kernels, counters=counters).listings, ()
    except (ParseError, OSError):
        return (), (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": packed.name}),)


def _rules(folder: Path) -> tuple[Mapping[int, pd.DataFrame], tuple[Notice, ...]]:
    """Advice of ncu's rules by the id of the launch."""
    packed = folder / f"{RULES_FILE}.gz"
    if not packed.exists():
        return {}, ()
    try:
        rules = read_ncu_csv(packed).rules
    except (ParseError, OSError):
        return {}, (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": packed.name}),)
    by_launch = rules.rename(columns={"description": "text"}).groupby("id")
    return {int(advice["id"].iloc[0]): advice for _, advice in by_launch}, ()


def _samples(folder: Path) -> tuple[Mapping[int, Inside], tuple[Notice, ...]]:
    """What was sampled inside launches, by their id."""
    packed = folder / f"{SERIES_FILE}.gz"
    if not packed.exists():
        return {}, ()
    try:
        return read_samples(read_packed(packed)), ()
    except (ParseError, OSError, ValueError, KeyError, TypeError):
        return {}, (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": packed.name}),)
