"""The two NVTX columns of ncu's CSV: ranges that were open around a launch.

A push/pop cell reads `475  "<item>"  "<item>" ` with the thread id first and the outermost range
first; a start/end cell reads ` "0:<item>" ` with the id of the range before each item. An item is
`Domain:Name:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg`, and nothing in it is escaped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from profiler.runner.protocol import domain_of_range

HEADER_STARTS = ("thread Domain:", "Id:Domain:")
"""Beginnings of the headers of the two columns."""
HEADERS = tuple(
    f"{start}{kind}:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    for start, kind in zip(HEADER_STARTS, ("Push/Pop_Range", "Start/Stop_Range"), strict=True)
)
DEFAULT_DOMAIN = "<default domain>"
"""Domain that ncu writes for a range without one."""


class RangeKind(StrEnum):
    """Kind of a range: pushed and popped, or started and ended."""

    PUSH_POP = "push_pop"
    START_END = "start_end"


class NvtxRange(NamedTuple):
    """One NVTX range that was open when a kernel was launched."""

    domain: str
    """Empty for the default domain, `profiler` for ranges of the runner."""
    name: str
    kind: RangeKind
    thread: int | None
    """Thread id of a push/pop range; None for a start/end range, which belongs to no thread."""


_ITEM = re.compile(r'(?:(\d{1,18})\s+)?"([^"]*)"')

# Names may hold colons. Where the message repeats the name (of registered strings) or is `none`,
# the six fields after the name can be told from it with certainty.
_FIELDS = re.compile(r"([^:]*):(.*):[^:]*:[^:]*:[^:]*:[^:]*:(?:none:none|[^:]+:\2)", re.DOTALL)


def item_text(domain: str, name: str) -> str:
    """Item of a range of which only this is known, without what would end the item or its row."""
    return f"{domain}:{name}:none:none:none:none:none:none".replace('"', "'").replace("\n", " ")


_IDENTIFIERS = re.compile(r", (?:(?:stashed )?seq|op_id) = -?\d+|, input_op_ids = \[.*\]$")
"""Identifiers that torch's `emit_nvtx` adds to the name of an operator, other ones each call."""


def without_identifiers(name: str) -> str:
    """Name of a range without the identifiers of torch's calls."""
    return _IDENTIFIERS.sub("", name) if " = " in name else name


_NUMBER = re.compile(
    r"0x[0-9A-Fa-f]+"
    r"|(?<![0-9A-Za-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"
    r"|[0-9]+"
)
"""Addresses, UUIDs, hashes, and numbers of steps, requests and layers."""


def grouped_names(names: Iterable[str], most: int) -> dict[str, str]:
    """Short form of each name: without the identifiers of torch's calls.

    Where more than `most` short forms differ in one of their numbers, a star stands for it.
    """
    plain = {name: without_identifiers(name) for name in names}
    values: dict[tuple[str, int], set[str]] = defaultdict(set)
    for short in plain.values():
        for place, number in enumerate(_NUMBER.findall(short)):
            values[_NUMBER.sub("*", short), place].add(number)

    def group(short: str) -> str:
        pattern, places = _NUMBER.sub("*", short), count()
        return _NUMBER.sub(
            lambda number: "*" if len(values[pattern, next(places)]) > most else number[0], short
        )

    return {name: group(short) for name, short in plain.items()}


@lru_cache(maxsize=65_536)  # most launches have ranges that others have, too
def parse_ranges(push_pop: str, start_end: str = "") -> tuple[NvtxRange, ...]:
    """Ranges of one launch: push/pop ranges, outermost first, then start/end ranges.

    Text that is not an NVTX cell gives no ranges; nothing raises.
    """
    return (*_push_pop(push_pop), *_start_end(start_end))


def _push_pop(cell: str) -> list[NvtxRange]:
    ranges: list[NvtxRange] = []
    thread: int | None = None
    for match in _ITEM.finditer(cell):
        if match[1] is not None:
            thread = int(match[1])
        domain, name = _domain_and_name(match[2])
        ranges.append(NvtxRange(domain, name, RangeKind.PUSH_POP, thread))
    return ranges


def _start_end(cell: str) -> list[NvtxRange]:
    ranges = []
    for match in _ITEM.finditer(cell):
        range_id, separator, item = match[2].partition(":")
        has_id = separator and range_id.isdecimal()
        domain, name = _domain_and_name(item if has_id else match[2])
        ranges.append(NvtxRange(domain, name, RangeKind.START_END, None))
    return ranges


def _domain_and_name(item: str) -> tuple[str, str]:
    match = _FIELDS.fullmatch(item)
    if match:
        domain, name = match[1], match[2]
    else:
        domain, _, name = item.rsplit(":", 6)[0].partition(":")
    return domain_of_range("" if domain == DEFAULT_DOMAIN else domain, name), name
