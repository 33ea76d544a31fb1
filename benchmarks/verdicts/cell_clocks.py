"""Verdicts by cycles that every visit counted, against those by one launch's clock; needs no GPU.

    python benchmarks/verdicts/cell_clocks.py [RECORDING ...]

Each recording whose timing visits counted cycles is judged three more times: with cycles that are
the duration of a visit times the clock of its cell in the counters session, where that counted it;
with that of the first block's launch; and without cycles. A row says how many verdicts against the
baseline change, and into what. Recordings are those of `experiments/` and `benchmarks/`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from profiler.analyse.judge import Judge, times_of
from profiler.commands.report import read_run
from profiler.model import SessionKind
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.report import Report

PROJECT = Path(__file__).resolve().parents[2]
WAYS = ("counters", "first block", "without")


def recorded() -> list[Path]:
    """Folders of the recordings of this checkout."""
    folders = (*PROJECT.glob("experiments/recordings/*"), *PROJECT.glob("benchmarks/**/*recording"))
    return sorted(folder for folder in folders if (folder / "run.json").exists())


def clocks(report: Report, times: pd.DataFrame) -> Mapping[str, pd.Series]:
    """Clock in GHz of each cell, by the way in which it is known."""
    first = times[times["arm"] == 0].sort_values("block").drop_duplicates("cell").set_index("cell")
    ways = {"first block": first["cycles"] / first["duration_ns"]}
    samples = report.samples
    counters = samples[samples["kind"] == SessionKind.COUNTERS.value]
    if "sm_clock_hz" in counters and counters["sm_clock_hz"].notna().any():
        ways["counters"] = counters.groupby("cell")["sm_clock_hz"].median() / 1e9
    return ways


def changes(report: Report) -> Iterator[tuple[str, int, Counter[tuple[str, str]]]]:
    """By way: how many verdicts there are, and which became what."""
    cells = report.plan.cells
    times = times_of(report.samples, cells, SessionKind.TIMING)
    if not _counted_cycles(report) or times["cycles"].isna().any():
        return
    counted = Judge(times, report.baseline, report.rules).with_baseline(cells)
    ways = clocks(report, times)
    for way in WAYS:
        if way != "without" and way not in ways:
            continue
        clock = times["cell"].map(ways[way]) if way in ways else np.nan
        other = times.assign(cycles=times["duration_ns"] * clock)
        judged = Judge(other, report.baseline, report.rules).with_baseline(cells)
        changed = counted["verdict"] != judged["verdict"]
        pairs = zip(counted["verdict"][changed], judged["verdict"][changed], strict=True)
        yield way, len(counted), Counter((str(old), str(new)) for old, new in pairs)


def _counted_cycles(report: Report) -> bool:
    """Whether its timing visits did; else the cycles of its samples are made of one clock."""
    timings = (s for s in report.plan.sessions if s.kind is SessionKind.TIMING)
    return any("cycles" in session.metrics for session in timings)


def spread(times: pd.DataFrame) -> tuple[float, float]:
    """Median scatter of a cell's clock over its visits, and range of the cells' clocks, in %."""
    logs = np.log(times["cycles"] / times["duration_ns"]).groupby(times["cell"])
    medians = logs.median()
    return 100 * float(logs.std().median()), 100 * float(np.expm1(medians.max() - medians.min()))


def main() -> None:
    """Print a row for each recording, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recordings", nargs="*", type=Path)
    options = parser.parse_args()
    totals: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    print("| recording | scatter of a cell's clock | range over cells | verdicts | changed |")
    print("|---|---|---|---|---|")
    for folder in options.recordings or recorded():
        report = read_run(RunFolder(folder)).report
        ways = [*changes(report)]
        if not ways:
            continue
        times = times_of(report.samples, report.plan.cells, SessionKind.TIMING)
        scatter_pct, range_pct = spread(times)
        words = []
        for way, verdicts, changed in ways:
            totals[way].update(verdicts=verdicts, changed=changed.total())
            into = ", ".join(f"{old} → {new} {count}" for (old, new), count in changed.items())
            words.append(f"{way}: {changed.total()}{f' ({into})' if into else ''}")
        name = folder.parent.name if folder.name.endswith("recording") else folder.name
        clock = f"{scatter_pct:.2f} % | {range_pct:.1f} %"
        print(f"| {name} | {clock} | {ways[0][1]} | {'; '.join(words)} |")
    for way, total in totals.items():
        print(f"{way}: {total['changed']} of {total['verdicts']} verdicts change")


if __name__ == "__main__":
    main()
