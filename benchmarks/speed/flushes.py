"""Ways to empty the GPU's caches before a launch, beside ncu's own; needs a GPU, ncu, Triton.

    python benchmarks/speed/flushes.py

A softmax of torch reads an array of 2 to 256 MB and writes as much, five times behind each way, in
random order, under one ncu; and behind ncu's own flush under another. Before the flush the array
was read, with the hint that L2 is to keep it (`evict_last`, as kernels of inductor give it) or
without. For each way: the duration of the softmax over that behind ncu's own, the part of the array
that it read from device memory, what it wrote there over the size of its result, and the
milliseconds that the flush itself takes by CUDA events (without ncu).
"""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import triton
from triton import language as tl

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))

from profiler.collect.ncu import find_ncu  # noqa: E402 - this checkout's
from profiler.parse.ncu_csv import read_ncu_csv  # noqa: E402

ROWS = {f"{megabytes} MB": 128 * megabytes for megabytes in (2, 8, 16, 32, 64, 256)}
"""Rows of COLUMNS floats."""
COLUMNS = 2048
LAUNCHES = 5
READS = ("read", "kept")
"""How the array was read before the flush."""
METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
OWN = "ncu's own"


@triton.jit
def _read_and_keep(source, result, COLUMNS: tl.constexpr):  # noqa: N803
    row = tl.program_id(0)
    values = tl.load(source + row * COLUMNS + tl.arange(0, COLUMNS), eviction_policy="evict_last")
    tl.store(result + row, tl.sum(values, 0))


def reset_persisting_lines() -> None:
    """Reset persisting lines of L2 to normal."""
    error = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
    if error:
        raise RuntimeError(f"cuCtxResetPersistingL2Cache: error {error}")


def flushes() -> Mapping[str, Callable[[], object]]:
    """Each way by its name."""
    l2_words = torch.cuda.get_device_properties(0).L2_cache_size // 4
    words = torch.zeros(12 * l2_words, device="cuda")
    result = torch.zeros((), device="cuda")

    def read(sizes: int) -> None:
        torch.sum(words[: sizes * l2_words], dim=0, out=result)

    def write(sizes: int) -> None:
        words[: sizes * l2_words].zero_()

    return {
        "none": lambda: None,
        "2 L2 written": lambda: write(2),
        "3 L2 read": lambda: read(3),
        "12 L2 read": lambda: read(12),
        "persisting lines reset": reset_persisting_lines,
        "persisting lines reset, 2 L2 written": lambda: (reset_persisting_lines(), write(2)),
        "persisting lines reset, 2 L2 read": lambda: (reset_persisting_lines(), read(2)),
        "persisting lines reset, 3 L2 read": lambda: (reset_persisting_lines(), read(3)),
    }


def launch_all(ways: Mapping[str, Callable[[], object]]) -> None:
    """Make the launches, each in a range that names the way, the size and how it was read."""
    arrays = {size: torch.randn(rows, COLUMNS, device="cuda") for size, rows in ROWS.items()}
    results = {size: torch.empty_like(array) for size, array in arrays.items()}
    sums = torch.empty(max(ROWS.values()), device="cuda")
    visits = [(way, size, kind) for way in ways for size in ROWS for kind in READS] * LAUNCHES
    random.Random(0).shuffle(visits)  # noqa: S311 - an order, not a secret
    for way, size, kind in visits:
        for _ in range(2):
            if kind == "kept":
                _read_and_keep[(ROWS[size],)](arrays[size], sums, COLUMNS=COLUMNS)
            else:
                torch.softmax(arrays[size], dim=1, out=results[size])
        ways[way]()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(f"cell {way}|{kind}|{size}")
        torch.softmax(arrays[size], dim=1, out=results[size])
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()


def milliseconds(flush: Callable[[], object]) -> float:
    """Milliseconds of a flush, by CUDA events around ten."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush()
    begin.record()
    for _ in range(10):
        flush()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 10


def under_ncu(argument: str, cache_control: str, folder: Path) -> Mapping[str, list[float]]:
    """Medians of each metric, by the name of the range."""
    log = folder / f"{argument}.csv"
    argv = [
        *(str(find_ncu()), "--config-file", "off", "--clock-control", "none", "--csv"),
        *("--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)),
        *("--cache-control", cache_control, "--log-file", str(log), "--nvtx"),
        *("--nvtx-include", "regex:cell.*/", "-f", "-o", str(folder / argument)),
        *(sys.executable, str(HERE), argument),
    ]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    launches = read_ncu_csv(log).launches
    ranges = launches["nvtx"].astype(str).str.extract(r"cell ([^|]*\|\w+\|\d+ MB)")[0]
    medians = launches.groupby(ranges)[list(METRICS)].median()
    return {str(name): [float(value) for value in row] for name, row in medians.iterrows()}


def print_tables(own: Mapping[str, list[float]], seen: Mapping[str, list[float]]) -> None:
    """Print a table for each metric and way of reading."""
    takes = {OWN: 0.0} | {way: milliseconds(flush) for way, flush in flushes().items()}
    for place, title in enumerate(("duration", "read", "written")):
        for kind in READS:
            print(f"\n| {title} (array {kind} before) | {' | '.join(ROWS)} | flush, ms |")
            print(f"|---|{'---|' * len(ROWS)}---|")
            for way, flush_ms in takes.items():
                ratios = []
                for size, rows in ROWS.items():
                    medians = (own if way == OWN else seen)[f"{way}|{kind}|{size}"]
                    over = rows * COLUMNS * 4 if place else own[f"{OWN}|{kind}|{size}"][0]
                    ratios.append(f"{medians[place] / over:.3f}")
                print(f"| {way} | {' | '.join(ratios)} | {flush_ms:.3f} |")


def main() -> None:
    """Print tables."""
    if sys.argv[1:] == ["own"]:
        launch_all({OWN: lambda: None})
    elif sys.argv[1:] == ["ways"]:
        launch_all(flushes())
    else:
        with tempfile.TemporaryDirectory(prefix="flushes.") as name:
            folder = Path(name)
            print_tables(under_ncu("own", "all", folder), under_ncu("ways", "none", folder))


if __name__ == "__main__":
    main()
