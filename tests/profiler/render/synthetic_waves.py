"""A made-up run of grids that are counted in waves; no numbers here were measured."""

import math

from synthetic_report import report_of_rows, timing_row

from profiler.model import Cell, CellStatus, Environment, Outcome, Problem, Variant, cell_id
from profiler.run_folder.load.report import ExperimentText, PageSettings
from waves.space import blocks_of

MULTIPROCESSORS = 132
WAVE_NS = 50_000
WAVES = (0.5, 0.99, 1, 1.01, 1.5, 2, 4, 4.01, 8, 8.01, 8.5, 9, 9.01, 10)
RESIDENT = (1, 4)


def make_waves(waves=WAVES, blocks=8, *, grids=True):
    """Build a run of one kernel with 1 and with 4 blocks on a multiprocessor.

    Each wave takes `WAVE_NS`. Without `grids`, neither grid sizes nor waves were collected.
    """
    variants = [Variant(f"b{n}", f"{n} a <b>", {"blocks_per_sm": n}) for n in RESIDENT]
    problems = [Problem(f"waves={value}", f"waves={value}", {"waves": value}) for value in waves]
    cells = tuple(Cell(cell_id(v, p), v, p) for p in problems for v in variants)
    rows = [
        _row(cell, block, arm, grids=grids)
        for cell in cells
        for block in range(blocks)
        for arm in range(2 if cell.variant == variants[0] else 1)
    ]
    return report_of_rows(
        ExperimentText(name="waves", title="Waves", description="Grids."),
        cells,
        {cell.id: CellStatus(cell.id, Outcome.MEASURED) for cell in cells},
        rows,
        environment=Environment(gpu="NVIDIA H200", sm_count=MULTIPROCESSORS),
        settings=PageSettings(kind="waves", metrics=("duration_ns",)),
    )


def _row(cell, block, arm, *, grids):
    per_wave = MULTIPROCESSORS * int(cell.variant.params["blocks_per_sm"] or 0)
    blocks = blocks_of(float(cell.problem.params["waves"] or 0), per_wave)
    waves = blocks / per_wave
    duration_ns = WAVE_NS * math.ceil(waves) * (1 + 0.001 * ((block + arm) % 3))
    values = {"grid_size": float(blocks), "waves": round(waves, 2)} if grids else {}
    values |= {"duration_ns": duration_ns, "cycles": duration_ns * 1.7}
    return timing_row(cell, block, arm, ("waves_chain",), **values)
