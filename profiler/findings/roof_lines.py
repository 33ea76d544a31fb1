"""Roofs over one problem, and what its cells moved at each level of memory, for a roofline."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from profiler.analyse.why.kernel_profiles import DURATION
from profiler.analyse.why.roofs import BYTES, OPERATIONS
from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import nearest_roof
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.metrics.catalogue import TENSOR_TYPES
from profiler.model import Cell, Problem

MEMORY: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "dram": (("dram_read_bytes", "dram_write_bytes"), "dram_peak", "dram_clock_hz"),
    "l2": (("l2_bytes",), "l2_peak", "lts_clock_hz"),
    "l1": (("l1_bytes",), "l1_peak", "sm_clock_hz"),
}
"""By level: metrics that add up to its bytes, peak per cycle, clock."""
SHARED = "shared"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_WAVEFRONTS_PCT = f"{_WAVEFRONTS}.pct_of_peak_sustained_elapsed"
_WAVEFRONT_BYTES = 128
"""32 banks of 4 bytes: what shared memory gives in a cycle (CUDA C++ Programming Guide)."""
_LEAST_PCT = 1.0
"""ncu prints two decimals: of smaller percentages the ceiling would be off by more than 1 %."""


@dataclass(frozen=True)
class RoofLine:
    """One roof of the hardware at the clocks of a problem's launches."""

    name: str
    """`dram`, `l2`, `l1`, `shared`, `tensor_TYPE`, `fp32`."""
    unit: str
    """BYTES or OPERATIONS."""
    ceiling: float
    """Per second, median over the cells."""
    lowest: float
    highest: float
    """Ceilings at the lowest and at the highest clock of the cells."""
    practical: float = math.nan
    """Share of the ceiling that a plain kernel reached; NaN where that was not measured."""

    @property
    def is_memory(self) -> bool:
        """Whether it is a roof of bytes."""
        return self.unit == BYTES


@dataclass(frozen=True)
class OwnRoof:
    """The roof that a cell is nearest to, in the launch that was counted."""

    name: str
    percent: float
    """Percent of the roof, by the operations or bytes that counters saw."""
    ceiling: float
    """Per second at the clock of that launch; NaN where it was not counted."""

    @property
    def is_memory(self) -> bool:
        """Whether it is a roof of bytes."""
        return self.name in MEMORY


def own_roof(findings: Findings, cell: Cell) -> OwnRoof | None:
    """Nearest roof of a correct cell, at its own clock; None where no roof was counted."""
    nearest = nearest_roof(findings.numbers, cell.variant, cell.problem)
    if nearest is None:
        return None
    name, percent = nearest
    ceilings = {roof: values for roof, _, values in _ceilings(findings, [cell])}
    return OwnRoof(name, percent, next(iter(ceilings.get(name, ())), math.nan))


def roof_lines(findings: Findings, problem: Problem) -> tuple[RoofLine, ...]:
    """Roofs that counters of correct cells tell: memory first, then arithmetic that is used.

    Without them the roof of device memory alone, by the peak of the GPU's description.
    """
    cells = _correct_cells(findings.programs, problem)
    practical = findings.report.measured.practical_roofs
    lines = [
        RoofLine(
            name,
            unit,
            statistics.median(ceilings),
            min(ceilings),
            max(ceilings),
            practical.get(name, math.nan),
        )
        for name, unit, ceilings in _ceilings(findings, cells)
        if ceilings
    ]
    peak = findings.report.environment.peak_dram_bytes_per_s
    if peak and not any(line.name == "dram" for line in lines):
        lines.insert(0, RoofLine("dram", BYTES, peak, peak, peak, practical.get("dram", math.nan)))
    return tuple(lines)


def level_bytes(findings: Findings, cell: Cell) -> dict[str, float]:
    """Bytes of a cell at each level at which they were counted and any moved."""
    amounts = {
        level: sum(findings.numbers.value(cell, metric).median for metric in metrics)
        for level, (metrics, _, _) in MEMORY.items()
    }
    amounts[SHARED] = _shared(findings, cell)[0]
    return {level: amount for level, amount in amounts.items() if amount > 0}


def counted_operations(numbers: CellNumbers, cell: Cell) -> float:
    """Operations that counters saw: of tensor cores by type, and of FP32; NaN where none did."""
    counts = [numbers.value(cell, f"tensor_{kind}_ops").median for kind in TENSOR_TYPES]
    fma, add, mul = (numbers.value(cell, f"fp32_{name}").median for name in ("fma", "add", "mul"))
    counted = [count for count in (*counts, 2 * fma + add + mul) if math.isfinite(count)]
    return sum(counted) if counted else math.nan


def _correct_cells(programs: Programs, problem: Problem) -> list[Cell]:
    cells = (programs.by_place.get((variant.id, problem.id)) for variant in programs.variants)
    return [cell for cell in cells if cell is not None and programs.correct(cell)]


def _ceilings(findings: Findings, cells: list[Cell]) -> Iterator[tuple[str, str, list[float]]]:
    """Name, unit and ceilings of each roof, one for each cell that tells it."""
    numbers = findings.numbers
    for level, (_, peak, clock) in MEMORY.items():
        yield level, BYTES, _products(numbers, cells, peak, clock)
    shared = (_shared(findings, cell)[1] for cell in cells)
    yield SHARED, BYTES, [ceiling for ceiling in shared if math.isfinite(ceiling)]
    for kind in TENSOR_TYPES:
        working = [cell for cell in cells if numbers.value(cell, f"tensor_{kind}_ops").median > 0]
        ceilings = _products(numbers, working, f"tensor_{kind}_peak", "sm_clock_hz")
        yield f"tensor_{kind}", OPERATIONS, ceilings
    fma = _products(numbers, cells, "fp32_fma_peak", "sm_clock_hz")
    yield "fp32", OPERATIONS, [2 * ceiling for ceiling in fma]


def _products(numbers: CellNumbers, cells: list[Cell], peak: str, clock: str) -> list[float]:
    """Peak times clock of each cell that has both."""
    products = (
        numbers.value(cell, peak).median * numbers.value(cell, clock).median for cell in cells
    )
    return [product for product in products if product > 0]


def _shared(findings: Findings, cell: Cell) -> tuple[float, float]:
    """Bytes of shared memory that an explained cell moved, and their ceiling; NaN without.

    Wavefronts of 128 bytes: those of bank conflicts are among them.
    """
    profile = findings.report.details.profiles.get(cell.id)
    if profile is None or len(profile.kernels) != 1:
        return math.nan, math.nan
    kernel = profile.kernels[0]
    amount = _WAVEFRONT_BYTES * kernel.value(_WAVEFRONTS)
    percent = kernel.value(_WAVEFRONTS_PCT)
    if not (percent >= _LEAST_PCT and kernel.value(DURATION) > 0):
        return amount, math.nan
    return amount, amount / kernel.value(DURATION) * 1e9 / (percent / 100)
