"""Stamps (`runner/visits/stamps.py`) → activities of each warpgroup with their times.

A line of the file is a visit. `written` has, of each group of a block that recorded, its number and
its words as `profiler/kernels/include/profiler/timeline.cuh` says: the number of the block plus 1,
the multiprocessor, globaltimer (low and high) and clock at the beginning, the same at the end, then
the stamps: in the lower `code_bits` the number of an activity, from 1, and above them the lower
bits of the clock.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.errors import ParseError
from profiler.model import Visit
from profiler.parse.bounded_files import read_packed
from profiler.runner.protocol import STAMPS_END, STAMPS_FILE

SPAN_COLUMNS = ("block", "group", "sm", "activity", "start_ns", "end_ns")
"""One row per activity of a group: `block` and `group` by number, `sm` the multiprocessor,
`activity` its name; times since the first recorded group began."""

MAX_WORDS = 2**24
"""Most words of a group: 64 MiB of stamps of one warpgroup."""
_WORD_BITS = 32
_DAMAGE = (
    *(EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError),
    *(OverflowError, RecursionError),
)
_OPERATION = re.compile(r"\s*(?P<name>[^:;]+?)\s*:\s*(?P<begins>\w+)\s+to\s+(?P<ends>\w+)\s*")
_SM, _BEGIN, _END = 1, 2, STAMPS_END
"""Places of the multiprocessor, and of the times at the beginning and at the end."""


@dataclass(frozen=True)
class StampedOperation:
    """Asynchronous operation, from the start of an activity to the end of another."""

    name: str
    begins: str
    ends: str


@dataclass(frozen=True, eq=False)
class KernelStamps:
    """Activities that a few blocks of one launch recorded."""

    groups: Mapping[int, str]
    """Names of the groups that recorded, by number; `group <n>` without a name."""
    operations: tuple[StampedOperation, ...]
    spans: pd.DataFrame
    """SPAN_COLUMNS, in the order of block, group and time."""
    ends: pd.DataFrame
    """`block group sm start_ns end_ns full`: from the beginning of each group to its end; `full`
    where the group's buffer was full before: later stamps were not recorded."""


def read_stamps(folder: Path) -> dict[Visit, KernelStamps]:
    """Stamps by visit in the file of an attempt; the later stamps of a visit made twice.

    Raises ParseError where the file is damaged.
    """
    path = folder / f"{STAMPS_FILE}.gz"
    if not path.exists():
        return {}
    try:
        lines = [json.loads(line) for line in read_packed(path).decode("utf-8").splitlines()]
        return {_visit(line): kernel_stamps(line) for line in lines}
    except (OSError, *_DAMAGE) as error:
        raise ParseError(f"{path}: damaged: {error}") from error


def _visit(line: Mapping[str, Any]) -> Visit:
    block, arm = int(line["block"]), int(line["arm"])
    if not (0 <= block < 2**_WORD_BITS and 0 <= arm < 2**_WORD_BITS):
        raise ValueError("a visit without a number")
    return Visit(str(line["cell"]), block, arm)


def kernel_stamps(line: Mapping[str, Any]) -> KernelStamps:
    """Stamps of one visit; raises ValueError, KeyError, TypeError or IndexError for other JSON."""
    activities = _names(str(line["activities"]))
    if not activities:
        raise ValueError("no activity has a name")
    layout = _layout(line)
    groups = (
        _Group.of(int(block), int(group), [int(word) for word in words], layout)
        for block, group, words in line["written"]
    )
    recorded = [group for group in groups if group.has_ended]
    names = dict(enumerate(_names(str(line.get("groups", "")))))
    spans, ends = _spans(recorded, activities)
    return KernelStamps(
        groups={
            number: names.get(number, f"group {number}")
            for number in sorted({group.group for group in recorded})
        },
        operations=_operations(str(line.get("operations", "")), activities),
        spans=spans,
        ends=ends,
    )


def _layout(line: Mapping[str, Any]) -> tuple[int, int, int]:
    """Number of words of a group before its stamps and in all, and bits of the activity."""
    head, words, code_bits = int(line["head"]), int(line["words"]), int(line["code_bits"])
    if not (_END + 3 <= head <= words <= MAX_WORDS and 0 < code_bits < _WORD_BITS):
        raise ValueError(f"{words} words, {head} of them before {code_bits} bits of a code")
    return head, words, code_bits


