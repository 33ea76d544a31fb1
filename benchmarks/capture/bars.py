"""Capture five kinds of models, replay them, and say how each bar of a capture is met.

python benchmarks/capture/bars.py [--size 8] [--device cuda] [--models NAME …] [--json PATH]

On a GPU the time of all captured calls is compared with that of all kernels of a step that
is not captured, by torch.profiler. Each part is printed as it comes, with its seconds: that with
values writes and hashes every input, gigabytes at larger sizes, and is last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch
from models import MODELS
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import profiler
from profiler.runner.capture.folder import read_calls
from profiler.runner.capture.replay import replay_all

STEPS = 8
"""Captured, and run without, in turn."""


IN_CAPTURE = (
    *("step_0_of_a_capture", "timed_step", "profiled_step", "describing_step"),
    *("first_captured_step", "second_captured_step"),
)


class Empty(TorchDispatchMode):
    """What torch itself takes to call a mode for each operator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def captured(make, size, folder, *, values=False):
    """The document of a capture of two steps, after one that is not."""
    torch.manual_seed(0)
    step = make(size)
    step()
    with profiler.capture(folder, values=values) as recording:
        for _ in range(2):
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
    """Milliseconds of a step without a capture, in an empty mode, and in one: medians.

    Signatures are described in the step before the captured ones, and in the first of all, which
    is captured in case that a program has no more.
    """
    torch.manual_seed(0)
    step = make(size)
    step()
    seconds = defaultdict(list)
    for number in range(STEPS):
        seconds["step"].append(_seconds(step))
        with Empty():
            seconds["in_empty_mode"].append(_seconds(step))
        steps = (len(IN_CAPTURE) - 2, len(IN_CAPTURE) + 1)  # its end is after those that are timed
        with profiler.capture(folder / str(number), steps=steps) as recording:
            for name in IN_CAPTURE:
                seconds[name].append(_seconds(step))
                if not recording.has_optimizer:
                    recording.step()
    taken = {f"{name}_ms": 1e3 * statistics.median(times) for name, times in seconds.items()}
    return taken | {"waits": read_calls(folder / str(number))["waits"]}


def _seconds(step):
    """On a CPU of the process, which other programs on the machine lengthen less."""
    clock = time.perf_counter if torch.get_default_device().type == "cuda" else time.process_time
    _wait()
    begin = clock()
    step()
    _wait()
    return clock() - begin


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
    """How a model meets the bars, part by part."""
    taken = overhead(make, size, folder / "time")
    plain = taken["step_ms"]
    first, second = taken["first_captured_step_ms"], taken["second_captured_step_ms"]
    yield {
        **taken,
        "two_captured_steps_by_others": (first + second) / (2 * plain),
        "second_captured_step_by_others": second / plain,
        "step_0_by_others": taken["step_0_of_a_capture_ms"] / plain,
    }
    document, again = (captured(make, size, folder / name) for name in ("a", "b"))
    yield {
        "calls": sum(call["count"] for call in document["calls"]),
        "signatures": len(document["calls"]),
        "random": sum(call["random"] for call in document["calls"]),
        "same_twice": identity(document) == identity(again),
    }
    if torch.get_default_device().type == "cuda":
        yield {"busy_share": busy_share(make, size, document)}
    drawn = replay_all(folder / "a")
    yield {"replayed_drawn": replayed_share(document, drawn), "failures_drawn": _failures(drawn)}
    document = captured(make, size, folder / "values", values=True)
    yield {"bytes_of_values": sum(file.stat().st_size for file in folder.rglob("*.pt"))}
    replays = replay_all(folder / "values")
    compared = [replay for replay in replays if replay.same_bits is not None]
    yield {
        "replayed": replayed_share(document, replays),
        "failures": _failures(replays),
        "compared": len(compared),
        "same_bits": sum(replay.same_bits for replay in compared),
        "other_bits": [replay.operator for replay in compared if not replay.same_bits],
    }


def _failures(replays):
    return [f"{replay.operator}: {replay.failure}" for replay in replays if replay.failure]


def main() -> None:
    """Print the parts of each model, and a row of them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=[make.__name__ for make in MODELS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_default_device(options.device)
    rows = []
    for make in (make for make in MODELS if make.__name__ in options.models):
        row = {"model": make.__name__}
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            for part in bars_of(make, options.size, Path(folder)):
                seconds = time.perf_counter() - begin
                print(f"{make.__name__} ({seconds:.1f} s): {json.dumps(part)}", flush=True)
                row |= part
                begin = time.perf_counter()
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
