"""Units that warps wait for where several share a stall reason of ncu, by waiting instructions.

`short_scoreboard` is a wait for a result of any unit behind the MIO queue: shared memory, but also
constant memory that is indexed, special functions, conversions, double precision, shuffles.
`mio_throttle` is a wait for room in that queue. The source page has the samples of each
instruction: one that waits for a result names the register, and the last instruction that writes it
names the unit; one that waits for room is itself the one that goes there. `long_scoreboard` is a
wait for any memory beyond that queue: global or local memory, atomics, textures.

A warp that waits for the results of products (`wgmma.wait_group`, WARPGROUP.DEPBAR in SASS) is
sampled and counted as waiting at a barrier: of cuDNN's attention on an H200 (ncu 2025.3.1) 95 % of
the samples with this reason are at that instruction, and its few barriers have the rest. And the
reason `gmma` has no column on the source page: its samples are those that no column has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from profiler.analyse.why.sass_code import LOADS, LONG_SCOREBOARD, Code
from profiler.parse.ncu_source import NOT_ISSUED, OPCODE, STALL, UNNAMED

PRODUCTS, BARRIER = "gmma", "barrier"
_WAIT = "WARPGROUP.DEPBAR"
_MATRIX = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")


def share_of_barrier_waits(instructions: pd.DataFrame | None) -> float:
    """Share of the samples at barriers that wait for products; 0 without a source page."""
    name = f"{STALL}{BARRIER}"
    if instructions is None or name not in instructions:
        return 0.0
    samples = instructions[name]
    total = float(samples.sum())
    return float(samples[_waits_for_products(instructions)].sum()) / total if total else 0.0


def name_product_waits(instructions: pd.DataFrame) -> pd.DataFrame:
    """Instructions with the samples of waits for products in the columns of that reason."""
    if not any(str(opcode).startswith(_MATRIX) for opcode in instructions[OPCODE]):
        return instructions
    waits = _waits_for_products(instructions)
    renamed = instructions.copy()
    for suffix in ("", NOT_ISSUED):
        products, barrier, unnamed = (
            f"{name}{suffix}" for name in (f"{STALL}{PRODUCTS}", f"{STALL}{BARRIER}", UNNAMED)
        )
        if not {products, barrier, unnamed} <= set(renamed.columns):
            continue
        at_wait = renamed[barrier].where(waits, 0.0).fillna(0.0)
        renamed[products] = renamed[products].fillna(0.0) + at_wait + renamed[unnamed].fillna(0.0)
        renamed[barrier] = renamed[barrier] - at_wait
        renamed[unnamed] = 0.0
    return renamed


def _waits_for_products(instructions: pd.DataFrame) -> pd.Series:
    waits = [str(opcode).startswith(_WAIT) for opcode in instructions[OPCODE]]
    return pd.Series(waits, index=instructions.index, dtype=bool)


RESULTS, QUEUE = "short_scoreboard", "mio_throttle"
SHARED_REASONS = (RESULTS, QUEUE)
REASONS = (*SHARED_REASONS, LONG_SCOREBOARD)
_OPCODES: Mapping[str, tuple[str, ...]] = {
    "shared_atomics": ("ATOMS",),
    "shared_memory": ("LDS", "STS"),
    "constant_memory": ("LDC",),
    "special_functions": ("MUFU",),
    "conversions": ("F2F.", "F2I", "I2F.", "FRND", "I2I"),
    "double_precision": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "shuffles": ("SHFL", "MATCH", "REDUX", "VOTE"),
    "bit_counts": ("POPC", "FLO", "BREV"),
    "special_registers": ("S2R", "S2UR", "CS2R", "R2UR"),
    "asynchronous_barriers": ("SYNCS", "ARRIVES"),
    "asynchronous_copies": ("UTMA", "UBLK", "LDGSTS"),
}
"""Opcodes by the unit behind the MIO queue that they go to."""
_OF_MEMORY: Mapping[str, tuple[str, ...]] = {
    "global_memory": ("LDG.", "LD."),
    "local_memory": ("LDL",),
    "global_atomics": ("ATOMG", "ATOM."),
    "textures": ("TEX", "TLD"),
}
"""Opcodes by the memory beyond the MIO queue that they read."""
_ASYNCHRONOUS = ("LDGSTS", "SYNCS", "UTMA", "UBLK")
UNITS = (*_OPCODES, *_OF_MEMORY)
BEHIND_QUEUE = tuple(opcode for opcodes in _OPCODES.values() for opcode in opcodes)
"""Opcodes that go to any unit behind the MIO queue."""
PRODUCERS: Mapping[str, tuple[str, ...]] = {RESULTS: BEHIND_QUEUE, LONG_SCOREBOARD: LOADS}
"""Opcodes whose results warps wait for, by stall reason."""


def unit_of_opcode(opcode: str) -> str:
    """Name of the unit or memory that an opcode goes to; empty for other opcodes."""
    units = (*_OPCODES.items(), *_OF_MEMORY.items())
    return next((unit for unit, opcodes in units if opcode.startswith(opcodes)), "")


def samples_by_wait(instructions: pd.DataFrame) -> pd.DataFrame:
    """Instructions with the samples of waits for products, and of REASONS by unit, in columns."""
    return name_units(name_product_waits(instructions))


def name_units(instructions: pd.DataFrame) -> pd.DataFrame:
    """Instructions with samples of REASONS in columns `REASON:UNIT`, where the unit is known."""
    code = Code.of(instructions)
    columns: dict[str, np.ndarray] = {}
    for reason in REASONS:
        column = f"{STALL}{reason}"
        if column in instructions:
            units = _units(code, reason, _samples(instructions, column))
            if reason == LONG_SCOREBOARD and (memory := _only_memory(code.opcodes)):
                units[:] = memory
            for suffix in ("", NOT_ISSUED):
                if f"{column}{suffix}" in instructions:
                    samples = _samples(instructions, f"{column}{suffix}")
                    columns |= {
                        f"{column}:{unit}{suffix}" if unit else f"{column}{suffix}": np.where(
                            units == unit, samples, 0.0
                        )
                        for unit in ("", *dict.fromkeys(filter(None, units)))
                    }
    return instructions.assign(**columns)


def wait_shares_by_unit(instructions: pd.DataFrame, reason: str) -> Mapping[str, float]:
    """Share of the samples of a reason by the unit that warps wait for; known units alone.

    `instructions`: from `name_units`.
    """
    column = f"{STALL}{reason}"
    units = [
        str(name)
        for name in instructions.columns
        if str(name).startswith(f"{column}:") and not str(name).endswith(NOT_ISSUED)
    ]
    sums = {name: float(instructions[name].sum()) for name in units}
    total = sum(sums.values()) + float(
        instructions[column].sum() if column in instructions else 0.0
    )
    return {name.rpartition(":")[2]: count / total for name, count in sums.items() if count}


def _only_memory(opcodes: Iterable[str]) -> str:
    """The only kind of memory that a kernel reads; empty where there are several, or none.

    With copies to shared memory or waits at an mbarrier the kind is unknown.
    """
    names = {*opcodes}
    if any(name.startswith(_ASYNCHRONOUS) for name in names):
        return ""
    kinds = {
        kind for kind, loads in _OF_MEMORY.items() if any(name.startswith(loads) for name in names)
    }
    return kinds.pop() if len(kinds) == 1 else ""


def _units(code: Code, reason: str, samples: np.ndarray) -> np.ndarray:
    """Unit that each sampled instruction waits for; empty where none is known."""
    units = np.full(len(samples), "", dtype=object)
    for position in (samples > 0).nonzero()[0].tolist():
        waited_for: int | None = position
        if reason in PRODUCERS:
            waited_for = code.producer(position, PRODUCERS[reason])
        units[position] = "" if waited_for is None else unit_of_opcode(code.opcodes[waited_for])
    return units


def _samples(instructions: pd.DataFrame, column: str) -> np.ndarray:
    return instructions[column].fillna(0.0).to_numpy()
