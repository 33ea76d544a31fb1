"""Seconds and peak memory of inputs that grow in one way: names, depth, blocks, runs, attempts.

Run from the repository root: `python benchmarks/growth/growth.py [ROW …] [--keep FOLDER]`. Each
input is made once and read by the command line in a process of its own. Seconds are those of the
clock and of the processor: on a busy machine the first are an upper bound. The last column
says whether the bars of the row are met; the script exits 1 otherwise.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests" / "profiler")]

from large_inputs import launch_events  # noqa: E402

CAPTURES = ROOT / "tests" / "recordings" / "ncu-2025.3.1"
MEGABYTE = 10**6
WITHOUT_BAR = float("inf")
_MOST_MEMORY_BYTES = 20 * 2**30
"""Address space of a child: what grows without bounds ends, and leaves the machine alone."""
_MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Row:
    """An input that is made here, the arguments that read it, and its bars."""

    make: Callable[[Path], Path]
    arguments: Callable[[Path, Path], Sequence[str]]
    """Arguments of the command line, from the input and a folder for what it writes."""
    most_seconds: float = WITHOUT_BAR
    """Seconds of the processor, which other processes hardly change."""
    most_megabytes: float = WITHOUT_BAR
    most_times_input: float = WITHOUT_BAR
    """Peak memory beyond that of a small input, in sizes of the input."""
    most_page_megabytes: float = WITHOUT_BAR
    warm: bool = False
    """Whether the second of two runs counts."""


@dataclass(frozen=True)
class Took:
    """What one process took."""

    code: int
    seconds: float
    processor_seconds: float
    """Seconds of the process, and of the system for it."""
    peak_megabytes: float


def main() -> int:
    """Read each input, print the table, and return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--keep", type=Path, help="folder for the inputs, which are used again")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make is not None:
        print(ROWS[arguments.rows[0]].make(arguments.make))
        return 0
    print("| input | MB | seconds | of the processor | peak MB | page MB | |")
    print("|---|---|---|---|---|---|---|", flush=True)
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.rows or ROWS:
            place = (arguments.keep or Path(folder)) / name
            place.mkdir(parents=True, exist_ok=True)
            missed |= not measured(name, ROWS[name], place)
    return int(missed)


def measured(name: str, row: Row, place: Path) -> bool:
    """Read one input and print its row; whether every bar is met."""
    source = made(name, place)
    written = place / "written"
    written.mkdir(exist_ok=True)
    arguments = row.arguments(source, written)
    if row.warm:
        run(arguments, place / "output")
    took = run(arguments, place / "output")
    input_size = sum(file.stat().st_size for file in files_of(source)) / MEGABYTE
    pages = [file for folder in (written, source.parent) for file in folder.rglob("*.html")]
    page_size = max((file.stat().st_size for file in pages), default=0) / MEGABYTE
    good = (
        took.code in (0, 4)  # 4: a run that is not complete was reported
        and took.processor_seconds <= row.most_seconds
        and took.peak_megabytes <= row.most_megabytes
        and took.peak_megabytes - least_megabytes() <= row.most_times_input * input_size
        and page_size <= row.most_page_megabytes
    )
    print(
        f"| {name} | {input_size:.0f} | {took.seconds:.1f} | {took.processor_seconds:.1f} | "
        f"{took.peak_megabytes:.0f} | {page_size:.2f} | "
        f"{'good' if good else f'MISSED (exit {took.code})'} |",
        flush=True,
    )
    return good


def made(name: str, place: Path) -> Path:
    """The input of a row, made by a process of its own.

    The peak of a child begins with that of the process that starts it.
    """
    command = [sys.executable, __file__, name, "--make", str(place)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.splitlines()[-1])


