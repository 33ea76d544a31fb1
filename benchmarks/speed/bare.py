"""The cells of the benchmark without any profiler's help: to be run under ncu, or by nsight-python.

ncu … python bare.py ncu CELLS.json
python bare.py nsight CELLS.json
"""

import json
import sys
from pathlib import Path

import torch
import torch_softmax

SEED = 0


def launch_of(variant, rows, columns):
    """The launch of a cell."""
    problem = {"rows": rows, "columns": columns}
    inputs = torch_softmax.make_inputs(problem, torch.device("cuda"), SEED)
    return torch_softmax.prepare({"result": variant}, problem, inputs, None)


def under_ncu(cells, samples):
    """Each cell warmed up, then launched in a range that ncu looks for."""
    for cell in cells:
        launch = launch_of(*cell)
        launch()
        torch.cuda.synchronize()
        for _ in range(samples):
            torch.cuda.nvtx.range_push("cell")
            launch()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()


def by_nsight(cells, metrics, samples):
    """nsight-python with its own settings, and the same number of runs.

    0.9.6 starts this file again under ncu; from 1.0 on, ncu attaches when nsight is imported, which
    has to come before the first use of CUDA. What is called here is the same in both.
    """
    import nsight  # noqa: PLC0415 - ncu's own run needs none

    @nsight.analyze.kernel(configs=[tuple(cell) for cell in cells], runs=samples, metrics=metrics)
    def cell(variant, rows, columns):
        launch = launch_of(variant, rows, columns)
        with nsight.annotate("softmax"):
            launch()

    print(cell().to_dataframe())


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "ncu":
        under_ncu(document["cells"], document["samples"])
    else:
        by_nsight(document["cells"], document["metrics"], document["samples"])
