"""Parts of a kernel's machine code that are told by what they are made of.

The slow path of CUDA's sine, cosine and tangent (`sinf` and the like without `-use_fast_math`): for
arguments above 105615 in magnitude the reduction by 2/pi multiplies by a table in local memory and
ends in double precision: a conversion of a 64-bit integer, a product, a conversion to float. Code
without large arguments has it too, and jumps over it: only what was executed counts.

Loops that compare and swap: a branch leads back before an instruction that does it, and what that
gave decides whether the loop goes on. A loop that swaps once a turn and goes on in any case has
more to do than that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from profiler.analyse.why.producers import Code
from profiler.parse.ncu_source import ADDRESS, OPCODE, SASS

_FIRST, _LAST = "I2F.F64.S64", "F2F.F32.F64"
"""Opcodes near the end of the path, in this order."""
_BETWEEN = 16
"""Instructions that stand between these two, at most."""
_THROUGH_TABLE = ("STL", "LDL")
"""Opcodes that fill the table, and read it: conversions alone are anyone's."""
_TARGET = re.compile(r"\bBRA\b.*?\b(?:0x)?([0-9a-f]+)\s*$")


def of_slow_paths(instructions: pd.DataFrame) -> pd.Series:
    """Whether each instruction of a listing is of a slow path."""
    opcodes = [*map(str, instructions[OPCODE])]
    inside = pd.Series(False, index=instructions.index)
    if not any(opcode.startswith(_LAST) for opcode in opcodes):
        return inside
    addresses = instructions[ADDRESS].tolist()
    targets = [_target(text) for text in instructions[SASS].astype(str)]
    for end in (at for at, opcode in enumerate(opcodes) if opcode.startswith(_LAST)):
        if any(opcode.startswith(_FIRST) for opcode in opcodes[max(end - _BETWEEN, 0) : end]):
            begin = _jump_over(end, addresses, targets)
            if begin is None:
                continue
            behind = sum(address < targets[begin] for address in addresses)
            path = opcodes[begin + 1 : behind]
            if all(any(name.startswith(of_table) for name in path) for of_table in _THROUGH_TABLE):
                inside.iloc[begin + 1 : behind] = True
    return inside


def _jump_over(end: int, addresses: list[int], targets: list[int]) -> int | None:
    """Position of the branch that leads from before a position to nearest behind it, or None."""
    behind = [at for at in range(end) if targets[at] > addresses[end]]
    return min(behind, key=lambda at: targets[at], default=None)


def of_swap_loops(instructions: pd.DataFrame, opcode: str) -> pd.Series:
    """Whether each instruction of a listing is of a loop with a compare-and-swap of this opcode."""
    opcodes = [*map(str, instructions[OPCODE])]
    inside = pd.Series(False, index=instructions.index)
    if not any(name.startswith(opcode) for name in opcodes):
        return inside
    addresses = instructions[ADDRESS].tolist()
    targets = [_target(text) for text in instructions[SASS].astype(str)]
    code = Code.of(instructions)
    for swap in (at for at, name in enumerate(opcodes) if name.startswith(opcode)):
        ends = (at for at in range(swap, len(targets)) if 0 <= targets[at] <= addresses[swap])
        end = next(ends, None)
        if end is not None and _decides(code, swap, end, addresses, targets):
            begin = sum(address < targets[end] for address in addresses)
            inside.iloc[begin : end + 1] = True
    return inside


def _decides(
    code: Code, swap: int, end: int, addresses: Sequence[int], targets: Sequence[int]
) -> bool:
    """Whether what a swap gave decides if the loop that ends here goes on.

    By the branch back at `end`, or by one in between that leaves the loop.
    """
    depending = set(code.written[swap])
    for at in range(swap + 1, end + 1):
        if code.read[at].isdisjoint(depending):
            depending -= code.written[at]
        elif targets[at] > addresses[end] or at == end:
            return True
        else:
            depending |= code.written[at]
    return False


def _target(text: str) -> int:
    """Address that a branch leads to; -1 of other instructions."""
    match = _TARGET.search(text)
    return int(match[1], 16) if match else -1