@cache
def least_megabytes() -> float:
    """Peak memory of the import of a trace of one kernel: mostly modules."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = nested_trace(place, depth=1, launches=1)
        return run(_import(source, place), place / "output").peak_megabytes


def files_of(source: Path) -> Iterator[Path]:
    """The file itself, or all files of a folder but the pages."""
    if source.is_file():
        return iter([source])
    return (file for file in source.rglob("*") if file.is_file() and file.suffix != ".html")


def run(arguments: Sequence[str], output: Path) -> Took:
    """Run the command line in a process of its own; what it prints goes into a file."""
    limits = f"ulimit -v {_MOST_MEMORY_BYTES // 1024}; exec "
    command = " ".join([sys.executable, "-m", "profiler", *map(_quoted, arguments)])
    start = time.perf_counter()
    with output.open("wb") as stream:
        process = subprocess.Popen(
            ["bash", "-c", limits + "timeout " + f"{_MOST_SECONDS:.0f} " + command],
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    return Took(code, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MEGABYTE)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---- ncu -----------------------------------------------------------------------------------------


def ncu_names(place: Path, *, megabytes: int, metrics: int | None) -> Path:
    """A raw page of ncu whose kernels all have names of their own.

    `metrics`: of a real capture so many that differ between rows, all where it is None.
    """
    path = place / "names.csv"
    if path.exists():
        return path
    capture = gzip.decompress((CAPTURES / "ncu_raw_onepass_60.csv.gz").read_bytes()).decode()
    lines = capture[capture.index('"ID"') :].splitlines()
    header, units, *rows = list(csv.reader(lines))
    kernel = header.index("Kernel Name")
    kept = _kept_columns(header, metrics)
    with path.open("w", encoding="utf-8") as stream:
        for line in (header, units):
            stream.write(_csv_line([line[place] for place in kept]))
        for number, row in enumerate(cycle(row for row in rows if len(row) == len(header))):
            if stream.tell() >= megabytes * MEGABYTE:
                return path
            name = f"void gemm_{number}<float, {number % 7}>(const float *, float *, int)"
            named = {0: str(number), kernel: name}
            stream.write(_csv_line([named.get(place, row[place]) for place in kept]))
    return path


def _kept_columns(header: Sequence[str], metrics: int | None) -> list[int]:
    if metrics is None:
        return list(range(len(header)))
    first_metric = header.index("CC") + 1
    wanted = [place for place in range(first_metric, len(header)) if "__" in header[place]]
    differing = [p for p in wanted if not header[p].startswith(("device__", "c2clink__"))]
    duration = header.index("gpu__time_duration.sum")
    return [*range(first_metric), *sorted({duration, *differing[: metrics - 1]})]


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
    return line.getvalue()


# ---- timelines -----------------------------------------------------------------------------------


def nested_trace(place: Path, *, depth: int, launches: int, towers: int = 1) -> Path:
    """A trace of torch.profiler whose ranges lie in each other, with launches at each depth."""
    path = place / "trace.json"
    if path.exists():
        return path
    with path.open("w", encoding="utf-8") as stream:
        stream.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000,\n')
        stream.write('"traceEvents": [\n')
        number = 0
        for tower in range(towers):
            begin = 4439576510000.0 + tower * depth * (launches + 2) * 20
            for level in range(depth):
                at = begin + 20 * (launches + 1) * level
                end = begin + depth * (launches + 2) * 20 - 1 - level / 100
                for event in _level(level, at, end, number, launches):
                    stream.write(json.dumps(event) + ",\n")
                number += launches
        stream.write('{"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {}}]}\n')
    return path


def _level(
    level: int, at: float, end: float, number: int, launches: int
) -> Iterator[dict[str, object]]:
    """A range, and the operators, calls and kernels that are right inside it."""
    host = {"ph": "X", "pid": 4321, "tid": 4321}
    yield {
        **host,
        "cat": "user_annotation",
        "name": f"forward of layer {level}",
        "ts": at,
        "dur": round(end - at, 3),
    }
    for launch in range(launches):
        yield from launch_events(number + launch, at + 20 * (launch + 1), 10.5, {})


# ---- runs ----------------------------------------------------------------------------------------

BLOCKS_SPEC = """\
name: blocks
workload: ./workload.py
variants: {list: [VARIANTS]}
problems: {list: [small]}
collect: {blocks: BLOCKS, final_blocks: 0, metrics: [duration_ns], explain: false}
"""
ATTEMPTS_SPEC = """\
name: attempts
workload: ./workload.py
variants: {list: [plain, tree, loop, scan]}
problems: {list: [small, large]}
collect: {blocks: ATTEMPTS, final_blocks: 0, metrics: [duration_ns], explain: false}
"""


def run_of_blocks(place: Path, *, blocks: int, variants: int) -> Path:
    """A run folder whose cells were measured in so many blocks, by as many processes of ncu."""
    from run_folders import Workplace  # noqa: PLC0415 - imports pandas

    from profiler.run_folder.folder import AttemptResult, finish_attempt  # noqa: PLC0415
    from profiler.sessions.recovery import MAX_VISITS_PER_SESSION  # noqa: PLC0415

    existing = list(place.glob("run/reports/blocks/*/run.json"))
    if existing:
        return existing[0].parent
    names = ", ".join(("plain", "tree", "loop")[:variants])
    spec = BLOCKS_SPEC.replace("VARIANTS", names).replace("BLOCKS", str(blocks))
    workplace = Workplace(place / "run", spec)
    for session in workplace.plan.sessions:
        visits = workplace.visits(session.name)
        for first in range(0, len(visits), MAX_VISITS_PER_SESSION):
            some = visits[first : first + MAX_VISITS_PER_SESSION]
            folder = workplace.attempt(session.name, visits=some, result=None)
            finish_attempt(folder, AttemptResult("finished", 1.0))
    return workplace.run.path


def run_of_attempts(place: Path, *, attempts: int) -> Path:
    """A run folder that was stopped after each block and went on as often."""
    from run_folders import Workplace  # noqa: PLC0415 - imports pandas

    existing = list(place.glob("run/reports/attempts/*/run.json"))
    if existing:
        return existing[0].parent
    workplace = Workplace(place / "run", ATTEMPTS_SPEC.replace("ATTEMPTS", str(attempts)))
    (name,) = (session.name for session in workplace.plan.sessions)
    by_block: dict[int, list[tuple[str, int, int]]] = {}
    for visit in workplace.visits(name):
        by_block.setdefault(visit[1], []).append(visit)
    for visits in by_block.values():
        workplace.attempt(name, visits=visits)
    return workplace.run.path


def folder_of_runs(place: Path, *, runs: int) -> Path:
    """A folder of runs: copies of what one run leaves, of twenty experiments."""
    from run_folders import Workplace  # noqa: PLC0415 - imports pandas

    out = place / "reports"
    if out.exists():
        return out
    workplace = Workplace(
        place / "one", BLOCKS_SPEC.replace("VARIANTS", "plain, tree, loop").replace("BLOCKS", "20")
    )
    workplace.measure_all()
    source = workplace.run.path
    run(["report", str(source)], place / "output")
    record = json.loads((source / "run.json").read_text("utf-8"))
    summary = json.loads((source / "summary.json").read_text("utf-8"))
    for number in range(runs):
        experiment = f"kernels_{number % 20}"
        minutes, hours = number % 60, number // 60 % 24
        day, month = number // 1440 % 28 + 1, number // 40320 % 12 + 1
        created = f"2026-{month:02}-{day:02}T{hours:02}:{minutes:02}:00+00:00"
        named = {"experiment": experiment, "created": created}
        folder = out / experiment / f"2026-{month:02}-{day:02}T{hours:02}-{minutes:02}-00"
        folder.mkdir(parents=True)
        for name, content in (("run.json", record), ("summary.json", summary)):
            changed = content | named | ({"number": number // 20 + 1} if name == "run.json" else {})
            (folder / name).write_text(json.dumps(changed), encoding="utf-8")
    return out


def _import(source: Path, written: Path) -> list[str]:
    return ["import", str(source), "--out", str(written / "page.html")]


def _report(source: Path, _: Path) -> list[str]:
    return ["report", str(source)]


def _list(source: Path, _: Path) -> list[str]:
    return ["list", "--out", str(source)]


ROWS = {
    "names-12": Row(partial(ncu_names, megabytes=12, metrics=None), _import, most_page_megabytes=5),
    "names": Row(
        partial(ncu_names, megabytes=200, metrics=None),
        _import,
        most_seconds=30,
        most_megabytes=1500,
        most_page_megabytes=5,
    ),
    "short-rows": Row(
        partial(ncu_names, megabytes=200, metrics=4),
        _import,
        most_seconds=30,
        most_megabytes=1500,
        most_page_megabytes=5,
    ),
    "depth-5000": Row(
        partial(nested_trace, depth=5000, launches=3),
        _import,
        most_times_input=5,
    ),
    "depth-20000": Row(
        partial(nested_trace, depth=20000, launches=3),
        _import,
        most_times_input=5,
    ),
    "blocks-1000": Row(partial(run_of_blocks, blocks=1000, variants=3), _report),
    "blocks-10000": Row(partial(run_of_blocks, blocks=10_000, variants=3), _report),
    "blocks-25000": Row(partial(run_of_blocks, blocks=25_000, variants=3), _report),
    "blocks-250000": Row(partial(run_of_blocks, blocks=250_000, variants=3), _report),
    "blocks-1000000": Row(partial(run_of_blocks, blocks=1_000_000, variants=1), _report),
    "runs": Row(partial(folder_of_runs, runs=20_000), _list, most_seconds=2, warm=True),
    "attempts": Row(partial(run_of_attempts, attempts=1600), _report, most_seconds=4),
}


if __name__ == "__main__":
    sys.exit(main())