@dataclass(frozen=True, eq=False)
class _Group:
    """The words of a group, with clocks counted from its beginning."""

    block: int
    group: int
    sm: int
    began_ns: int
    ended_ns: int
    began_clock: int
    cycles: int
    """From its beginning to its end."""
    codes: npt.NDArray[np.int64]
    clocks: npt.NDArray[np.int64]
    """Cycles from its beginning to each stamp."""
    full: bool

    @property
    def has_ended(self) -> bool:
        """Whether the end of the group was recorded: False where the kernel was stopped."""
        return self.ended_ns > 0

    @classmethod
    def of(
        cls, block: int, group: int, words: Sequence[int], layout: tuple[int, int, int]
    ) -> _Group:
        """Group of these words; raises ValueError for other words."""
        head_words, most_words, code_bits = layout
        if len(words) > most_words or not all(0 <= word < 2**32 for word in words):
            raise ValueError(f"group {group} of block {block} has {len(words)} words")
        # Zeros at the end are not in the file.
        head = [*words[:head_words], *[0] * (head_words - len(words))]
        began = head[_BEGIN + 2]
        stamps = np.array(words[head_words:], dtype=np.int64)
        clocks = stamps >> code_bits
        turn = 2 ** (_WORD_BITS - code_bits)  # cycles after which clocks wrap around
        first = (clocks[:1] - began) % turn
        # Less than a turn of the clock's lower bits (80 ms at 1.7 GHz) lies between two stamps.
        steps = np.diff(clocks) % turn
        return cls(
            block=block,
            group=group,
            sm=head[_SM],
            began_ns=head[_BEGIN] + (head[_BEGIN + 1] << 32),
            ended_ns=head[_END] + (head[_END + 1] << 32),
            began_clock=began,
            cycles=(head[_END + 2] - began) % 2**_WORD_BITS,
            codes=stamps % 2**code_bits,
            clocks=np.cumsum(np.concatenate([first, steps])),
            full=len(words) == most_words,
        )


def _spans(
    groups: Sequence[_Group], activities: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Frames of all groups on one axis.

    Multiprocessors have clocks of their own: the coarser globaltimer sets the beginning of each
    block, and the clock the offsets between its warpgroups.
    """
    ns_per_cycle = _ns_per_cycle(groups)
    origin = min((group.began_ns for group in groups), default=0)
    spans, ends = [], []
    for group in groups:
        if len(group.codes) and not 1 <= min(group.codes) <= max(group.codes) <= len(activities):
            raise ValueError(f"an activity without a name in block {group.block}")
        start = _start_ns(group, groups, ns_per_cycle) - origin
        end = start + group.cycles * ns_per_cycle
        times = start + group.clocks * ns_per_cycle
        place = {"block": group.block, "group": group.group, "sm": group.sm}
        ends.append({**place, "start_ns": start, "end_ns": end, "full": group.full})
        last_end = [] if group.full else [end]
        names = [activities[code - 1] for code in group.codes]
        ends_of_spans = np.append(times[1:], last_end)
        spans += [
            {**place, "activity": name, "start_ns": begins, "end_ns": ends_at}
            # The last activity of a group whose place is full has no end.
            for name, begins, ends_at in zip(names, times, ends_of_spans, strict=False)
        ]
    return (
        pd.DataFrame(spans, columns=list(SPAN_COLUMNS)),
        pd.DataFrame(ends, columns=["block", "group", "sm", "start_ns", "end_ns", "full"]),
    )


def _start_ns(group: _Group, groups: Sequence[_Group], ns_per_cycle: float) -> float:
    """Start of a group (ns), by the clock that the groups of a block share."""
    block = [in_block for in_block in groups if in_block.block == group.block]
    first = min(
        block, key=lambda in_block: _cycles_since(in_block.began_clock, block[0].began_clock)
    )
    cycles = _cycles_since(group.began_clock, first.began_clock)
    return first.began_ns + cycles * ns_per_cycle


def _cycles_since(clock: int, earlier: int) -> int:
    """Cycles from `earlier` to `clock` on a clock of 32 bits; negative where `earlier` is later."""
    half = 1 << (_WORD_BITS - 1)
    turn = 1 << _WORD_BITS
    return (clock - earlier + half) % turn - half


def _ns_per_cycle(groups: Sequence[_Group]) -> float:
    """Length of a cycle over all groups; ValueError where the clocks did not run."""
    if not groups:
        return 1.0
    nanoseconds = sum(group.ended_ns - group.began_ns for group in groups)
    cycles = sum(group.cycles for group in groups)
    if nanoseconds <= 0 or cycles <= 0:
        raise ValueError("its clocks did not run")
    return nanoseconds / cycles


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _operations(text: str, activities: tuple[str, ...]) -> tuple[StampedOperation, ...]:
    """Operations of `name: activity to activity; …`; raises ValueError for another form."""
    operations = []
    for part in filter(str.strip, text.split(";")):
        match = _OPERATION.fullmatch(part)
        if match is None or not {match["begins"], match["ends"]} <= set(activities):
            raise ValueError(f"no operation between two activities: {part.strip()!r}")
        operations.append(StampedOperation(match["name"], match["begins"], match["ends"]))
    return tuple(operations)
