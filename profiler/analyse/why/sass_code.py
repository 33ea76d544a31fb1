"""Instructions of a launch: producers of results, classes, loops and paths, common instructions.

A sample is at the instruction that cannot issue: the first that uses a result, often far below its
producer and in a line of another file. The producer is the last instruction before it that writes
one of the registers it reads; in a loop that loads ahead, an instruction that stands behind it.

Classes of opcodes are from the instruction tables of NVIDIA's "CUDA Binary Utilities" for Volta to
Blackwell, and SASS of nvcc 13.0. Compilers move and convert with the arithmetic pipes, too: such an
instruction counts as what it does where its spelling shows it (`IMAD.MOV`,
`HFMA2.MMA R5, -RZ, RZ, 2, 0`).

Instructions of two kernels that do the same are compared without what another compilation may
change for nothing: numbers of registers, predicates, barriers and scoreboards, addresses, targets
of branches, offsets of memory and of constant banks, hints of the register cache. The same program
with other registers so is the same in all instructions, and all the more the same machine code.

The alignment is a longest common subsequence, found by the bit-parallel method of Hyyrö (2004) on
Python's integers: exact, where difflib would be cubic or, with `autojunk`, drop the instructions
that occur often. 20,000 against 20,000 instructions take about half a second and 50 MB.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile
from types import MappingProxyType

import pandas as pd

from profiler.parse.ncu_source import ADDRESS, EXECUTED, OPCODE, SASS, Listing, opcode

LONG_SCOREBOARD = "long_scoreboard"
LOADS = ("LDG.", "LD.", "LDL", "ATOMG", "ATOM.", "TLD", "TEX")
"""Opcodes whose results are waited for under LONG_SCOREBOARD."""
_WITHOUT_RESULT = ("ST", "RED", "BRA", "BAR", "EXIT", "MEMBAR", "LDGSTS")
_PREDICATES_ALONE = ("SETP", "PLOP3")
"""Parts of opcodes that write predicates alone."""
_NAME = re.compile(r"\b(U?[RP])(\d+)\b")
_PREDICATE = re.compile(r"!?U?P(?:\d+|T)")
_WIDE = {".128": 4, "88.4": 4, ".64": 2, "88.2": 2, ".WIDE": 2}
"""Registers that an instruction writes, by a part of its opcode."""
_DOUBLE = ("DADD", "DMUL", "DFMA", "F2F.F64", "I2F.F64")
"""Opcodes that write two registers."""


@dataclass(frozen=True, eq=False)
class Code:
    """Instructions of one launch in the order of addresses, with the registers that they name."""

    opcodes: Sequence[str]
    registers_written: Sequence[frozenset[str]]
    registers_read: Sequence[frozenset[str]]
    writers: Mapping[str, Sequence[int]]
    """Positions of the instructions that write each register, in their order."""
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, instructions: pd.DataFrame) -> Code:
        """Code of instructions with the columns of `parse.ncu_source`."""
        return _code(tuple(map(str, instructions[OPCODE])), tuple(map(str, instructions[SASS])))

    def producer(self, position: int, opcodes: tuple[str, ...]) -> int | None:
        """Position of the instruction with one of these `opcodes` that `position` waits for.

        The last of several. Where none writes a register that it reads, an instruction that has yet
        to read a register that it overwrites; None without either.
        """
        writers = [
            self._last_before(self.writers[name], position)
            for name in self.registers_read[position]
        ]
        candidates = [
            at for at in writers if at is not None and self.opcodes[at].startswith(opcodes)
        ]
        # A writer above is nearer than one below, of the iteration before.
        nearest = max(candidates, key=lambda at: (at < position, at), default=None)
        return self._last_reader(position, opcodes) if nearest is None else nearest

    def _last_reader(self, position: int, opcodes: tuple[str, ...]) -> int | None:
        """Last reader, since its last write, of a register that the instruction overwrites."""
        readers = [
            at
            for name in self.registers_written[position]
            for at in self._reads_since_write(name, position)
            if self.opcodes[at].startswith(opcodes)
        ]
        return max(readers, default=None)

    def _reads_since_write(self, name: str, position: int) -> Sequence[int]:
        writers, readers = self.writers[name], self.readers.get(name, ())
        place = bisect_left(writers, position)
        last_write = writers[place - 1] if place else -1
        return readers[bisect_right(readers, last_write) : bisect_left(readers, position)]

    @staticmethod
    def _last_before(positions: Sequence[int], position: int) -> int | None:
        """The last of `positions` before a position; without any, the last behind it."""
        before = bisect_left(positions, position)
        if before:
            return positions[before - 1]
        return positions[-1] if positions and positions[-1] > position else None


@lru_cache(maxsize=16)  # several facts of one launch are found in its code, and launches share it
def _code(opcodes: tuple[str, ...], texts: tuple[str, ...]) -> Code:
    """Code of instructions by their opcodes and their texts."""
    registers_written, registers_read = (
        zip(*map(_registers, opcodes, texts), strict=True) if opcodes else ((), ())
    )
    return Code(
        opcodes,
        registers_written,
        registers_read,
        _positions(registers_written),
        _positions(registers_read),
    )


def _positions(registers: Sequence[frozenset[str]]) -> Mapping[str, Sequence[int]]:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, names in enumerate(registers):
        for name in names:
            positions[name].append(position)
    return positions


@lru_cache(maxsize=1 << 15)
def _registers(opcode: str, text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Registers and predicates that an instruction writes, then those that it reads."""
    guard, _, operands_text = text.partition(opcode)
    operands = [operand.strip() for operand in operands_text.split(",")]
    results = 0 if opcode.startswith(_WITHOUT_RESULT) else _count_results(opcode, operands)
    registers_written = [
        f"{kind}{int(number) + place}"
        for operand in operands[:results]
        for kind, number in _NAME.findall(operand)
        for place in range(_width(opcode) if kind == "R" else 1)
    ]
    registers_read = _NAME.findall(",".join([guard, *operands[results:]]))
    return frozenset(registers_written), frozenset(kind + number for kind, number in registers_read)


