"""Traces of torch.profiler: one per visit, and a table of the operators in it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path, PurePath
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.runner.device import Device
from profiler.runner.import_path import no_garbage_collection
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.timing import Launch, on_cuda, restore
from profiler.runner.visits import ranges
from profiler.runner.visits.base import SingleVisits

OPERATORS = 30
"""Rows of the table of operators."""
STACK_DEPTH = 8
"""Frames of a stack; calls of an operator that differ in these are rows of their own."""

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_NO_OPERATOR = re.compile(
    r"cu(da)?[A-Z]\w*"  # calls of the CUDA runtime and driver
    r"|.+\(\d+\): .+|<.*|nn\.Module: .*"  # frames of Python, which a trace with stacks holds
    r"|Activity Buffer Request|Buffer Flush|Lazy Function Loading|.* Module Loading"  # overhead
)
_OURS = "runner/visits/traces.py"
"""File whose frames end a stack: what stands below is the same for every launch."""


def launch_in_ranges(launch: Launch, launches: int, device: Device) -> None:
    """Launch so many times in a row, each in its range, and wait only for the last launch."""
    with no_garbage_collection():
        for number in range(launches):
            restore(launch)
            with ranges.launch_range(number):
                launch()
        device.wait()


class TracedVisits(SingleVisits):
    """Visits under torch.profiler, each with a trace: `trace.0.json.gz`, `trace.1.json.gz`, ...

    The profiles hold the stacks of Python, which slows the host down; what runs on a GPU takes as
    long as ever, but gaps between its kernels may grow.
    """

    def __init__(self, job: Job, device: Device) -> None:
        self._launches = job.settings.launches
        self._device = device
        self._folder = Path(job.journal).parent
        # A journal that is continued has traces beside it already.
        self._numbers = count(len([*self._folder.glob("trace.*.json.gz")]))
        self._cuda = on_cuda(device)
        # CUDA graphs do not survive that kineto takes CUPTI down after a profile and up again.
        os.environ.setdefault("TEARDOWN_CUPTI", "0")
        os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
        # The first profile of a process loads kineto and CUPTI, its first range some more of torch.
        with self._profile(), record_function("warm-up"):
            torch.zeros(1, device=device.torch_device).add_(1)
            device.wait()

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Journal fields of a visit: `trace` (file name) and `operators` (see `protocol`)."""
        # The range begins inside the profile: what began before is in no trace.
        with self._profile() as profiler, ranges.visit_range(visit.cell, visit.block, visit.arm):
            launch_in_ranges(launch, self._launches, self._device)
        name = f"trace.{next(self._numbers)}.json.gz"
        profiler.export_chrome_trace(str(self._folder / name))
        return {"trace": name, "operators": self._operators(profiler)}

    def _profile(self) -> profile:
        activities = [ProfilerActivity.CPU]
        return profile(
            activities=[*activities, ProfilerActivity.CUDA] if self._cuda else activities,
            record_shapes=False,
            with_stack=True,
            # Without it, operators have no stack of their call.
            experimental_config=_ExperimentalConfig(verbose=True),
        )

    def _operators(self, profiler: profile) -> list[dict[str, Any]]:
        """Operators with the longest self time, on the device where there is one."""
        try:
            averages = profiler.key_averages(group_by_stack_n=STACK_DEPTH)
        except UnicodeDecodeError:
            # The stack of a module that a launch imported can be random bytes; the trace is whole.
            return []
        rows = [row for row in averages if is_operator(row)]
        rows.sort(key=lambda row: (row.self_device_time_total, row.self_cpu_time_total))
        return [operator(row) for row in rows[: -OPERATORS - 1 : -1]]


def is_operator(row: FunctionEventAvg) -> bool:
    """Whether a row is an operator: no kernel, no range, no frame of Python, no call of CUDA."""
    return (
        row.device_type.name == "CPU"
        and not row.is_user_annotation
        and _NO_OPERATOR.fullmatch(str(row.key)) is None
    )


def operator(row: FunctionEventAvg) -> dict[str, Any]:
    """Journal entry of an operator: OPERATOR_FIELDS, times in microseconds."""
    return {
        "name": row.key,
        "calls": row.count,
        "self_cpu_us": round(row.self_cpu_time_total, 3),
        "cpu_us": round(row.cpu_time_total, 3),
        "self_device_us": round(row.self_device_time_total, 3),
        "device_us": round(row.device_time_total, 3),
        "stack": readable_stack(row.stack or ()),
    }


def readable_stack(frames: Sequence[str]) -> list[str]:
    """Frames `path(line): function` as `function (file:line)`, without the runner's own.

    Paths are left out, they are private. Frames of built-in functions have no file, and hold
    addresses: they are left out, too, and so is what torch could not read.
    """
    stack = []
    for frame in frames:
        match = _FRAME.fullmatch(frame)
        if match is None or not frame.isprintable():
            continue
        if match["file"].endswith(_OURS):
            break
        stack.append(f"{match['function']} ({PurePath(match['file']).name}:{match['line']})")
    return stack
