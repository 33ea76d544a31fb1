"""How often a gate trips on 500 unchanged cells of two cards and two days, and what it finds.

Base and head are one kernel: of a recorded cell each block gives the base its duration, and the
head that of another block of the same cell (so their difference has the recorded scatter twice),
with an offset that lasts the session, drawn as sessions are known to differ. Verdicts and gate are
those of a run. Then the head of every cell is slower by 2, 3 and 5 %.

    python benchmarks/history/gates.py [--gates N]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.analyse.intervals import session_sds
from profiler.analyse.judge import Judge, visit_times
from profiler.analyse.verdicts import compare
from profiler.commands.report import read_run
from profiler.findings.gates import Gate, regressions
from profiler.model import FEWEST_BLOCKS, SessionKind
from profiler.run_folder.archive import open_run

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ("autotune", "hopper_autotune")
"""An H200 on 25 November 2026, another one on 27 November 2026."""
CELLS = 250
"""Of each recording."""
EFFECTS = (0.0, 0.02, 0.03, 0.05)
SEED = 20261128


def recorded(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Durations of CELLS cells by block, and the noise floor of each problem."""
    run = open_run(ROOT / f"experiments/recordings/{name}.zip")
    report = read_run(run)
    times = visit_times(report.measured.samples, report.plan.cells, SessionKind.TIMING)
    floors = Judge(times, report.plan.baseline, report.rules).floors["duration_ns"]
    first = times[times["arm"] == 0]
    counts = first.groupby("cell")["block"].transform("size")
    kept = first[counts >= FEWEST_BLOCKS]
    drawn = np.random.default_rng(SEED).permutation(kept["cell"].unique())[:CELLS]
    return kept[kept["cell"].isin(drawn)], floors


def gate_trips(
    times: pd.DataFrame, floors: pd.Series, effect: float, generator: np.random.Generator
) -> tuple[int, pd.Series]:
    """Cells that trip one gate, and how many cells have each verdict."""
    blocks, pairs = [], []
    for cell, rows in times.groupby("cell"):
        logs = np.log(rows["duration_ns"].to_numpy())
        shift = generator.integers(1, len(logs))
        order = generator.permutation(len(logs))
        head = np.empty_like(logs)
        head[order] = logs[np.roll(order, shift)]  # never the block's own
        sd = float(session_sds(np.array([np.exp(np.median(logs))]))[0])
        ratios = head - logs + generator.normal(0, sd) + np.log1p(effect)
        blocks.append(pd.DataFrame({"pair": cell, "log_ratio": ratios}))
        problem = rows["problem"].iloc[0]
        pairs.append((cell, problem, floors.get(problem, np.nan), sd))
    columns = ["pair", "family", "noise_floor", "session_sd"]
    table = pd.DataFrame(pairs, columns=columns).set_index("pair")
    verdicts = compare(pd.concat(blocks), table)
    judged = verdicts.rename_axis("cell").reset_index()
    judged = judged.rename(columns={"low": "ratio_low", "high": "ratio_high"})
    return len(regressions(judged, Gate())), judged["verdict"].astype(str).value_counts()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=20)
    gates = parser.parse_args().gates
    generator = np.random.default_rng(SEED)
    of_runs = [recorded(name) for name in RECORDINGS]
    rows = []
    for effect in EFFECTS:
        found = [gate_trips(*run, effect, generator) for run in of_runs for _ in range(gates)]
        cells = sum(int(counts.sum()) for _, counts in found)
        trips = sum(count for count, _ in found)
        verdicts = pd.DataFrame([counts for _, counts in found]).sum().astype(int)
        row = {"slower by": f"{effect:.0%}", "gates": len(found), "cells": cells, "trips": trips}
        rows.append({**row, "share": trips / cells, **verdicts.to_dict()})
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