def _count_results(opcode: str, operands: Sequence[str]) -> int:
    """Number of operands that an instruction writes: predicates, one register, its carries."""
    predicates = _leading_predicates(operands)
    if predicates and any(part in opcode for part in _PREDICATES_ALONE):
        return predicates
    return predicates + 1 + _leading_predicates(operands[predicates + 1 :])


def _leading_predicates(operands: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(_PREDICATE.fullmatch, operands))


@cache
def _width(opcode: str) -> int:
    wide = next((count for part, count in _WIDE.items() if part in opcode), 1)
    return max(wide, 2) if opcode.startswith(_DOUBLE) else wide


# ---- parts of the code ---------------------------------------------------------------------------
#
# The slow path of CUDA's sine, cosine and tangent (`sinf` and the like without `-use_fast_math`):
# for arguments above 105615 in magnitude the reduction by 2/pi multiplies by a table in local
# memory and ends in double precision: a conversion of a 64-bit integer, a product, a conversion to
# float. Code without large arguments has it too, and jumps over it: only what was executed counts.
#
# Loops that compare and swap: a branch leads back before a compare-and-swap, whose result decides
# whether the loop goes on. A loop that swaps once a turn and goes on in any case does other work.

_FIRST, _LAST = "I2F.F64.S64", "F2F.F32.F64"
"""Opcodes near the end of the slow path, in this order."""
_MOST_BETWEEN = 16
"""Instructions that stand between these two, at most."""
_TABLE_ACCESSES = ("STL", "LDL")
"""Opcodes that fill the table, and read it: conversions alone prove no slow path."""
_TARGET = re.compile(r"\bBRA\b.*?\b(?:0x)?([0-9a-f]+)\s*$")


def in_slow_path(instructions: pd.DataFrame) -> pd.Series:
    """Whether each instruction of a listing is in a slow path."""
    return _in_parts(instructions, _LAST, _slow_path)


def in_swap_loop(instructions: pd.DataFrame, opcode: str) -> pd.Series:
    """Whether each instruction of a listing is in a loop of compare-and-swap with this opcode."""
    return _in_parts(instructions, opcode, _swap_loop)


