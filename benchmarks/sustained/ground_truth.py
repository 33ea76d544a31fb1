"""The collector `sustained` against a plain loop of each kernel, which shares nothing with it.

    python benchmarks/sustained/ground_truth.py [--seconds 10] [--visits 3] [--kernels NAME ...]
        [--out FILE.json]

Of each kernel: CUDA events around single launches on an idle GPU, a loop of some seconds whose
last half is timed, and visits of the collector. About 17 s a kernel at the power limit; prints a
table and how far both are apart. `loop_moved_pct` is how far the last quarter of the loop is from
the one before: where it moved, the loop had not settled itself. 4 s were too short for that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import cycle
from pathlib import Path

import torch

from kernels import KERNELS, LONGEST_S, Kernel, Launch
from profiler.runner.device import open_device
from profiler.runner.protocol import Job, JobVisit, MeasureSettings
from profiler.runner.visits.bursts import LaunchInTurn
from profiler.runner.visits.sustained import SustainedVisits

CHUNK_S = 0.05
GRAPH_LAUNCHES = 1024
COLD_LAUNCHES = 7
COLUMNS = (
    *("cold_us", "looped_us", "loop_moved_pct", "us", "apart_pct", "power_w", "sampled_power_w"),
    *("sustained_clock_ghz", "power_limited_pct", "temperature_c", "seconds", "sets", "in_graph"),
)


def cold_us(launches: list[Launch]) -> float:
    """Median of single launches, each after a quarter of a second of rest, in µs."""
    times = []
    for launch in [launches[0], *(launches * COLD_LAUNCHES)[:COLD_LAUNCHES]]:
        torch.cuda.synchronize()
        time.sleep(0.05)
        torch.empty(1 << 27, dtype=torch.uint8, device="cuda").sum()  # another content of L2
        torch.cuda._sleep(200_000)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times[1:])


def looped(kernel: Kernel, launches: list[Launch], seconds: float) -> dict[str, float]:
    """Mean time of a launch in the second half of a loop, and how far it moved in it."""
    in_turn = cycle(launches)
    per_step = 1

    def step() -> object:
        return next(in_turn)()

    if kernel.is_short:
        graph = torch.cuda.CUDAGraph()
        per_step = len(launches) * max(1, GRAPH_LAUNCHES // len(launches))
        with torch.cuda.graph(graph):
            for _ in range(per_step):
                step()
        step = graph.replay
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    chunk = max(1, round(CHUNK_S / (time.perf_counter() - begin)))
    events = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(chunk):
            step()
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        if len(events) > 3:
            events[-3].synchronize()
    torch.cuda.synchronize()
    half, last = len(events) // 2, len(events) - 1
    quarter = (half + last) // 2

    def us(first: int, end: int) -> float:
        milliseconds = events[first].elapsed_time(events[end])
        return 1e3 * milliseconds / ((end - first) * chunk * per_step)

    moved_pct = 100 * (us(quarter, last) / us(half, quarter) - 1)
    return {"looped_us": us(half, last), "loop_moved_pct": moved_pct}


def visited(launches: list[Launch], visits: int) -> dict[str, float | None]:
    """Medians of what visits of the collector give; the duration in µs."""
    job = Job(
        "s", "", "sustained", "cuda", 1, "", (), (), settings=MeasureSettings(longest_s=LONGEST_S)
    )
    collector = SustainedVisits(job, open_device("cuda"))
    in_turn = LaunchInTurn(launches)
    records = [collector.make(JobVisit("c", block), in_turn) for block in range(visits)]
    facts = {"us": statistics.median(record["durations_ns"][0] / 1e3 for record in records)}
    for name in records[0]["sustained"]:
        known = [r["sustained"][name] for r in records if r["sustained"][name] is not None]
        facts[name] = statistics.median(known) if known else None
    return facts


def main() -> None:
    """Measure every kernel and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--visits", type=int, default=3)
    parser.add_argument("--kernels", nargs="+", default=[kernel.name for kernel in KERNELS])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    rows = []
    print(f"| kernel | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    with torch.no_grad():
        for kernel in [kernel for kernel in KERNELS if kernel.name in arguments.kernels]:
            launches = kernel.launches()
            for launch in launches:
                launch()
            row = {"kernel": kernel.name, "cold_us": cold_us(launches)}
            row |= looped(kernel, launches, arguments.seconds)
            row |= visited(launches, arguments.visits)
            row["apart_pct"] = 100 * (row["us"] / row["looped_us"] - 1)
            rows.append(row)
            known = ("?" if row[key] is None else f"{row[key]:.5g}" for key in COLUMNS)
            print(f"| {kernel.name} | {' | '.join(known)} |", flush=True)
            del launches
            torch.cuda.empty_cache()
    if arguments.out:
        name = torch.cuda.get_device_name()
        arguments.out.write_text(json.dumps({"gpu": name, "kernels": rows}, indent=1))


if __name__ == "__main__":
    main()
