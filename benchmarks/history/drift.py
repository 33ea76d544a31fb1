"""What recorded runs of one experiment differ by although nothing was changed: `drift.csv`.

A row for each cell (by number) and run: median duration, median ratio to the baseline of the same
blocks, and the standard error of the logarithm of that ratio. Folders and archives of runs are both
read; those of an experiment have to be of one model of GPU and of the same kernels.

    python benchmarks/history/drift.py RUN... > benchmarks/history/drift.csv

The earlier recordings are in the history of the repository: `git archive COMMIT
experiments/recordings/autotune | tar -x -C FOLDER`, with the commits 67fb1743, 2154c74a, 2fc64476,
3caedd33, f7285c3f and fca59fa0 of `autotune`, 67fb1743 and 30e4fe71 of `softmax`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.commands.report import read_run
from profiler.run_folder.archive import open_run


def drift_of(path: Path) -> pd.DataFrame:
    """Rows of one run."""
    run = open_run(path)
    report = read_run(run)
    samples = report.measured.samples
    timing = samples[(samples["kind"] == "timing") & (samples["collector"] == "ncu")]
    cells = pd.DataFrame(
        [(cell.id, cell.variant.id, cell.problem.id) for cell in report.plan.cells],
        columns=["cell", "variant", "problem"],
    )
    first = timing[timing["arm"] == 0] if "arm" in timing else timing
    keys = ["cell", "variant", "problem", "block"]
    blocks = first.merge(cells, on="cell").groupby(keys)["duration_ns"].median().reset_index()
    baseline = blocks[blocks["variant"] == report.plan.baseline]
    both = blocks.merge(baseline[["problem", "block", "duration_ns"]], on=["problem", "block"])
    both["log_ratio"] = np.log(both["duration_ns_x"] / both["duration_ns_y"])
    rows = both.groupby("cell").agg(
        duration_ns=("duration_ns_x", "median"),
        log_ratio=("log_ratio", "median"),
        deviation=("log_ratio", "std"),
        blocks=("log_ratio", "size"),
    )
    error = 1.2533 * rows["deviation"] / np.sqrt(rows["blocks"])  # of a median, if normal
    environment = report.environment
    return rows.assign(
        experiment=run.record().experiment,
        created=run.record().created[:16],
        gpu=environment.gpu,
        card=(environment.gpu_uuid or "").lower()[4:10],
        error=error,
    ).reset_index()


def main() -> None:
    """Write the rows of all runs to stdout."""
    table = pd.concat([drift_of(Path(path)) for path in sys.argv[1:]])
    table["cell"] = table.groupby(["experiment", "cell"]).ngroup()  # names are most of the file
    columns = ["experiment", "created", "gpu", "card", "cell", "duration_ns", "log_ratio", "error"]
    table = table[columns].sort_values(["experiment", "cell", "created"])
    table["duration_ns"] = table["duration_ns"].round().astype(int)
    sys.stdout.write(table.round(5).to_csv(index=False))


if __name__ == "__main__":
    main()