def _in_parts(
    instructions: pd.DataFrame,
    opcode: str,
    part_of: Callable[[Code, int, list[int], list[int]], slice],
) -> pd.Series:
    """Whether each instruction is in a part that an instruction with this opcode belongs to.

    `part_of`: its positions, by the code, the position of that instruction, the address of each
    instruction and its target.
    """
    inside = pd.Series(False, index=instructions.index)
    opcodes = instructions[OPCODE].astype(str)
    positions = [position for position, name in enumerate(opcodes) if name.startswith(opcode)]
    if not positions:
        return inside
    code, addresses = Code.of(instructions), instructions[ADDRESS].tolist()
    targets = [_target(text) for text in instructions[SASS].astype(str)]
    for position in positions:
        inside.iloc[part_of(code, position, addresses, targets)] = True
    return inside


_NOTHING = slice(0)


def _slow_path(code: Code, last: int, addresses: list[int], targets: list[int]) -> slice:
    """The slow path that ends with the conversion `last`."""
    jumps = [at for at in range(last) if targets[at] > addresses[last]]
    over = min(jumps, key=lambda at: targets[at], default=None)
    before = code.opcodes[max(last - _MOST_BETWEEN, 0) : last]
    if over is None or not any(name.startswith(_FIRST) for name in before):
        return _NOTHING
    end = sum(address < targets[over] for address in addresses)
    path = code.opcodes[over + 1 : end]
    has_table = all(any(name.startswith(access) for name in path) for access in _TABLE_ACCESSES)
    return slice(over + 1, end) if has_table else _NOTHING


def _swap_loop(code: Code, swap: int, addresses: list[int], targets: list[int]) -> slice:
    """The loop that goes on until `swap` succeeds."""
    ends = (at for at in range(swap, len(targets)) if 0 <= targets[at] <= addresses[swap])
    end = next(ends, None)
    if end is None or not _swap_decides(code, swap, end, addresses, targets):
        return _NOTHING
    return slice(sum(address < targets[end] for address in addresses), end + 1)


def _swap_decides(
    code: Code, swap: int, end: int, addresses: list[int], targets: list[int]
) -> bool:
    """Whether the result of a swap decides if the loop that ends at `end` goes on.

    By the branch back at `end`, or by one in between that leaves the loop.
    """
    depending = set(code.registers_written[swap])
    for position in range(swap + 1, end + 1):
        if code.registers_read[position].isdisjoint(depending):
            depending -= code.registers_written[position]
        elif targets[position] > addresses[end] or position == end:
            return True
        else:
            depending |= code.registers_written[position]
    return False


def _target(text: str) -> int:
    """Address that a branch leads to; -1 of other instructions."""
    match = _TARGET.search(text)
    return int(match[1], 16) if match else -1


