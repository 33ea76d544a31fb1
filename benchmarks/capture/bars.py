"""Capture five kinds of models, replay them, and say how each bar of a capture is met.

python benchmarks/capture/bars.py [--size 8] [--device cuda] [--models NAME …] [--json PATH]

On a GPU the time of all captured calls is compared with that of all kernels of a step that
is not captured, by torch.profiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from models import MODELS
from torch.profiler import ProfilerActivity, profile

import profiler
from profiler.runner.capture.folder import read_calls
from profiler.runner.capture.replay import replay_all

STEPS = 8
"""Captured, and run without, in turn."""


def captured(make, size, folder, *, values):
    """The document of a capture of two steps, after one that is not."""
    torch.manual_seed(0)
    step = make(size)
    with profiler.capture(folder, steps=(1, 3), values=values) as recording:
        for _ in range(3):
            step()
            if not recording.has_optimizer:
                recording.step()
    return read_calls(folder)


def replayed_share(document, replays):
    """Of the calls that launch anything, the share that runs again."""
    lost = sum(
        count
        for reason, counts in document["left_out"].items()
        if reason != "views, sizes and allocations"
        for count in counts.values()
    )
    counts = {replay.call: replay.count for replay in replays if not replay.failure}
    return sum(counts.values()) / (lost + sum(call["count"] for call in document["calls"]))


def overhead(make, size, folder):
    """Milliseconds of a step that is not captured, and of the first and second that are: medians.

    The first of them describes every signature.
    """
    torch.manual_seed(0)
    step = make(size)
    step()
    plain, first, second = [], [], []
    for number in range(STEPS):
        plain.append(_seconds(step))
        with profiler.capture(folder / str(number)):
            first.append(_seconds(step))
            second.append(_seconds(step))
    return tuple(1e3 * statistics.median(times) for times in (plain, first, second))


def _seconds(step):
    _wait()
    begin = time.perf_counter()
    step()
    _wait()
    return time.perf_counter() - begin


def _wait():
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()


def busy_share(make, size, document):
    """Time of the captured calls of a step, by that of all kernels and copies of a step."""
    torch.manual_seed(0)
    step = make(size)
    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(4):
            step()
        torch.cuda.synchronize()
    busy_us = sum(
        event.device_time_total
        for event in recorded.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
    )
    captured_ns = sum(call["time_ns"] for call in document["calls"])
    return (captured_ns / document["steps"]) / (1e3 * busy_us / 4)


def identity(document):
    """Signatures with how often each occurs.

    Without what their elements are like: on a GPU sums of a step differ from run to run, and of
    a mean near 0 all digits do.
    """
    return [
        (call["operator"], _without_values(call["arguments"]), call["count"])
        for call in document["calls"]
    ]


def _without_values(part):
    if isinstance(part, dict):
        return {key: _without_values(value) for key, value in part.items() if key != "values"}
    return [_without_values(item) for item in part] if isinstance(part, list) else part


def bars_of(make, size, folder):
    """How a model meets the bars."""
    document = captured(make, size, folder / "values", values=True)
    first, second = (captured(make, size, folder / n, values=False) for n in ("a", "b"))
    with_values, drawn = replay_all(folder / "values"), replay_all(folder / "a")
    compared = [replay for replay in with_values if replay.same_bits is not None]
    plain, begun, further = overhead(make, size, folder / "time")
    on_gpu = torch.get_default_device().type == "cuda"
    return {
        "model": make.__name__,
        "calls": sum(call["count"] for call in document["calls"]),
        "signatures": len(document["calls"]),
        "replayed": replayed_share(document, with_values),
        "replayed_drawn": replayed_share(first, drawn),
        "compared": len(compared),
        "same_bits": sum(bool(replay.same_bits) for replay in compared),
        "random": sum(call["random"] for call in document["calls"]),
        "same_twice": identity(first) == identity(second),
        "step_ms": plain,
        "first_captured_step_ms": begun,
        "second_captured_step_ms": further,
        "two_captured_steps_by_others": (begun + further) / (2 * plain),
        "second_captured_step_by_others": further / plain,
        "busy_share": busy_share(make, size, first) if on_gpu else None,
        "failures": [f"{r.operator}: {r.failure}" for r in (*with_values, *drawn) if r.failure],
        "other_bits": [r.operator for r in compared if not r.same_bits],
    }


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=[make.__name__ for make in MODELS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_default_device(options.device)
    rows = []
    for make in (make for make in MODELS if make.__name__ in options.models):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(bars_of(make, options.size, Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
