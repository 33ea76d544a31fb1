"""Time and peak memory of a report of 5,000 cells and of imports of 200 MB, and their pages' size.

Run from the repository root: `python benchmarks/large_inputs.py [NAME …] [--keep FOLDER]`. Each
input is made once, and read by the command line in a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "profiler"
sys.path[:0] = [str(ROOT), str(TESTS)]

VARIANTS, PROBLEMS, BLOCKS = 100, 50, 8
SPEC = """\
name: large
workload: ./workload.py
variants: {matrix: {tile: [TILES]}}
problems: {matrix: {size: [SIZES]}}
baseline: tile=0
collect: {blocks: BLOCKS, final_blocks: 0, metrics: [duration_ns, cycles, registers, l2_hit_pct]}
"""
MEGABYTE = 10**6


@dataclass(frozen=True)
class Input:
    """An input that is made here, the command that reads it, and its bars."""

    make: Callable[[Path], Path]
    command: str
    most_seconds: float
    most_megabytes: float
    """Peak memory of the process."""
    most_page_megabytes: float = float("inf")


def main() -> int:
    """Read each input once, print what it took, and return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(INPUTS))
    parser.add_argument("--keep", type=Path, help="folder for the inputs, which are used again")
    arguments = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or INPUTS:
            place = (arguments.keep or Path(folder)) / name
            place.mkdir(parents=True, exist_ok=True)
            missed |= not measured(name, INPUTS[name], place)
    return int(missed)


def measured(name: str, large: Input, place: Path) -> bool:
    """Read one input and print what it took; whether every bar is met."""
    source = large.make(place)
    page = place / "page"
    page.mkdir(exist_ok=True)
    arguments = {
        "report": ["report", str(source), "--out", str(page)],
        "import": ["import", str(source), "--out", str(page / "index.html")],
    }[large.command]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--child", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
    )
    seconds = time.perf_counter() - start
    peak, processor_seconds = map(float, done.stdout.split()[-2:])
    pages = source.rglob("index.html") if large.command == "report" else page.rglob("*.html")
    page_size = max((file.stat().st_size for file in pages), default=0) / MEGABYTE
    good = done.returncode == 0 and (
        seconds <= large.most_seconds
        and peak <= large.most_megabytes
        and page_size <= large.most_page_megabytes
    )
    input_size = sum(file.stat().st_size for file in files_of(source)) / MEGABYTE
    print(
        f"{name}: {input_size:.0f} MB read in {seconds:.1f} s ({processor_seconds:.1f} s of the "
        f"processor), peak {peak:.0f} MB, "
        f"page {page_size:.2f} MB: {'good' if good else 'MISSED'}"
    )
    return good


def files_of(source: Path) -> Iterator[Path]:
    """The file itself, or all files of a folder."""
    return iter([source]) if source.is_file() else source.rglob("raw/*/*")


def child(arguments: list[str]) -> int:
    """Run the command line in this process; the last line is its peak in MB, and its seconds."""
    from profiler.__main__ import main as command_line  # noqa: PLC0415 - a process of its own

    sys.argv = ["profiler", *arguments]
    code: object = 0
    try:
        command_line()
    except SystemExit as left:
        code = left.code
    print(_peak_mb(), time.process_time())
    return code if isinstance(code, int) else 1


def _peak_mb() -> float:
    """Peak of this process's memory; getrusage would count that of its parent, before exec."""
    status = Path("/proc/self/status").read_text("utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


# ---- a run of 5,000 cells ------------------------------------------------------------------------


def run_of_many_cells(place: Path) -> Path:
    """A run folder: each cell measured in eight blocks under ncu, and its counters once."""
    from run_folders import Workplace  # noqa: PLC0415

    existing = list(place.glob("run/reports/large/*"))
    if existing:
        return existing[0]
    tiles, sizes = (", ".join(map(str, range(count))) for count in (VARIANTS, PROBLEMS))
    spec = SPEC.replace("TILES", tiles).replace("SIZES", sizes).replace("BLOCKS", str(BLOCKS))
    workplace = Workplace(place / "run", spec)
    workplace.measure_all()
    return workplace.run.path


# ---- files to import -----------------------------------------------------------------------------


def ncu_table(place: Path) -> Path:
    """A raw page of ncu of 200 MB: the rows of a real capture, with ids of their own."""
    path = place / "launches.csv"
    if path.exists():
        return path
    capture = ROOT / "tests/recordings/ncu-2025.3.1/ncu_raw_onepass_60.csv.gz"
    lines = gzip.decompress(capture.read_bytes()).decode().splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    rows = [line.partition(",")[2] for line in lines[start + 2 :] if line.startswith('"')]
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(lines[start : start + 2])
        number = 0
        while stream.tell() < 200 * MEGABYTE:
            stream.writelines(f'"{number + i}",{row}' for i, row in enumerate(rows))
            number += len(rows)
    return path


def torch_trace(place: Path) -> Path:
    """A trace of torch.profiler of 200 MB: operators, calls and kernels, one after the other."""
    path = place / "trace.json"
    if path.exists():
        return path
    source = random.Random(1)  # noqa: S311
    with path.open("w", encoding="utf-8") as stream:
        stream.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000,\n')
        stream.write('"traceEvents": [\n')
        number = 0
        while stream.tell() < 200 * MEGABYTE:
            stream.writelines(json.dumps(event) + ",\n" for event in launch(number, source))
            number += 1
        stream.write('{"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {}}]}\n')
    return path


def launch(number: int, source: random.Random) -> Iterator[dict[str, object]]:
    """Events of one operator that launches one kernel."""
    at = 4439576510000.0 + 20 * number
    host = {"ph": "X", "pid": 4321, "tid": 4321}
    if number % 100 == 0:
        name = f"step_{number // 100}"
        yield {**host, "cat": "user_annotation", "name": name, "ts": at, "dur": 1990.0}
    more = {"queued": 0, "blocks per SM": 1.5, "warps per SM": 12.0}
    yield from launch_events(number, at, 10 + source.random(), more)


def launch_events(
    number: int, at: float, kernel_us: float, more: dict[str, object]
) -> Iterator[dict[str, object]]:
    """An operator, its call and the kernel that it launches; `more`: facts of the kernel."""
    host = {"ph": "X", "pid": 4321, "tid": 4321}
    facts = {"External id": number, "Ev Idx": number, "Sequence number": number, "Fwd thread id": 0}
    shapes = {"Input Dims": [[64, 1024], [1024, 1024]], "Input type": ["c10::Half", "c10::Half"]}
    yield {
        **host,
        "cat": "cpu_op",
        "name": "aten::mm",
        "ts": at,
        "dur": 12.5,
        "args": facts | shapes,
    }
    call = {"External id": number, "cbid": 211, "correlation": number + 1}
    yield {
        **host,
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "ts": at + 2,
        "dur": 4.25,
        "args": call,
    }
    yield {
        "ph": "X",
        "cat": "kernel",
        "pid": 0,
        "tid": 7,
        "ts": at + 8,
        "dur": kernel_us,
        "name": f"void gemm_kernel<{number % 7}, float>(float const*, float*, int)",
        "args": {
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": number + 1,
            "registers per thread": 128,
            "shared memory": 49152,
            "grid": [64, 8, 1],
            "block": [128, 1, 1],
            **more,
        },
    }


INPUTS = {
    "report": Input(run_of_many_cells, "report", 15, 500, 6),
    "ncu": Input(ncu_table, "import", 25, 1000, 6),
    "trace": Input(torch_trace, "import", 25, 1000, 6),
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2:]))
    sys.exit(main())
