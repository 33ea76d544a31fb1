"""How long small runs take, side by side with the tools that they wrap; needs a GPU and ncu.

    python benchmarks/speed/speed.py [--project FOLDER] [--repeats N] [--alone] [--json FILE]

Cases: 20 cells of softmax (two kernels at ten shapes) with five metrics and at least six timing
samples, and 2 cells; each as a run of this project (page included, `--no-explain`, into an empty
folder), the same by CUPTI (`--fast`), as bare ncu with three samples of each cell, and by
nsight-python with three runs, where it can be imported. 100 cells with eight blocks beside
nsight-python with eight runs, on 4 and on 20 of the cells: the line through both says what 100
take. They take turns, `--repeats` times; the table has the medians. Before, each runs once on 2
cells, which is not counted: files are read then. `--project` is another checkout of this project to
measure in place of this one. Of each run of this project it prints when each session's process
began, had torch, had the workload, was let through, had its context and its visits, made its last
launch, in seconds since the command began.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(PROJECT))

from profiler.collect.ncu import find_ncu  # noqa: E402 - this checkout's

METRICS = ("duration_ns", "cycles", "l2_hit_pct", "registers", "dram_read_bytes")
NCU_METRICS = (
    *("gpu__time_duration.sum", "sm__cycles_elapsed.max", "lts__t_sector_hit_rate.pct"),
    *("launch__registers_per_thread", "dram__bytes_read.sum"),
)
"""The same, as somebody asks ncu for them."""
VARIANTS = ("half", "float")
SHAPES = tuple(
    (rows, columns) for rows in (1024, 4096) for columns in (512, 1024, 2048, 4096, 8192)
)
MANY_SHAPES = tuple(
    (rows, columns)
    for rows in (1024, 2048, 4096, 8192, 16384)
    for columns in (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
)
SAMPLES = 3
"""Samples of each cell that bare ncu and nsight-python take."""
LIMIT_S = 300


@dataclass(frozen=True)
class Case:
    """Cells to measure."""

    name: str
    shapes: tuple[tuple[int, int], ...]
    collect: dict[str, object]
    bars: dict[tuple[str, str], float]
    """Most that a way may take of the time of another."""
    samples: int = SAMPLES
    """Samples of each cell that the other tools take."""
    shares: tuple[int, int] | None = None
    """Numbers of cells that nsight-python measures where all would take too long."""

    @property
    def cells(self) -> list[tuple[str, int, int]]:
        """Variant and shape of each cell."""
        return [(variant, *shape) for shape in self.shapes for variant in VARIANTS]


OURS, FAST, BARE, NSIGHT = WAYS = ("by ncu", "by CUPTI", "bare ncu", "nsight-python")
CASES = (
    Case(
        "20 cells",
        SHAPES,
        {"blocks": 6, "final_blocks": 6},
        {(OURS, BARE): 0.75, (OURS, NSIGHT): 0.5, (FAST, BARE): 0.5, (FAST, NSIGHT): 0.3},
    ),
    Case(
        "2 cells",
        ((4096, 4096),),
        {"blocks": 8, "final_blocks": 0},
        {(OURS, BARE): 1.2, (FAST, BARE): 0.8},
    ),
    Case(
        "100 cells",
        MANY_SHAPES,
        {"blocks": 8},
        {(OURS, NSIGHT): 0.22, (FAST, NSIGHT): 0.1},
        samples=8,
        shares=(4, 20),
    ),
)


def spec(case: Case) -> str:
    """Experiment file of a case; JSON is YAML."""
    problems = [{"params": {"rows": rows, "columns": columns}} for rows, columns in case.shapes]
    return json.dumps(
        {
            "name": "speed",
            "workload": str(HERE / "torch_softmax.py"),
            "variants": {"list": [{"name": v, "params": {"result": v}} for v in VARIANTS]},
            "problems": {"list": problems},
            "baseline": VARIANTS[0],
            "collect": {**case.collect, "metrics": list(METRICS)},
        }
    )


def timed(argv: list[str], folder: Path, limit_s: float = LIMIT_S, **environment: str) -> float:
    """Seconds of a command; what it printed stands in `folder`."""
    began = time.monotonic()
    with (folder / "printed.txt").open("w") as printed:
        subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            timeout=limit_s,
            check=True,
        )
    return time.monotonic() - began


def python_path(project: Path) -> str:
    """PYTHONPATH by which a checkout of this project is imported."""
    return os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH"))))


def by_cupti(case: Case, folder: Path, options: argparse.Namespace) -> float:
    """Seconds of a run of this project without ncu, from an empty folder."""
    return ours(case, folder, options, "--fast")


def ours(case: Case, folder: Path, options: argparse.Namespace, *flags: str) -> float:
    """Seconds of a run of this project, from an empty folder."""
    (folder / "speed.yaml").write_text(spec(case))
    began, epoch = time.monotonic(), time.time()
    argv = [sys.executable, "-m", "profiler", "run", "speed.yaml", "--live", "--no-explain"]
    path = python_path(options.project)
    seconds = timed([*argv, *flags, "--out", "reports"], folder, PYTHONPATH=path)
    print(f"\n{case.name}, {' '.join(('this project', *flags))}: {seconds:.1f} s")
    print((folder / "printed.txt").read_text().splitlines()[-1])
    for line in stamp_lines(folder, began, epoch):
        print(line)
    return seconds


def bare_ncu(case: Case, folder: Path, _options: argparse.Namespace) -> float:
    """Seconds of ncu alone: the same cells and metrics, three samples, caches flushed."""
    argv = [
        *(str(find_ncu()), "--metrics", ",".join(NCU_METRICS), "--clock-control", "none"),
        *("--nvtx", "--nvtx-include", "cell/", "--csv", "--page", "raw"),
        *("--log-file", "rows.csv", "-f", "-o", "report"),
        *(sys.executable, str(HERE / "bare.py"), "ncu", str(cells_file(case, case.cells, folder))),
    ]
    seconds = timed(argv, folder)
    rows = (folder / "rows.csv").read_text().casefold().count("softmax")
    if rows < case.samples * len(case.cells):
        raise SystemExit(f"bare ncu measured {rows} launches of {case.samples * len(case.cells)}")
    return seconds


def nsight_python(case: Case, folder: Path, _options: argparse.Namespace) -> float:
    """Seconds of nsight-python; of all cells by the line through two shares where it has shares."""

    def seconds_of(cells: list[tuple[str, int, int]]) -> float:
        argv = [sys.executable, str(HERE / "bare.py"), "nsight"]
        seconds = timed([*argv, str(cells_file(case, cells, folder))], folder)
        print(f"{case.name}, nsight-python: {len(cells)} cells in {seconds:.1f} s")
        return seconds

    if case.shares is None:
        return seconds_of(case.cells)
    few, more = case.shares
    few_s, more_s = seconds_of(case.cells[:few]), seconds_of(case.cells[:more])
    return more_s + (len(case.cells) - more) * (more_s - few_s) / (more - few)


def cells_file(case: Case, cells: list[tuple[str, int, int]], folder: Path) -> Path:
    """File that says to `bare.py` what to launch."""
    path = folder / "cells.json"
    document = {"cells": cells, "metrics": NCU_METRICS, "samples": case.samples}
    path.write_text(json.dumps(document))
    return path


# ---- where the seconds go ------------------------------------------------------------------------


def stamp_lines(folder: Path, began: float, epoch: float) -> Iterator[str]:
    """One line for each session: its steps, in seconds since the command began."""
    sessions = []
    for journal in folder.glob("reports/speed/*/raw/*/journal.jsonl*"):
        text = gzip.decompress(journal.read_bytes()) if journal.suffix == ".gz" else None
        lines = (text.decode() if text else journal.read_text()).splitlines()
        records = [json.loads(line) for line in lines]
        sessions.append((journal.parent.name, records))
    for name, records in sorted(sessions, key=lambda session: session[1][0]["time"]):
        first, last = records[0], records[-1]
        steps = {step: at - began for step, at in first.get("stamps", {}).items()}
        steps |= {"started": first["time"] - epoch, "last launch": last["time"] - epoch}
        words = "  ".join(f"{step} {at:6.2f}" for step, at in steps.items())
        yield f"  {name:22} {words}  process {result_seconds(folder, name)}"


def result_seconds(folder: Path, name: str) -> str:
    """Seconds from the turn of a session to the end of its process."""
    (path,) = folder.glob(f"reports/speed/*/raw/{name}/result.json")
    return f"{json.loads(path.read_text())['seconds']:.2f} s"


# ---- the table -----------------------------------------------------------------------------------

Way = Callable[[Case, Path, argparse.Namespace], float]


def measure(
    case: Case, ways: dict[str, Way], options: argparse.Namespace
) -> dict[str, list[float]]:
    """Seconds of each way, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, way in ways.items():
            with tempfile.TemporaryDirectory(prefix="speed.") as folder:
                try:
                    seconds[name].append(way(case, Path(folder), options))
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                    print(f"{name}: {error}\n{(Path(folder) / 'printed.txt').read_text()[-3000:]}")
    return seconds


