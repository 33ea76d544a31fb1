"""Verdicts on one program under several names, and slowed down by known amounts.

    python benchmarks/verdicts/measured.py [RUN]
    python benchmarks/verdicts/measured.py --sessions RUN...

RUN is a run folder or recording of `slowdowns/experiment.yaml`; by default the recording beside it.
Prints Markdown tables: verdicts by how many percent more iterations a variant made, and its ratio.
With `--sessions`, how far the ratios of the timing blocks and of the confirmation of these runs are
apart, by duration: the deviation between sessions beyond what blocks scatter by, and how often the
two intervals are disjoint, without and with that deviation in them. Runs without a confirmation,
and files that are no runs, are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from profiler.analyse.intervals import (
    PRIOR_SDS,
    duration_classes,
    median_intervals,
    offset_variances,
    widened_ends,
)
from profiler.analyse.judge import Judge, ratios_measured_twice, visit_times
from profiler.commands.report import read_run
from profiler.findings.verdicts import judges_of
from profiler.model import Cell, SessionKind, Verdict
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.report import Report

HERE = Path(__file__).parent
SPEC = HERE / "slowdowns" / "experiment.yaml"
RECORDING = HERE / "slowdowns" / "recording.zip"
WORDS = (Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR, Verdict.SLOWER)


CLASSES = {
    "below 10 µs": (0,),
    "10 to 50 µs": (1,),
    "both: below 50 µs": (0, 1),
    "above 50 µs": (2,),
}
"""Rows of the table of sessions, each with the duration classes that are in it."""


def comparisons(report: Report) -> pd.DataFrame:
    """Every cell against the baseline, with how much more it does (`extra_pct`) and its blocks."""
    times = visit_times(report.measured.samples, report.plan.cells, SessionKind.TIMING)
    judge = Judge(times, report.plan.baseline, report.rules)
    cells = {cell.id: cell for cell in report.plan.cells}
    verdicts = judge.with_baseline(report.plan.cells)
    return verdicts.assign(
        extra_pct=[_extra(cells[cell]) for cell in verdicts["cell"]],
        problem_name=[cells[cell].problem.name for cell in verdicts["cell"]],
    )


def _extra(cell: Cell) -> int:
    return int(cell.variant.params["extra_pct"] or 0)


def table(verdicts: pd.DataFrame) -> str:
    """The Markdown table."""
    lines = [
        "| iterations | pairs | FASTER | SAME | UNCLEAR | SLOWER | median blocks | ratios |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for extra, rows in verdicts.groupby("extra_pct"):
        counts = rows["verdict"].value_counts()
        name = f"+{extra!s} %" if extra else "the same (A/A)"
        cells = " | ".join(str(counts.get(word, 0)) for word in WORDS)
        span = f"{rows['ratio'].min():.4f} to {rows['ratio'].max():.4f}"
        lines.append(f"| {name} | {len(rows)} | {cells} | {rows['blocks'].median():.0f} | {span} |")
    return "\n".join(lines)


def problems(verdicts: pd.DataFrame, report: Report) -> str:
    """Per problem: the baseline's duration, the noise floor, and the verdicts."""
    durations = report.measured.summary[report.measured.summary["metric"] == "duration_ns"]
    baseline = durations[durations["variant"] == report.plan.baseline].set_index("problem")[
        "median"
    ]
    lines = ["| problem | baseline | noise floor | verdicts on +1, +2, +5 % |", "|---|---|---|---|"]
    for problem, rows in verdicts.groupby("problem", sort=False):
        slowed = rows[rows["extra_pct"] > 0].sort_values("extra_pct")
        names = ", ".join(str(verdict).upper() for verdict in slowed["verdict"])
        floor = rows["noise_floor"].iloc[0]
        name = rows["problem_name"].iloc[0]
        lines.append(
            f"| {name} | {baseline[problem] / 1e3:.1f} us | {100 * floor:.2f} % | {names} |"
        )
    return "\n".join(lines)


def between_sessions(reports: Sequence[Report]) -> str:
    """The Markdown table of offsets between the timing blocks and the confirmation."""
    parts = []
    for report in reports:
        timing, final = judges_of(report)
        if final.times.empty:
            continue
        frames = ratios_measured_twice(timing, final, report.plan.cells)
        part = offset_variances(*frames)
        for name, blocks in zip(("first", "second"), frames, strict=True):
            rows = blocks[np.isfinite(blocks["log_ratio"])].groupby("pair")["log_ratio"]
            values = rows.apply(np.array).reindex(part.index)
            part[name] = [np.median(row) for row in values]
            ends = [median_intervals(row[np.newaxis]) for row in values]
            part[[f"{name}_low", f"{name}_high"]] = [(low[0], high[0]) for low, high in ends]
        parts.append(part)
    pairs = pd.concat(parts)
    lines = [
        "| shorter of the two | pairs | deviation between sessions | disjoint intervals |",
        "|---|---|---|---|",
    ]
    classes = duration_classes(pairs["shorter_ns"].to_numpy())
    for name, members in CLASSES.items():
        rows = pairs[np.isin(classes, members)]
        if rows.empty:
            continue
        sd = np.sqrt(max(0.0, rows["variance"].mean()))
        shares = [100 * _disjoint(rows, deviation) for deviation in (0.0, PRIOR_SDS[members[0]])]
        lines.append(
            f"| {name} | {len(rows)} | {100 * sd:.2f} % | {shares[0]:.1f} → {shares[1]:.1f} % |"
        )
    return "\n".join(lines)


def _disjoint(pairs: pd.DataFrame, sd: float) -> float:
    """Share of the pairs whose two intervals have nothing in common, with this deviation."""
    ends = {
        (name, end): widened_ends(pairs[f"{name}_{end}"].to_numpy(), pairs[name].to_numpy(), sd)
        for name in ("first", "second")
        for end in ("low", "high")
    }
    apart = ends["first", "low"] > ends["second", "high"]
    return float((apart | (ends["second", "low"] > ends["first", "high"])).mean())


def main() -> None:
    """Print both tables, and the launches that were made."""
    if "--sessions" in sys.argv:
        runs = [open_run(Path(path)) for path in sys.argv[2:]]
        print(between_sessions([read_run(run) for run in runs if run.exists()]))
        return
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDING
    loaded = load_spec(SPEC)
    plan = make_plan(loaded, space_of(loaded))
    report = assemble(open_run(folder), loaded, plan, replay=True)
    verdicts = comparisons(report)
    everything = (len(plan.cells) + len({cell.problem.id for cell in plan.cells})) * plan.looks[-1]
    made = report.measured.samples["kind"].value_counts().to_dict()
    print(table(verdicts), problems(verdicts, report), sep="\n\n")
    print(f"\nLaunches: {made}; every cell {plan.looks[-1]} times would be {everything}.")


if __name__ == "__main__":
    main()