_OPCODES = {
    "tensor": """
        HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA
        UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA""",
    "tensor_memory": "LDT LDTM STT STTM UTCCP UTCSHIFT UTCLDSWS UTCSTSWS UTCATOMSWS UVIRTCOUNT",
    "fma": """
        FADD FADD32I FADD2 FFMA FFMA32I FFMA2 FMUL FMUL32I FMUL2 FHADD FHFMA FCHK FSWZADD
        HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I BFADD2 BFFMA2 BFMUL2 DADD DFMA DMUL""",
    "compare_float": "FMNMX FMNMX3 FSET FSETP HMNMX2 HSET2 HSETP2 DMNMX DSET DSETP VHMNMX",
    "compare": """
        IMNMX ISET ISETP VIMNMX VIMNMX3 VIADDMNMX PLOP3 PSETP PSET P2R R2P CSET CSETP""",
    "integer": """
        BMSK BREV FLO IABS IADD IADD3 IADD32I IADD64 IDP IDP4A IMAD IMAD32I IMUL IMUL32I ISCADD
        ISCADD32I LEA LOP LOP3 LOP32I POPC SHF SHL SHR SGXT VABSDIFF VABSDIFF4 VIADD XMAD LEPC
        BFE BFI""",
    "conversion": "F2F F2I F2IP F2FP F2FP32 I2F I2FP I2I I2IP FRND",
    "special": "MUFU",
    "load_constant": "LDC LDCU",
    "load_global": "LD LDG LDGMC",
    "store_global": "ST STG",
    "load_shared": "LDS LDSM LDTRAM",
    "store_shared": "STS STSM STAS",
    "local": "LDL STL",
    "texture": "TEX TEXS TLD TLDS TLD4 TLD4S TMML TXA TXD TXQ SULD SUST SUQUERY",
    "async_copy": """
        LDGSTS LDGDEPBAR BLKCP UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMALST UTMAPF UTMAREDG
        UTMACMDFLUSH UTMACCTL""",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS SUATOM SURED",
    "barrier": """
        BAR B2R R2B BARRIER DEPBAR ARRIVES SYNCS WARPSYNC WARPGROUP WARPGROUPSET MEMBAR FENCE ERRBAR
        CGAERRBAR UCGABAR_ARV UCGABAR_WAIT UTCBAR ACQBULK ACQSHMINIT ENDCOLLECTIVE NANOSLEEP""",
    "control": """
        BRA BRX BRXU BREAK BSSY BSYNC BMOV BPT CALL EXIT JMP JMX JMXU KILL NANOTRAP RET RPCMOV RTT
        YIELD PREEXIT PMTRIG""",
    "move": """
        MOV MOV32I MOVM SEL FSEL PRMT SHFL S2R CS2R VOTE MATCH ELECT REDUX CREDUX GETLMEMBASE
        SETLMEMBASE SETCTAID""",
    "uniform": "R2UR S2UR VOTEU",
    "other": "NOP CCTL CCTLL CCTLT QSPC USETMAXREG USETSHMSZ PIXLD",
}  # fmt: skip
CLASSES = tuple(_OPCODES)
"""Classes in the order in which tables show them."""
_CLASS_BY_OPCODE = MappingProxyType(
    {opcode: name for name, opcodes in _OPCODES.items() for opcode in opcodes.split()}
)
_CLASS_BY_SPELLING = MappingProxyType(
    # An addition to zero that widens half precision is what the compiler converts with.
    {"IMAD.MOV": "move", "IMAD.MOV.U32": "move", "HADD2.F32": "conversion"}
)
# `HFMA2.MMA R5, -RZ, RZ, 2, 0` puts a constant into a register: nothing is multiplied.
_CONSTANT = re.compile(r"\bHFMA2(?:\.\w+)* [^,]+, -?RZ, -?RZ, ")


def instruction_class(opcode: str) -> str:
    """Class of an opcode with or without modifiers (`LDG.E.128`); `other` without a class.

    Opcodes of the uniform datapath begin with U; without another class they are `uniform`.
    """
    base = opcode.split(".", 1)[0]
    fallback = "uniform" if base.startswith("U") else "other"
    return _CLASS_BY_SPELLING.get(opcode) or _CLASS_BY_OPCODE.get(base, fallback)


def instruction_classes(listing: Listing) -> pd.Series:
    """Class of each instruction of a listing."""
    opcodes, texts = (listing.instructions[column].tolist() for column in (OPCODE, SASS))
    class_by_opcode = {opcode: instruction_class(opcode) for opcode in set(opcodes)}
    classes = [
        "move" if opcode.startswith("HFMA2") and _CONSTANT.search(text) else class_by_opcode[opcode]
        for opcode, text in zip(opcodes, texts, strict=True)
    ]
    return pd.Series(classes, index=listing.instructions.index, dtype="object", name="class")


def executed_by_class(listing: Listing) -> pd.Series:
    """Warp instructions executed by class, largest first; NaN where nothing was counted."""
    executed = listing.instructions[EXECUTED].groupby(instruction_classes(listing))
    return executed.sum(min_count=1).sort_values(ascending=False).rename(EXECUTED)


# ---- two listings --------------------------------------------------------------------------------

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
    """An instruction without the details that do not change its effect: see the module."""
    text = _NUMBERED.sub(r"\1", _HINT.sub("", sass))
    operation = opcode(sass)
    head, _, operands = text.partition(operation)
    operands = _BRACKETS.sub(lambda match: f"[{_NUMBER.sub('', match[1])}]", operands)
    if operation.startswith(_TARGETS):
        operands = _NUMBER.sub(_LABEL, operands)
    return f"{head}{operation}{operands}"


