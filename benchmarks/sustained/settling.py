"""How clock, power and time of a product move until the power limit holds them.

    python benchmarks/sustained/settling.py [--seconds 8] [--after NAME ...] [--out FILE.json]
    python benchmarks/sustained/settling.py --read FILE.json

The product runs after 3 s of idle, of a kernel that is bound by memory, of itself, and of a larger
product, for which the clock is lower. Written are its bursts of 25 ms (`bursts`: end in s, time of
a launch in µs) and what NVML said every 10 ms (`readings`, from the neighbour on: before 0 s), and
printed are means of 50 ms, or of half a second where a file is read. Then the collector's rule is
applied to what was recorded: when its visit would have ended, and how far it would have been from
the last 3 s.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import torch

from kernels import KERNELS, LONGEST_S
from profiler.runner.device import Device, open_device
from profiler.runner.visits.bursts import LaunchInTurn, burst_of, new_mark
from profiler.runner.visits.power import Reading, mean_of, open_meter
from profiler.runner.visits.sustained import Settling, TimedBurst

PRODUCT = "product 4096, normal"
IDLE = "idle"
BEFORE = (IDLE, "softmax 8192 x 4096", PRODUCT, "product 8192, normal")
BEFORE_S, STEADY_S = 3.0, 3.0
US_PER_S = 1e6


def bursts_of(launch: LaunchInTurn, device: Device, seconds: float) -> list[TimedBurst]:
    """Bursts of a launch for so long, two of them queued ahead."""
    if launch.burst is None:
        launch.burst = burst_of(launch, device)
    marks, done = [new_mark(device)], []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        launch.burst.make()
        marks.append(new_mark(device))
        if len(marks) > 3:
            marks[1].synchronize()
            done.append(TimedBurst(marks[0].elapsed_time(marks[1]) / 1e3, time.monotonic()))
            marks.pop(0)
    return done


def series(
    product: LaunchInTurn, neighbour: LaunchInTurn | None, device: Device, seconds: float
) -> dict[str, Any]:
    """Bursts of the product and readings, after a neighbour (None: idle); times from its begin."""
    with open_meter(device.torch_device).reading() as readings:
        if neighbour is None:
            device.wait()
            time.sleep(BEFORE_S)
        else:
            bursts_of(neighbour, device, BEFORE_S)
        bursts = bursts_of(product, device, seconds)
        device.wait()
    begun_s = bursts[0].ended_s - bursts[0].seconds
    per_launch = US_PER_S / product.burst.launches
    moved = [replace(reading, time_s=round(reading.time_s - begun_s, 4)) for reading in readings]
    return {
        "launches": product.burst.launches,
        "bursts": [
            (round(burst.ended_s - begun_s, 4), round(burst.seconds * per_launch, 4))
            for burst in bursts
        ],
        "readings": [astuple(reading) for reading in moved],
    }


def recorded(found: dict[str, Any]) -> tuple[list[TimedBurst], list[Reading]]:
    """Bursts and readings of a series."""
    per_burst = found["launches"] / US_PER_S
    bursts = [TimedBurst(us * per_burst, ended_s) for ended_s, us in found["bursts"]]
    return bursts, [Reading(*row) for row in found["readings"]]


def show(found: dict[str, Any], step_s: float) -> None:
    """Print means of the steps of a series."""
    begin_s = 0.0
    while begin_s < found["bursts"][-1][0]:
        end_s = begin_s + step_s
        us = mean_of([us for ended_s, us in found["bursts"] if begin_s < ended_s <= end_s])
        read = [Reading(*row) for row in found["readings"] if begin_s < row[0] <= end_s]
        values = (
            *(us, mean_of([r.power_w for r in read]), mean_of([r.clock_mhz for r in read])),
            mean_of([r.temperature_c for r in read]),
        )
        words = ("?" if value is None else f"{value:.5g}" for value in values)
        print(f"  {end_s:.2f} s: {' | '.join(words)}")
        begin_s = end_s


def ruled(found: dict[str, Any], settling: Settling) -> str:
    """What the collector's rule would have made of a series."""
    bursts, readings = recorded(found)
    for number, burst in enumerate(bursts, 1):
        so_far = bursts[:number], [r for r in readings if r.time_s <= burst.ended_s]
        if settling.is_over(burst.ended_s, *so_far):
            break
    span = settling.span(*so_far)
    steady = [b.seconds for b in bursts if b.ended_s > bursts[-1].ended_s - STEADY_S]
    apart = span.burst_s / (sum(steady) / len(steady)) - 1
    words = "settled" if settling.has_settled(span) else "NOT settled"
    return f"ends after {burst.ended_s:.2f} s, {words}, {100 * apart:+.2f} % from the last 3 s"


def main() -> None:
    """Record the series, or read them, and print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--after", nargs="+", default=BEFORE, choices=BEFORE)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read:
        found = json.loads(arguments.read.read_text())
    else:
        device, kernels = open_device("cuda"), {kernel.name: kernel for kernel in KERNELS}
        names = {PRODUCT, *arguments.after} - {IDLE}
        launches = {name: LaunchInTurn(kernels[name].launches()) for name in names}
        for launch in launches.values():
            launch.burst = burst_of(launch, device)
        found = {
            "gpu": torch.cuda.get_device_name(),
            "limit_w": open_meter(device.torch_device).limit_w,
            "after": {
                name: series(launches[PRODUCT], launches.get(name), device, arguments.seconds)
                for name in arguments.after
            },
        }
    if arguments.out:
        arguments.out.write_text(json.dumps(found))
    settling = Settling(LONGEST_S, found["limit_w"])
    for name, each in found["after"].items():
        print(f"{PRODUCT} after {name}: µs | W | MHz | °C")
        show(each, 0.5 if arguments.read else 0.05)
        print(f"  the rule: {ruled(each, settling)}", flush=True)


if __name__ == "__main__":
    main()
