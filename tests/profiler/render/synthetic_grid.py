"""A made-up run of a grid: operators by two dimensions, each as several implementations.

It has every outcome that a grid page must tell apart; no numbers here were measured.
"""

import math

import numpy as np
from cell_statuses import status_of
from synthetic_report import report_of_rows, timing_row

from profiler.model import Cell, CellStatus, Environment, Outcome, Problem, Variant, cell_id
from profiler.run_folder.load.report import ExperimentText, PageSettings

OPERATORS = ("pointwise_chain", "softmax")
IMPLEMENTATIONS = ("eager", "compile", "triton")
METRICS = (
    "duration_ns",
    "dram_read_bytes",
    "dram_write_bytes",
    "kernels",
    "instructions",
    "buffer_bytes",
    "compile_s",
    "peak_bytes",
    "max_abs_error",
    "max_rel_error",
)
KERNELS = {
    "eager": ("cos_kernel", "mul_kernel", "max_kernel", "add_kernel"),
    "compile": ("triton_poi_fused_0",),
    "triton": ("chain_kernel<a, b>",),
}


def make_grid(
    operators=OPERATORS, sizes=(128, 1024, 8192, 65536), implementations=IMPLEMENTATIONS, blocks=8
):
    """Build a run of every operator and implementation on `sizes` by `sizes`.

    In the first operator the largest problem does not fit for the second implementation, which
    runs eager kernels on the problem before it and is wrong at the smallest.
    """
    variants = [Variant(name, name, {"implementation": name}) for name in implementations]
    cells = tuple(
        Cell(cell_id(variant, problem), variant, problem)
        for problem in (
            problem_of(operator, rows, columns)
            for operator in operators
            for rows in sizes
            for columns in sizes
        )
        for variant in variants
    )
    statuses = {cell.id: _status(cell, operators, sizes, implementations) for cell in cells}
    return report_of_rows(
        ExperimentText(
            name="fusion", title="What does fusing save", description="Operators by shape."
        ),
        cells,
        statuses,
        _rows(cells, statuses, blocks),
        environment=Environment(gpu="NVIDIA H200", compute_capability="9.0"),
        settings=PageSettings(kind="grid", metrics=METRICS),
    )


def problem_of(operator, rows, columns):
    """Problem of an operator on a matrix."""
    name = f"operator={operator},dim0={rows},dim1={columns}"
    params = {"operator": operator, "dim0": rows, "dim1": columns}
    return Problem(name.replace(",", "."), name, params)


def _status(cell, operators, sizes, implementations):
    params = cell.problem.params
    at = (params["dim0"], params["dim1"])
    if params["operator"] == operators[0] and cell.variant.id == implementations[1]:
        if at == (sizes[-1], sizes[-1]):
            cause = "torch.OutOfMemoryError: tried to allocate 16.00 GiB"
            return CellStatus(cell.id, Outcome.OUT_OF_MEMORY, cause)
        if at == (sizes[-1], sizes[-2]):
            return CellStatus(cell.id, Outcome.FELL_BACK, "fell back: none is inductor's")
        if at == (sizes[0], sizes[0]):
            return status_of(cell.id, Outcome.WRONG_RESULT, "off by 0.3", max_abs_error=0.3)
    return status_of(cell.id, max_abs_error=1e-6, max_rel_error=1e-5)


def _rows(cells, statuses, blocks):
    generator = np.random.default_rng(11)
    seen = (Outcome.MEASURED, Outcome.FELL_BACK)
    rows = []
    for cell in (cell for cell in cells if statuses[cell.id].outcome in seen):
        values, implementation = _values(cell), str(cell.variant.params["implementation"])
        for block in range(blocks):
            for arm in range(2 if implementation == "eager" else 1):
                duration_ns = values["duration_ns"] * math.exp(generator.normal(0, 0.003))
                timed = {"duration_ns": duration_ns, "cycles": duration_ns * 1.7}
                rows.append(
                    timing_row(cell, block, arm, KERNELS[implementation], **(values | timed))
                )
    return rows


def _values(cell):
    params = cell.problem.params
    elements = float(params["dim0"] or 1) * float(params["dim1"] or 1)
    matrices = {"eager": 7.0, "compile": 2.0, "triton": 2.0}
    passes = matrices[str(cell.variant.params["implementation"])]
    if params["operator"] != "pointwise_chain":
        passes = {7.0: 2.0, 2.0: 2.002}[passes]
    size = 4 * elements
    return {
        "duration_ns": 1500 + passes * size / 4000,
        "dram_read_bytes": size * passes / 2,
        "dram_write_bytes": size * passes / 2,
        "instructions": elements * passes,
        "buffer_bytes": size * passes / 2,
        "compile_s": passes / 2,
        "peak_bytes": size * passes,
        "max_abs_error": 1e-6,
        "max_rel_error": 1e-5,
    }
