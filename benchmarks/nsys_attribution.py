"""Time and memory of reading and attributing a large SQLite export of Nsight Systems.

    python benchmarks/nsys_attribution.py [--kernels 1000000] [--ranges 1000000] [--repeats 3]

The export is made here: training steps of a forward and a backward pass, each of layers and each
layer of operators, as nested push/pop ranges on the main thread; a quarter of the kernels is
launched by a second thread that has no range of its own, one in a hundred ranges is a start/end
range, every third name a registered string. Each measurement is a process of its own; memory is its
peak (VmHWM), with the interpreter and pandas in it. Linux only.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
SECONDS_BAR, MEGABYTES_BAR = 20.0, 2000.0
PROCESS = 0x1000001 << 24
MAIN, BACKWARD = PROCESS + 1, PROCESS + 2
TICK_NS = 1000
RANGES_PER_STEP = 91  # step, two passes, 8 layers each, 9 operators in each layer
NAMES = 500
STAGES = ("read", "attribute", "tree", "gaps")

# As nsys 2025.3 declares them, where a ? may be NULL; reading a column that cannot be is faster.
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId streamId correlationId? globalPid? "
    "demangledName shortName registersPerThread gridX gridY gridZ blockX blockY blockZ "
    "staticSharedMemory dynamicSharedMemory graphNodeId?",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid? correlationId? nameId "
    "returnValue",
    "NVTX_EVENTS": "start end? eventType text? textId? color? globalTid? endGlobalTid? domainId?",
}

Row = tuple[int | str | None, ...]


def main() -> int:
    """Measure in this process where a file is named, or else make one and measure it repeatedly."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--kernels", type=int, default=1_000_000)
    arguments.add_argument("--ranges", type=int, default=1_000_000)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--stages", type=int, default=len(STAGES), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.file:
        print(json.dumps(measure(options.file, options.stages)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.sqlite"
        write_export(path, options.kernels, options.ranges)
        size = path.stat().st_size / 1e6
        print(f"{options.kernels:,} kernels, {options.ranges:,} ranges, {size:.0f} MB")
        return report(path, options.repeats)


# ---- the synthetic export ------------------------------------------------------------------------


def write_export(path: Path, kernels: int, ranges: int) -> None:
    """Write an export with that many kernels, launches and ranges."""
    connection = sqlite3.connect(path)
    create_tables(connection)
    strings = [(i, f"kernel_{i}") for i in range(NAMES)]
    strings += [(NAMES + i, f"registered_{i}") for i in range(NAMES)]
    strings += [(2 * NAMES, "cudaLaunchKernel_v7000")]
    insert(connection, "StringIds", iter(strings))
    insert(connection, "NVTX_EVENTS", range_rows(ranges))
    last = (ranges // RANGES_PER_STEP + 1) * step_ns()
    insert(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", launch_rows(kernels, last))
    insert(connection, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_rows(kernels, last))
    connection.commit()
    connection.close()


def create_tables(connection: sqlite3.Connection) -> None:
    """Empty tables, but for what says that this is an export of nsys."""
    connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    product = ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")
    connection.execute("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", product)
    connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
    for table, columns in COLUMNS.items():
        declared = (
            f'"{column.rstrip("?")}" {"TEXT" if column == "text?" else "INTEGER"}'
            f"{'' if column.endswith('?') else ' NOT NULL'}"
            for column in columns.split()
        )
        connection.execute(f"CREATE TABLE {table} ({', '.join(declared)})")


def insert(connection: sqlite3.Connection, table: str, rows: Iterator[Row]) -> None:
    """Insert rows into a table."""
    first = next(rows)
    query = f"INSERT INTO {table} VALUES ({','.join('?' * len(first))})"  # noqa: S608 - our own
    connection.execute(query, first)
    connection.executemany(query, rows)


def step_ns() -> int:
    """Time of one step: every operator range lasts 8 ticks, what is around it a little longer."""
    return 2000 * TICK_NS


def range_rows(count: int) -> Iterator[Row]:
    """Rows of NVTX_EVENTS, whole steps first to last."""
    for number in range(count):
        step, place = divmod(number, RANGES_PER_STEP)
        begin, end = (step * step_ns() + t * TICK_NS for t in place_in_step(place))
        text, registered = f"range_{place}_{step % 1000}", None
        if number % 3 == 0:
            text, registered = None, NAMES + number % NAMES
        kind = 60 if number % 100 == 99 else 59
        other = MAIN if kind == 60 else None
        yield (begin, end, kind, text, registered, None, MAIN, other, 0)


def place_in_step(place: int) -> tuple[int, int]:
    """First and last tick of the range at a place in its step: step, passes, layers, operators."""
    if place == 0:
        return 0, 1990
    if place <= 2:
        return 5 + (place - 1) * 990, (place - 1) * 990 + 985
    layer, operator = divmod(place - 3, 11)
    begin = 10 + (layer // 4) * 990 + (layer % 4) * 240
    if operator == 0:
        return begin, begin + 230
    return begin + operator * 20 - 15, begin + operator * 20


def launch_rows(count: int, last: int) -> Iterator[Row]:
    """Rows of CUPTI_ACTIVITY_KIND_RUNTIME: launches spread evenly over the time."""
    for number in range(count):
        begin = number * last // count
        thread = BACKWARD if number % 4 == 3 else MAIN
        yield (begin, begin + 300, 0, thread, number + 1, 2 * NAMES, 0)


def kernel_rows(count: int, last: int) -> Iterator[Row]:
    """Rows of CUPTI_ACTIVITY_KIND_KERNEL: each 2 us after its launch, on one of three streams."""
    apart = last // count
    for number in range(count):
        begin = number * last // count + 2 * TICK_NS
        name = number * 7919 % NAMES
        yield (
            *(begin, begin + apart * 4 // 5, 0, 1, 7 + number % 3, number + 1, PROCESS),
            *(name, name, 32, 1024, 1, 1, 256, 1, 1, 0, 0, None),
        )


# ---- the measurement -----------------------------------------------------------------------------


def measure(path: Path, stages: int) -> dict[str, float]:
    """Seconds of the first stages and peak memory in MB, in this process."""
    sys.path.insert(0, str(ROOT))
    from profiler.analyse import timeline as analyse  # noqa: PLC0415 - memory counts from here
    from profiler.parse.nsys import read_nsys  # noqa: PLC0415
    from profiler.parse.nsys_attribution import attribute  # noqa: PLC0415

    times = [perf_counter()]
    timeline = read_nsys(path)
    times.append(perf_counter())
    attribution = attribute(timeline)
    times.append(perf_counter())
    operations = attribution.operations
    assert (operations["stack"] >= 0).mean() > 0.9, "most kernels lie in a range"
    assert operations["by_time"].any()
    if stages > 2:
        tree = analyse.range_tree(operations, attribution.ranges, attribution.stacks)
        times.append(perf_counter())
        gaps = analyse.idle_gaps(operations, attribution.stacks)
        times.append(perf_counter())
        assert len(tree)
        assert len(gaps)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    spans = {name: b - a for name, a, b in zip(STAGES, times, times[1:], strict=False)}
    return {**spans, "megabytes": int(peak[1]) / 1024}


def report(path: Path, repeats: int) -> int:
    """Print medians of attribution alone and with the analysis; 1 where a bar is missed."""
    missed = False
    for stages in (2, len(STAGES)):
        command = [sys.executable, __file__, "--file", str(path), "--stages", str(stages)]
        results: list[dict[str, float]] = []
        for _ in range(repeats):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            results.append(json.loads(done.stdout))
        medians = {key: statistics.median(result[key] for result in results) for key in results[0]}
        spans = ", ".join(f"{name} {medians[name]:.2f} s" for name in STAGES[:stages])
        print(f"{spans}; peak {medians['megabytes']:.0f} MB")
        if stages == 2:
            total = medians["read"] + medians["attribute"]
            print(f"read and attributed: {total:.2f} s (bar {SECONDS_BAR:.0f} s)")
            missed = total > SECONDS_BAR or medians["megabytes"] > MEGABYTES_BAR
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