def common_instructions(first: Listing, second: Listing) -> list[tuple[int, int]]:
    """Positions in both listings of the instructions that are the same, in order.

    Of listings that are too long (MOST_PAIRS), their common beginning and end alone.
    """
    sides = _keys(first), _keys(second)
    start = _common_start(*sides)
    ends = _common_start(*(keys[start:][::-1] for keys in sides))
    middles = [keys[start : len(keys) - ends] for keys in sides]
    alignable = len(middles[0]) * len(middles[1]) <= MOST_PAIRS
    matches = _common_subsequence(*middles) if alignable else []
    count, other_count = map(len, sides)
    return [
        *((position, position) for position in range(start)),
        *((start + left, start + right) for left, right in matches),
        *((count - back, other_count - back) for back in range(ends, 0, -1)),
    ]


@lru_cache(maxsize=16)  # the best kernel is compared with several
def _keys(listing: Listing) -> list[str]:
    """Normalised instructions, without the padding after the last instruction."""
    sass = listing.instructions[SASS].tolist()
    size = _size_without_padding(sass, listing.instructions[ADDRESS].tolist())
    own_addresses = _own_addresses(listing)
    key_by_text = {text: _key(text, *own_addresses) for text in set(sass)}
    return [key_by_text[text] for text in sass[:size]]


def _size_without_padding(sass: Sequence[str], addresses: Sequence[int]) -> int:
    """Number of instructions without the NOPs at the end, and the branch to itself before them."""
    size = len(sass)
    while size:
        branch = _BRANCH.fullmatch(sass[size - 1])
        if sass[size - 1] != "NOP" and not (branch and int(branch[1], 16) == addresses[size - 1]):
            break
        size -= 1
    return size


_LOADED = 2**20
"""Addresses of code on a GPU are beyond; a disassembly that begins at 0 has offsets."""


def _own_addresses(listing: Listing) -> tuple[range, frozenset[int]]:
    """Addresses of the loaded code, and offsets from its beginning at which its calls return.

    A program keeps these offsets in a register.
    """
    addresses = listing.instructions[ADDRESS]
    if addresses.empty:
        return range(0), frozenset()
    first, last = int(addresses.iloc[0]), int(addresses.max())
    calls = addresses[listing.instructions[OPCODE].str.startswith("CALL")]
    returns = frozenset(int(address) - first + _INSTRUCTION_BYTES for address in calls)
    loaded = range(first, last + _INSTRUCTION_BYTES + 1) if first >= _LOADED else range(0)
    return loaded, returns


def _key(sass: str, loaded: range, returns: frozenset[int]) -> str:
    if "0x" not in sass:
        return normalised(sass)
    moved = _MOVED.fullmatch(sass)
    if moved and _is_own_address(int(moved["number"], 16), loaded, returns):
        return normalised(moved["to"]) + _LABEL
    return normalised(_ABSOLUTE.sub(lambda m: _LABEL if int(m[0], 16) in loaded else m[0], sass))


def _is_own_address(number: int, loaded: range, returns: frozenset[int]) -> bool:
    """Whether a number is an address of the code, half of an address, or a return offset."""
    if number in returns or number in loaded:
        return True
    first_low = loaded.start % 2**32
    low = range(first_low, first_low + len(loaded))
    return loaded.start >= 2**32 and (number in low or number == loaded.start >> 32)


# Alignment


def _common_start(first: Iterable[str], second: Iterable[str]) -> int:
    """Number of equal items at the start."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence, in order.

    Bit i of row j is 0 where the common subsequence of second[:j] with first[:i + 1] is longer than
    that with first[:i]. The traceback follows these zeros.
    """
    places: dict[str, int] = {}
    for position, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << position
    every = (1 << len(first)) - 1
    rows = [every]
    for item in second:
        row = rows[-1]
        matches = row & places.get(item, 0)
        rows.append(((row + matches) | (row - matches)) & every)
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
