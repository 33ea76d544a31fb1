"""What options of ncu would save; needs a GPU, ncu, nvcc.

    python benchmarks/speed/ncu_options.py

Each row is a process of `ncu_options.cu` under ncu, after one that is not counted: milliseconds
of a launch that nothing marks, of one of a small kernel (256 KB), one that fits in L2 (32 MB) and a
large one (256 MB) in a range, and of 20 small ones in one range. The options are those that could
make a launch cheaper than what the profiler asks for, which is the first row.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))

from profiler.collect.ncu import find_ncu  # noqa: E402 - this checkout's
from profiler.metrics.queries import ncu_names  # noqa: E402

DURATION = ("gpu__time_duration.sum",)
COUNTED = (*DURATION, *ncu_names(["dram_read_bytes", "l2_hit_sectors", "instructions"], "9.0"))
"""Counters of three units, in one pass."""
REPLAYED = (*DURATION, *ncu_names(["l2_bytes", "l2_hit_sectors"], "9.0"))
"""These do not share a pass: ncu saves memory, and restores it before each pass but the first."""
IN_RANGE = ("--nvtx", "--nvtx-include", "regex:cell.*/")
ALL_CACHES = ("--cache-control", "all")
NO_CACHES = ("--cache-control", "none")
TIMES = ("outside", "small", "middle", "large", "range_of_20")


@dataclass(frozen=True)
class Try:
    """One process: options of ncu, metrics, arguments of the program."""

    name: str
    options: tuple[str, ...]
    metrics: tuple[str, ...] = DURATION
    arguments: tuple[str, ...] = ()


TRIES = (
    Try("as it is asked for", (*IN_RANGE, *ALL_CACHES)),
    Try("kernels by name, too", (*IN_RANGE, *ALL_CACHES, "--kernel-name", "regex:twice")),
    Try(
        "a name that none has, no ranges",
        (*ALL_CACHES, "--kernel-name", "regex:nobody"),
    ),
    Try("caches left alone", (*IN_RANGE, *NO_CACHES)),
    Try("caches left alone, a memset before", (*IN_RANGE, *NO_CACHES), arguments=("write",)),
    Try("caches left alone, as much read before", (*IN_RANGE, *NO_CACHES), arguments=("read",)),
    Try("counters of three units", (*IN_RANGE, *ALL_CACHES), COUNTED),
    Try("replayed", (*IN_RANGE, *ALL_CACHES), REPLAYED),
    Try("replayed, 32 GiB more allocated", (*IN_RANGE, *ALL_CACHES), REPLAYED, ("32",)),
    Try("20 kernels of a range", (*IN_RANGE, *ALL_CACHES), arguments=("ranges",)),
    Try(
        "20 kernels of a range, as one",
        (*IN_RANGE, *ALL_CACHES, "--replay-mode", "range"),
        arguments=("ranges",),
    ),
    Try(
        "20 kernels of a range, counters of three units",
        (*IN_RANGE, *ALL_CACHES),
        COUNTED,
        ("ranges",),
    ),
    Try(
        "the same, as one",
        (*IN_RANGE, *ALL_CACHES, "--replay-mode", "range"),
        COUNTED,
        ("ranges",),
    ),
    Try("20 kernels of a range, replayed", (*IN_RANGE, *ALL_CACHES), REPLAYED, ("ranges",)),
    Try(
        "20 kernels of a range, replayed as one",
        (*IN_RANGE, *ALL_CACHES, "--replay-mode", "range"),
        REPLAYED,
        ("ranges",),
    ),
)


def compiled(folder: Path) -> Path:
    """The program, compiled for this GPU."""
    program = folder / "ncu_options"
    source = HERE.with_suffix(".cu")
    subprocess.run(["nvcc", "-O2", "-arch=native", "-o", program, source], check=True)
    return program


def milliseconds(attempt: Try, program: Path, folder: Path) -> Mapping[str, float]:
    """Median milliseconds of each kind of launch."""
    argv = [
        *(str(find_ncu()), "--config-file", "off", "--clock-control", "none", *attempt.options),
        *("--metrics", ",".join(attempt.metrics), "--section-folder", str(folder)),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", str(folder / "rows.csv")),
        *("-f", "-o", str(folder / "report"), str(program), *attempt.arguments),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    lines = (line.split() for line in done.stdout.splitlines())
    times = {words[0]: float(words[1]) for words in lines if words and words[0] in TIMES}
    if not times:
        print(f"{attempt.name}: {done.stdout[-500:]}{done.stderr[-500:]}", file=sys.stderr)
    return times


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory(prefix="ncu-options.") as name:
        folder = Path(name)
        program = compiled(folder)
        milliseconds(TRIES[0], program, folder)
        print(f"| asked for | {' | '.join(f'{time}, ms' for time in TIMES)} |")
        print(f"|---|{'---|' * len(TIMES)}")
        for attempt in TRIES:
            times = milliseconds(attempt, program, folder)
            cells = (f"{times[time]:.2f}" if time in times else "\u2013" for time in TIMES)
            print(f"| {attempt.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