def warm_up(ways: dict[str, Way], options: argparse.Namespace) -> None:
    """Run each way once on two cells: who comes first on a machine pays for files not read yet."""
    (two,) = (case for case in CASES if case.name == "2 cells")
    print("Warming up, not counted:")
    measure(two, ways, argparse.Namespace(**{**vars(options), "repeats": 1}))


def row(case: Case, seconds: dict[str, list[float]]) -> dict[str, object]:
    """Medians of a case, and the ratios with their bars."""
    medians = {name: statistics.median(values) for name, values in seconds.items() if values}
    result: dict[str, object] = {"case": case.name, "seconds": medians, "all": seconds}
    result["ratios"] = [
        {"way": way, "against": other, "ratio": medians[way] / medians[other], "bar": bar}
        for (way, other), bar in case.bars.items()
        if way in medians and other in medians
    ]
    return result


def wanted(case: Case, ways: dict[str, Way]) -> dict[str, Way]:
    """The ways that a case compares."""
    compared = {OURS, FAST, *(other for _, other in case.bars)}
    return {name: way for name, way in ways.items() if name in compared}


def print_table(rows: list[dict[str, object]]) -> None:
    """The table of the README."""
    columns = ("case", *(f"{name}, s" for name in WAYS), "ratios (bars)")
    print(f"\n| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|")
    for line in rows:
        medians = line["seconds"]
        cells = [f"{medians[name]:.1f}" if name in medians else "-" for name in WAYS]
        ratios = ", ".join(
            f"{ratio['way']} ÷ {ratio['against']} {ratio['ratio']:.2f} ({ratio['bar']})"
            for ratio in line["ratios"]
        )
        print(f"| {line['case']} | {' | '.join(cells)} | {ratios} |")


def main() -> int:
    """Measure, print the table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=PROJECT)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--alone", action="store_true", help="this project only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.project = options.project.resolve()
    ways: dict[str, Way] = {OURS: ours, FAST: by_cupti}
    if not options.alone:
        ways[BARE] = bare_ncu
        if importlib.util.find_spec("nsight") is not None:
            ways[NSIGHT] = nsight_python
    cases = [case for case in CASES if options.only is None or case.name in options.only]
    warm_up(ways, options)
    rows = [row(case, measure(case, wanted(case, ways), options)) for case in cases]
    print_table(rows)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    missed = (ratio["ratio"] > ratio["bar"] for line in rows for ratio in line["ratios"])
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
