"""The load whose result an instruction waits for, by the registers that it reads.

A sample is at the instruction that cannot issue: the first that uses what was loaded, often far
below the load and in a line of another file. The load is the last instruction before it that
writes one of its registers; of a loop that loads ahead, one that stands behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from profiler.parse.ncu_source import OPCODE, SASS

LONG_SCOREBOARD = "long_scoreboard"
_LOADS = ("LDG", "LD.", "LDL", "ATOMG", "ATOM.", "TLD", "TEX")
"""Opcodes whose results are waited for under LONG_SCOREBOARD."""
_WITHOUT_RESULT = ("ST", "RED", "BRA", "BAR", "EXIT", "MEMBAR", "LDGSTS")
_REGISTER = re.compile(r"\bR(\d+)\b")
_WIDE = {".128": 4, ".64": 2, ".WIDE": 2}
"""Registers that an instruction writes, by a part of its opcode."""


def load_waited_for(instructions: pd.DataFrame, position: int) -> int | None:
    """Position of the load that the instruction at `position` waits for; None where none is found.

    `instructions` are those of one launch in the order of addresses.
    """
    opcodes, texts = instructions[OPCODE].astype(str).tolist(), instructions[SASS].tolist()
    read = _read(opcodes[position], str(texts[position]))
    before = range(position - 1, -1, -1)
    behind = range(len(texts) - 1, position, -1)
    found = [_writer(register, (*before, *behind), opcodes, texts) for register in read]
    loads = [writer for writer in found if writer is not None and _is_load(opcodes[writer])]
    # A load above is nearer than one of the iteration before.
    return max(loads, key=lambda load: (load < position, load), default=None)


def _writer(
    register: int, order: Iterable[int], opcodes: Sequence[str], texts: Sequence[object]
) -> int | None:
    """First of these instructions that writes a register."""
    return next((at for at in order if register in _written(opcodes[at], str(texts[at]))), None)


def _is_load(opcode: str) -> bool:
    return opcode.startswith(_LOADS) and not opcode.startswith(_WITHOUT_RESULT)


def _operands(opcode: str, text: str) -> list[str]:
    return text.partition(opcode)[2].split(",")


def _written(opcode: str, text: str) -> range:
    """Registers that an instruction writes: its first operand, and those that follow."""
    first = _REGISTER.match(_operands(opcode, text)[0].strip())
    if first is None or opcode.startswith(_WITHOUT_RESULT):
        return range(0)
    width = next((count for name, count in _WIDE.items() if name in opcode), 1)
    return range(int(first[1]), int(first[1]) + width)


def _read(opcode: str, text: str) -> list[int]:
    """Registers that an instruction reads."""
    operands = _operands(opcode, text)
    sources = operands if len(_written(opcode, text)) == 0 else operands[1:]
    return [int(register) for register in _REGISTER.findall(",".join(sources))]
