"""Instructions of two kernels that do the same, in one order.

Instructions are compared without what another compilation may change for nothing: numbers of
registers, predicates, barriers and scoreboards, addresses, targets of branches, offsets of memory
and of constant banks, hints of the register cache. The same program with other registers so is the
same in all instructions, and all the more the same machine code.

The alignment is a longest common subsequence, found by the bit-parallel method of Hyyrö (2004) on
Python's integers: exact, where difflib would be cubic or, with `autojunk`, drop the instructions
that occur often. 20,000 against 20,000 instructions take about half a second and 50 MB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from profiler.parse.ncu_source import ADDRESS, OPCODE, SASS, Listing, opcode

MOST_PAIRS = 400_000_000
"""Largest product of the two lengths that is aligned: a bit each, so 50 MB."""
_KEPT_INSTRUCTIONS = 65_536
"""Texts whose normalised form is kept: a kernel of two thousand instructions has some hundred."""

_TARGETS = ("BRA", "BSSY", "CALL", "JMP", "JMX", "BRX", "RET", "LEPC", "WARPSYNC.COLLECTIVE")
"""Opcodes with the address of an instruction among their operands."""
# The bank itself stays: `c[0x3][0x10]` is no parameter, as `c[0x0][0x210]` is.
_BRACKETS = re.compile(r"(?<!\bc)\[([^\[\]]*)\]")
_NUMBER = re.compile(r"[-+]?(?<![\w.])0x[0-9a-f]+")
# Not `R4.B1`, which is a byte of a register.
_NUMBERED = re.compile(r"(?<![.\w])(UR|R|UP|P|SB|B)\d+\b")
_HINT = re.compile(r"\.reuse\b")
_MOVED = re.compile(
    r"(?P<to>(?:@!?U?P\d+ )?(?:U?MOV|IMAD\.MOV\.U32) U?R\d+, (?:U?RZ, U?RZ, )?)"
    r"(?P<number>0x[0-9a-f]+)"
)
"""A number that is put into a register, in each of the ways of compilers."""
_ABSOLUTE = re.compile(r"(?<![\w.])0x[0-9a-f]{6,}")
_LABEL = "label"
_INSTRUCTION_BYTES = 16
"""From Volta on."""
_BRANCH = re.compile(r"BRA (0x[0-9a-f]+)")


@lru_cache(maxsize=_KEPT_INSTRUCTIONS)
def normalised(sass: str) -> str:
    """An instruction without what does not change what it does: see the module."""
    text = _NUMBERED.sub(r"\1", _HINT.sub("", sass))
    operation = opcode(sass)
    head, _, operands = text.partition(operation)
    operands = _BRACKETS.sub(lambda match: f"[{_NUMBER.sub('', match[1])}]", operands)
    if operation.startswith(_TARGETS):
        operands = _NUMBER.sub(_LABEL, operands)
    return f"{head}{operation}{operands}"


def common_instructions(first: Listing, second: Listing) -> list[tuple[int, int]]:
    """Positions in both listings of the instructions that are the same, in order.

    Where the listings are too long (MOST_PAIRS), those of their common beginning and end.
    """
    sides = _keys(first), _keys(second)
    start, ends = _common_ends(*sides)
    middles = [keys[start : len(keys) - ends] for keys in sides]
    few = len(middles[0]) * len(middles[1]) <= MOST_PAIRS
    matches = _common_subsequence(*middles) if few else []
    count, other_count = map(len, sides)
    return [
        *((position, position) for position in range(start)),
        *((start + left, start + right) for left, right in matches),
        *((count - back, other_count - back) for back in range(ends, 0, -1)),
    ]


@lru_cache(maxsize=16)  # the best kernel is compared with several
def _keys(listing: Listing) -> list[str]:
    """Instructions as they are compared, without the padding after the last one."""
    sass = listing.instructions[SASS].tolist()
    size = _size_without_padding(sass, listing.instructions[ADDRESS].tolist())
    places = _Places.of(listing)
    key_by_text = {text: _key(text, places) for text in set(sass)}
    return [key_by_text[text] for text in sass[:size]]


def _size_without_padding(sass: Sequence[str], addresses: Sequence[int]) -> int:
    """Instructions up to the last one that is no NOP, and no branch to itself before NOPs."""
    size = len(sass)
    while size:
        branch = _BRANCH.fullmatch(sass[size - 1])
        if sass[size - 1] != "NOP" and not (branch and int(branch[1], 16) == addresses[size - 1]):
            break
        size -= 1
    return size


@dataclass(frozen=True)
class _Places:
    """Numbers that are addresses of a listing: where it was loaded, and where its calls return."""

    addresses: range
    returns: frozenset[int]
    """Offsets from the first instruction: a program keeps them in a register."""

    @classmethod
    def of(cls, listing: Listing) -> _Places:
        addresses = listing.instructions[ADDRESS]
        if addresses.empty:
            return cls(range(0), frozenset())
        first, last = int(addresses.iloc[0]), int(addresses.max())
        calls = addresses[listing.instructions[OPCODE].str.startswith("CALL")]
        returns = frozenset(int(address) - first + _INSTRUCTION_BYTES for address in calls)
        return cls(range(first, last + _INSTRUCTION_BYTES + 1), returns)

    def is_address(self, number: int) -> bool:
        """Whether a number is an address of the loaded code."""
        return self.addresses.start >= _LOADED and number in self.addresses

    def is_moved_address(self, number: int) -> bool:
        """Whether a number in a register is an address, either half of one, or a return offset."""
        start, stop = self.addresses.start, self.addresses.stop
        if number in self.returns or self.is_address(number):
            return True
        low = range(start % 2**32, start % 2**32 + (stop - start))
        return start >= 2**32 and (number in low or number == start >> 32)


_LOADED = 2**20
"""Addresses of code on a GPU are beyond; a disassembly that begins at 0 has offsets."""


def _key(sass: str, places: _Places) -> str:
    if "0x" not in sass:
        return normalised(sass)
    moved = _MOVED.fullmatch(sass)
    if moved and places.is_moved_address(int(moved["number"], 16)):
        return normalised(moved["to"]) + _LABEL
    return normalised(_ABSOLUTE.sub(lambda match: _without(match[0], places), sass))


def _without(number: str, places: _Places) -> str:
    return _LABEL if places.is_address(int(number, 16)) else number


# Alignment


def _common_ends(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    """Number of equal items at the start, and of those at the end that are left."""
    shorter = min(len(first), len(second))
    start = 0
    while start < shorter and first[start] == second[start]:
        start += 1
    ends = 0
    while ends < shorter - start and first[-1 - ends] == second[-1 - ends]:
        ends += 1
    return start, ends


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence, in order.

    Bit i of row j is 0 where the common subsequence of second[:j] with first[:i + 1] is longer than
    that with first[:i]. The way back follows these zeros.
    """
    places: dict[str, int] = {}
    for position, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << position
    every = (1 << len(first)) - 1
    rows = [every]
    for item in second:
        row = rows[-1]
        both = row & places.get(item, 0)
        rows.append(((row + both) | (row - both)) & every)
    pairs: list[tuple[int, int]] = []
    left, right = len(first), len(second)
    while left and right:
        bit = 1 << (left - 1)
        if rows[right] & bit:
            left -= 1
        elif not rows[right - 1] & bit:
            right -= 1
        else:
            left, right = left - 1, right - 1
            pairs.append((left, right))
    return pairs[::-1]
