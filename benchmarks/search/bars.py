"""Searches of 100 seeds on recorded spaces, beside random search, against the bars.

`python benchmarks/search/bars.py FOLDER [--seeds N] [--budget N] [--json FILE] [--by-seed FILE]`,
where FOLDER has `*.T1.json` and for each a `*_T4.json.gz` whose name begins as its own does.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from pathlib import Path

from profiler.search.replay import recorded_space, replay, summarise
from profiler.search.t1 import read_t1
from profiler.search.t4 import read_t4

STRATEGIES = ("portfolio", "model", "random")
MOST_EVALUATIONS, MOST_OF_RANDOM, MOST_MS = 120, 0.6, 15.0


def main() -> int:
    """Print a table for each space; returns 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=240)
    parser.add_argument("--mean", action="store_true", help="mean of the runs, as the hub has it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--by-seed", type=Path, help="CSV of the evaluations to 95 %% by seed")
    arguments = parser.parse_args()
    rows = []
    for space_file in sorted(arguments.folder.glob("*.T1.json")):
        stem = space_file.name.removesuffix(".T1.json")
        results = read_t4(next(arguments.folder.glob(f"{stem}*_T4.json*")))
        problem = read_t1(space_file)
        recorded = recorded_space(problem, results, "mean" if arguments.mean else "median")
        for strategy in STRATEGIES:
            # Random search costs nothing, so that it may search until it finds.
            budget = len(recorded.space) if strategy == "random" else arguments.budget
            replays = [replay(recorded, strategy, budget, seed) for seed in range(arguments.seeds)]
            summary = summarise(recorded, replays)
            half, most = summary.targets
            mean_ms = 1e3 * statistics.mean(s for r in replays for s in r.proposal_seconds)
            row = {
                "space": stem,
                "strategy": strategy,
                "median_to_95": half.median_evaluations,
                "reached_95": half.reached,
                "median_to_99": most.median_evaluations,
                "reached_99": most.reached,
                "invalid": summary.invalid,
                "repeated": summary.repeated,
                "mean_ms": mean_ms,
                "to_95_by_seed": [r.evaluations_to(0.95, recorded.best_ms) for r in replays],
            }
            rows.append(row)
            print({key: row[key] for key in row if key != "to_95_by_seed"}, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    if arguments.by_seed:
        write_by_seed(rows, arguments.by_seed)
    return int(any(missed_bars(rows)))


def write_by_seed(rows: list[dict], path: Path) -> None:
    """Write a row for each seed and a column for each search; empty where it did not get there."""
    searches = [f"{row['space']} {row['strategy']}" for row in rows]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["seed", *searches])
        by_seed = zip(*(row["to_95_by_seed"] for row in rows), strict=True)
        writer.writerows([seed, *evaluations] for seed, evaluations in enumerate(by_seed))


def missed_bars(rows: list[dict]) -> list[str]:
    """Print and return the bars that the portfolio misses."""
    missed = []
    random = {row["space"]: row["median_to_95"] for row in rows if row["strategy"] == "random"}
    for row in (row for row in rows if row["strategy"] == "portfolio"):
        median = row["median_to_95"] or float("inf")
        bars = {
            "evaluations to 95 %": median <= MOST_EVALUATIONS,
            "of random search": median <= MOST_OF_RANDOM * random[row["space"]],
            "invalid or repeated": row["invalid"] == row["repeated"] == 0,
            "time of a proposal": row["mean_ms"] <= MOST_MS,
        }
        missed += [f"{row['space']}: {bar}" for bar, passed in bars.items() if not passed]
    for bar in missed:
        print("missed:", bar)
    return missed


if __name__ == "__main__":
    sys.exit(main())
