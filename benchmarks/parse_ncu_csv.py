"""Time and memory of the parser of ncu's raw pages, against `pandas.read_csv` of the same file.

    python benchmarks/parse_ncu_csv.py [--launches 100000] [--repeats 7]

The file repeats the rows of a real capture with new ids and a range name of its own per launch, as
a run writes them. Each measurement is a process of its own, the two sides in turn. Memory is the
peak of the whole process (VmHWM), with the interpreter and pandas in it. Linux only.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests" / "recordings" / "ncu-2025.3.1" / "ncu_raw_onepass_60.csv.gz"
DURATION = "gpu__time_duration.sum"
TIME_BAR, MEMORY_BAR = 1.0, 1.5
RANGE_NAME = re.compile(rb"variant:[^:]*")


def main() -> int:
    """Run one side where one is named, or else compare both."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--launches", type=int, default=100_000)
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--side", choices=sorted(SIDES), help=argparse.SUPPRESS)
    arguments.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.file)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "launches.csv"
        with path.open("wb") as stream:
            stream.writelines(large_file(options.launches))
        print(f"{options.launches:,} launches, {path.stat().st_size / 1e6:.0f} MB")
        return compare(path, options.repeats)


def large_file(launches: int) -> Iterator[bytes]:
    """Lines of a raw page with that many launches."""
    lines = gzip.decompress(CAPTURE.read_bytes()).splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith(b'"0",'))
    yield from lines[:first]
    rows = [line for line in lines[first:] if line.startswith(b'"')]
    for number in range(launches):
        _, comma, rest = rows[number % len(rows)].partition(b",")
        name = b"cell=v%d..p%d;block=%d" % (number % 80, number % 5, number)
        yield b'"%d"' % number + comma + RANGE_NAME.sub(name, rest, count=1)


def with_parser(path: Path) -> tuple[int, float]:
    """Read with the parser of this project."""
    from profiler.parse.ncu_csv import read_ncu_csv  # noqa: PLC0415 - see SIDES

    start = perf_counter()
    launches = read_ncu_csv(path).launches
    seconds = perf_counter() - start
    assert launches[DURATION].notna().all()
    return len(launches), seconds


def with_pandas(path: Path) -> tuple[int, float]:
    """Read with pandas alone, which leaves units, separators and ranges to the caller."""
    import pandas as pd  # noqa: PLC0415 - see SIDES

    warnings.simplefilter("ignore", pd.errors.DtypeWarning)
    start = perf_counter()
    frame = pd.read_csv(path, skiprows=3)
    seconds = perf_counter() - start
    return len(frame) - 1, seconds  # the first row is that of the units


# A side imports what it measures itself: the memory of one must not hold the modules of the other.
SIDES: dict[str, Callable[[Path], tuple[int, float]]] = {
    "parser": with_parser,
    "pandas": with_pandas,
}


def measure(side: str, path: Path) -> dict[str, float]:
    """Launches, seconds and peak memory in MB of one side, in this process."""
    sys.path.insert(0, str(ROOT))
    launches, seconds = SIDES[side](path)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return {"launches": launches, "seconds": seconds, "megabytes": int(peak[1]) / 1024}


def compare(path: Path, repeats: int) -> int:
    """Measure both sides in turn and print their medians; 1 where a bar is missed."""
    results: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(repeats):
        for side, measured in results.items():
            command = [sys.executable, __file__, "--side", side, "--file", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured.append(json.loads(done.stdout))
    assert len({result["launches"] for measured in results.values() for result in measured}) == 1
    medians = {
        side: {key: statistics.median(r[key] for r in measured) for key in ("seconds", "megabytes")}
        for side, measured in results.items()
    }
    ratios = {key: medians["parser"][key] / medians["pandas"][key] for key in medians["parser"]}
    print("| | seconds | peak MB |\n|---|---|---|")
    for side, row in medians.items():
        print(f"| {side} | {row['seconds']:.2f} | {row['megabytes']:.0f} |")
    print(f"| ratio | {ratios['seconds']:.2f} | {ratios['megabytes']:.2f} |")
    return int(ratios["seconds"] > TIME_BAR or ratios["megabytes"] > MEMORY_BAR)


if __name__ == "__main__":
    sys.exit(main())
