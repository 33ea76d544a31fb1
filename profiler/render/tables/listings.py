"""Every instruction of the explained kernels with its counters, packed for the page's script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from profiler.findings.why.cells import KernelWhy
from profiler.findings.why.find import RunWhy
from profiler.findings.why.hot_lines import file_name, stall_columns
from profiler.render.embed import pack
from profiler.render.words.names import plain_kernel
from profiler.render.words.why import waited_for

_MOST_ROWS = 20_000
"""Instructions of a page: about 10 bytes each. The pairs of the answer come first."""


def packed_listings(why: RunWhy, names: Mapping[str, str]) -> Markup:
    """Listings and which of them stand beside each other: JSON, deflated, in base64; or empty.

    `names`: of cells, by their ids. Pairs are [title, first, second, runs], with the numbers of
    their listings; a run is [position in the second, in the first, length] of the same
    instructions. Of a cell with several kernels each stands alone, without a second. What has
    no room is left out.
    """
    listings: list[dict[str, Any]] = []
    numbers: dict[str, list[int]] = {}
    pairs: list[list[Any]] = []
    for pair in why.pairs:
        sides = ((pair.cell.id, pair.first), (pair.against.id, pair.second))
        for cell, of_cell in sides:
            kernels = [kernel for kernel in of_cell.kernels if kernel.profile.listing]
            if cell not in numbers and _fits(listings, kernels):
                numbers[cell] = list(range(len(listings), len(listings) + len(kernels)))
                listings += [_listing(kernel, names[cell], len(kernels)) for kernel in kernels]
        common_instructions = (
            pair.common_instructions if all(cell in numbers for cell, _ in sides) else None
        )
        if common_instructions is not None:
            pairs.append(
                [
                    f"{names[pair.cell.id]} against {pair.against.variant.label}",
                    *numbers[pair.cell.id],
                    *numbers[pair.against.id],
                    list(_runs(common_instructions)),
                ]
            )
    paired = {number for _, *both_numbers, _ in pairs for number in both_numbers}
    alone = [number for number in range(len(listings)) if number not in paired]
    pairs += [[listings[number]["name"], number, None, []] for number in alone]
    return pack({"listings": listings, "pairs": pairs}) if pairs else Markup("")


def _fits(listings: Sequence[Mapping[str, Any]], kernels: Sequence[KernelWhy]) -> bool:
    """Whether a page has room for these beside the others; always for the first ones."""
    rows = [
        len(kernel.profile.listing.instructions) for kernel in kernels if kernel.profile.listing
    ]
    return (
        not listings or sum(len(listing["sass"]) for listing in listings) + sum(rows) <= _MOST_ROWS
    )


def _runs(pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Pairs of positions as runs in which both grow by one."""
    for _, run in itertools.groupby(enumerate(pairs), lambda item: _shifts(*item)):
        positions = [pair for _, pair in run]
        yield [*positions[0], len(positions)]


def _shifts(place: int, pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0] - place, pair[1] - place


def _listing(kernel: KernelWhy, name: str, kernels: int) -> dict[str, Any]:
    """Columns of a listing by instruction."""
    code = kernel.profile.instructions_by_wait
    assert code is not None  # noqa: S101 - only kernels with a listing are asked for
    has_line = code["line"].notna()
    places = [
        f"{file_name(str(file))}:{line}" if with_line else ""
        for file, line, with_line in zip(code["file"], code["line"], has_line, strict=True)
    ]
    return {
        "name": name if kernels == 1 else f"{name}: {plain_kernel(kernel.profile.name)}",
        "sass": [str(text).strip() for text in code["sass"]],
        "samples": _counts(code["samples_not_issued"]),
        "executed": _counts(code["executed"]),
        "place": places,
        "source": code["text"].where(has_line & code["text"].notna(), "").astype(str).tolist(),
        "wait": _longest_waits(code),
    }


def _longest_waits(code: pd.DataFrame) -> list[str]:
    """Words on the longest wait of each instruction; empty without samples."""
    stalls = stall_columns(code)
    counts = code[[*stalls]].fillna(0.0).to_numpy(dtype="float64")
    if not stalls or not len(code):
        return [""] * len(code)
    wait_words = [*map(waited_for, stalls.values())]
    longest = zip(counts.argmax(axis=1), counts.max(axis=1), strict=True)
    return [wait_words[place] if most > 0 else "" for place, most in longest]


def _counts(column: pd.Series[float]) -> list[int | None]:
    values = column.to_numpy(dtype="float64").tolist()
    return [None if math.isnan(value) else int(value) for value in values]
